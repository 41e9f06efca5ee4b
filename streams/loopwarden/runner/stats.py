"""How the library itself is doing in its process."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BusStats", "RunnerStats"]


@dataclass(frozen=True, kw_only=True)
class BusStats:
    """Counters since the process started.

    Attributes:
        published: Events acknowledged by the broker.
        dropped: Events dropped: the queue was full, the broker refused them, or the process ended first.
        queued: Events that wait now.
        queue_high: Most events that ever waited.
        publish_seconds: Sum of the times from an event to its acknowledgement, seconds.
        publish_max_ms: The longest of them, milliseconds.
        verdicts: Verdicts received on runs of this process.
        connected: The broker took the last batch of events.
    """

    published: int = 0
    dropped: int = 0
    queued: int = 0
    queue_high: int = 0
    publish_seconds: float = 0.0
    publish_max_ms: int = 0
    verdicts: int = 0
    connected: bool = False


@dataclass(frozen=True, kw_only=True)
class RunnerStats(BusStats):
    """The same, and what happened to calls.

    Attributes:
        calls: Calls decided about.
        refused: Calls refused, those that ended a run among them.
        unanswered: Calls on which no verdict came in time (``strict``).
        unreduced: Results published without their outcome: too many large ones waited, or they could not be read.
        failures: Times that the library's own code failed; the call went on unjudged.
    """

    calls: int = 0
    refused: int = 0
    unanswered: int = 0
    unreduced: int = 0
    failures: int = 0
