"""A run's events on their way out: stamped, and in the order in which they happened."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from loopwarden.runner.bus import OnOffset
from loopwarden_schemas.events import Event

__all__ = ["Outbox", "now_ms"]

Publish = Callable[[Event, OnOffset | None], None]


def now_ms() -> int:
    """Epoch milliseconds."""
    return int(time.time() * 1000)


class Outbox:
    """Stamps a run's events and hands them on in order, also where one of them is still being reduced.

    Args:
        agent_id: The agent.
        parent_run_id: The run that started this one.
        root_run_id: The run at the top of the family.
        session_id: The session.
        new_event_id: Gives ids that are unique, also beyond this process.
        publish: Where events go.
    """

    def __init__(
        self,
        *,
        agent_id: str | None,
        parent_run_id: str | None,
        root_run_id: str | None,
        session_id: str | None,
        new_event_id: Callable[[], str],
        publish: Publish,
    ) -> None:
        self._agent_id = agent_id
        self._parent_run_id = parent_run_id
        self._root_run_id = root_run_id
        self._session_id = session_id
        self._new_event_id = new_event_id
        self._publish = publish
        self._seq = -1
        self._held: deque[tuple[Event, OnOffset | None, Future[None] | None]] = deque()
        # Reentrant: the twin in the process answers with a verdict while the event is being handed over.
        self._lock = threading.RLock()

    def put(self, event: Event, on_offset: OnOffset | None = None, *, reducing: Future[None] | None = None) -> None:
        """Hands over an event.

        Args:
            event: The event; what every event carries is filled in.
            on_offset: Told where it stands.
            reducing: It is complete only when this is done; whatever comes after it waits.
        """
        with self._lock:
            self._seq += 1
            event.seq = self._seq
            event.event_id = self._new_event_id()
            event.ts = now_ms()
            event.agent_id = self._agent_id
            event.parent_run_id = self._parent_run_id
            event.root_run_id = self._root_run_id
            event.session_id = self._session_id
            if reducing is None and not self._held:
                self._publish(event, on_offset)
                return
            self._held.append((event, on_offset, reducing))
        if reducing is not None:
            reducing.add_done_callback(self._drain)

    def after_fork(self) -> None:
        """In a child process: what is held belongs to the parent, and so does the lock."""
        self._lock = threading.RLock()
        self._held.clear()

    def _drain(self, _: Future[None]) -> None:
        with self._lock:
            while self._held:
                event, on_offset, reducing = self._held[0]
                if reducing is not None and not reducing.done():
                    return
                self._held.popleft()
                self._publish(event, on_offset)
