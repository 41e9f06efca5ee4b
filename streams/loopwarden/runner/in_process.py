"""The twin without a broker: the same events, folded right here, give the same verdicts at once.

The only module of the runner library that imports detection.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple

from loopwarden.detection.partition import fold_batch
from loopwarden.runner.bus import Deliver, OnOffset
from loopwarden.runner.outbox import now_ms
from loopwarden.runner.stats import BusStats
from loopwarden_schemas.codec import encode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import Event

__all__ = ["InProcessBus"]

TOPIC = "in-process"


class _Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


class _Rows:
    """Rows of the one partition that there is. Nothing crashes in between, so they are simply replaced."""

    def __init__(self) -> None:
        self.history_rows: dict[bytes, bytes] = {}
        self.window_rows: dict[bytes, bytes] = {}

    def history(self, key: bytes) -> bytes | None:
        return self.history_rows.get(key)

    def window(self, key: bytes) -> bytes | None:
        return self.window_rows.get(key)


class InProcessBus:
    """Folds events as they are published, in the thread that publishes them, through the very bytes of the wire.

    Args:
        configuration: What counts as a loop.

    Attributes:
        deliver: Told of every verdict.
    """

    synchronous = True

    def __init__(self, configuration: Configuration) -> None:
        self.deliver: Deliver = _nowhere
        self._configuration = configuration
        self._rows = _Rows()
        self._offset = -1
        self._dropped = 0
        self._verdicts = 0
        self._queue: deque[tuple[Event, OnOffset | None]] = deque()
        self._folding = False
        self._lock = threading.RLock()

    def publish(self, event: Event, on_offset: OnOffset | None = None) -> None:
        """Folds an event and delivers what comes of it, before it returns."""
        with self._lock:
            self._queue.append((event, on_offset))
            if self._folding:
                return  # an answer to a verdict that is being delivered: its turn comes
            self._folding = True
            try:
                while self._queue:
                    self._fold(*self._queue.popleft())
            finally:
                self._folding = False

    def _fold(self, event: Event, on_offset: OnOffset | None) -> None:
        self._offset += 1
        record = _Record(self._offset, now_ms(), event.key.encode("utf-8", "surrogatepass"), encode_event(event))
        before = self._offset - 1
        batch = fold_batch(self._rows, TOPIC, 0, [record], self._configuration, watermark=before, expiry=False)
        for rows, changed in ((self._rows.history_rows, batch.history), (self._rows.window_rows, batch.window)):
            for row_key, row in changed.items():
                if row is None:
                    rows.pop(row_key, None)
                else:
                    rows[row_key] = row
        self._dropped += len(batch.dead_letters)
        if on_offset is not None:
            on_offset(None if batch.dead_letters else self._offset)
        for key, verdict in batch.verdicts:
            self._verdicts += 1
            self.deliver(key.decode("utf-8", "surrogatepass"), verdict)

    def unfollow(self, key: str) -> None:
        """Nothing to leave."""

    def flush(self, timeout: float) -> bool:
        """True: nothing waits here."""
        return True

    def close(self, timeout: float) -> None:
        """Nothing to close."""

    def stats(self) -> BusStats:
        """Counters since the start."""
        published = self._offset + 1 - self._dropped
        return BusStats(published=published, dropped=self._dropped, verdicts=self._verdicts, connected=True)


def _nowhere(key: str, verdict: object) -> None:
    """Before the warden is there."""
