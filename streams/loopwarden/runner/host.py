"""What a run needs of its process's client."""

from __future__ import annotations

import itertools
import logging
import uuid
from dataclasses import dataclass

from loopwarden.runner.bus import Bus, OnOffset
from loopwarden.runner.families import Families
from loopwarden.runner.reducer import Reducer
from loopwarden.runner.settings import RunnerSettings
from loopwarden_schemas.events import Event

__all__ = ["Counters", "Host"]

log = logging.getLogger(__name__)


@dataclass
class Counters:
    """What happened to calls, see ``RunnerStats``."""

    calls: int = 0
    refused: int = 0
    unanswered: int = 0
    failures: int = 0


class Host:
    """The parts that all runs of a process share.

    Args:
        settings: How the runner is set up.
        bus: Where events go.

    Attributes:
        settings: As given.
        bus: As given; another one after a fork.
        families: Aborts of whole families.
        reducer: Reduces large results.
        counters: What happened to calls.
    """

    def __init__(self, settings: RunnerSettings, bus: Bus) -> None:
        self.settings = settings
        self.bus = bus
        self.families = Families()
        self.reducer = Reducer()
        self.counters = Counters()
        self._name_writer()

    def publish(self, event: Event, on_offset: OnOffset | None = None) -> None:
        """Hands an event to the bus."""
        self.bus.publish(event, on_offset)

    def new_id(self) -> str:
        """An id that is unique, also beyond this process."""
        # Not a uuid4: asking the system for random bytes gives up the interpreter lock.
        return f"{self._writer}-{next(self._numbers)}"

    def failed(self, what: str, error: Exception) -> None:
        """The library's own code failed: counted and logged, by its type only, for its text may hold content."""
        self.counters.failures += 1
        debug = log.isEnabledFor(logging.DEBUG)
        log.error("%s: the library failed with %s", what, type(error).__name__, exc_info=debug)

    def after_fork(self, bus: Bus) -> None:
        """In a child process: threads and sockets stayed with the parent, and so does what is queued."""
        self.bus = bus
        self.families.after_fork()
        self.reducer = Reducer()
        self._name_writer()

    def _name_writer(self) -> None:
        self._writer = uuid.uuid4().hex[:16]
        self._numbers = itertools.count()
