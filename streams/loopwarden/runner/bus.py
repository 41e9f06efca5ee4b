"""The seam between runs and the world: Kafka in production, a fold in the process for tests and single scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loopwarden.runner.stats import BusStats
from loopwarden_schemas.events import Event
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Bus", "Deliver", "OnOffset"]

OnOffset = Callable[[int | None], None]
"""Called with the offset of a published event, or None if it was dropped; from the bus's thread."""
Deliver = Callable[[str, Verdict], None]
"""Called with the message key and a verdict on a run of that key; from the bus's thread. Never raises."""


class Bus(Protocol):
    """Carries events out and verdicts in. Nothing here raises; nothing but ``flush`` and ``close`` blocks.

    Attributes:
        synchronous: An event's verdicts are delivered before ``publish`` returns.
    """

    synchronous: bool

    def publish(self, event: Event, on_offset: OnOffset | None = None) -> None:
        """Hands over an event. Events of one key keep their order; verdicts on that key are followed from then on."""

    def unfollow(self, key: str) -> None:
        """No run of this process has that key any more; what was handed over still goes out."""

    def flush(self, timeout: float) -> bool:
        """Waits until all that was handed over is acknowledged or dropped; whether it was, in so many seconds."""

    def close(self, timeout: float) -> None:
        """Flushes within so many seconds, and stops."""

    def stats(self) -> BusStats:
        """Counters since the start."""
