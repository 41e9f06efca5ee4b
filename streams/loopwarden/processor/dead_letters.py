"""Dead letters: what could not be taken, with its original bytes and headers, the reason beside them.

Nothing is dropped, and nothing of the content is repeated outside of it: the reason names a field, and its value only
where that is an id or a type, never an argument or a result.
"""

from __future__ import annotations

from collections import deque

from loopwarden.detection.partition import Batch, DeadLetter
from loopwarden.processor.errors import TooManyRejected

__all__ = ["RejectionLimit", "headers_of"]

_PREFIX = "loopwarden."


def headers_of(letter: DeadLetter, topic: str, partition: int) -> list[tuple[str, bytes]]:
    """Headers of a dead letter: those of the record, then why, and where it stood."""
    record = letter.record
    why = {
        "field": letter.field,
        "reason": letter.reason,
        "value": letter.value,
        "topic": topic,
        "partition": str(partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp),
    }
    ours = [(_PREFIX + name, text.encode("utf-8", "backslashreplace")) for name, text in why.items() if text]
    return [*record.headers, *ours]


class RejectionLimit:
    """Stops a worker that rejects nearly everything, before it does: more likely it is wrong than all runners.

    Args:
        ratio: Share of rejected events above which it stops; 1 never stops.
        window: Number of events, at least, that the share is taken over.
    """

    def __init__(self, ratio: float, window: int) -> None:
        self._ratio = ratio
        self._window = window
        self._recent: deque[tuple[int, int]] = deque()
        self._events = 0
        self._rejected = 0

    def check(self, batch: Batch) -> None:
        """Counts a batch that is about to be written.

        Raises:
            TooManyRejected: The share is above the limit.
        """
        # A newer runner's event types must not stop every older worker: they do not count.
        letters = [letter for letter in batch.dead_letters if not letter.unknown_type]
        rejected = len(letters)
        events = rejected + sum(batch.events.values())
        self._recent.append((events, rejected))
        self._events += events
        self._rejected += rejected
        while self._recent and self._events - self._recent[0][0] >= self._window:
            events, rejected = self._recent.popleft()
            self._events -= events
            self._rejected -= rejected
        if self._ratio < 1 and self._events >= self._window and self._rejected > self._ratio * self._events:
            example = letters[0] if letters else None
            raise TooManyRejected(
                f"{self._rejected} of the last {self._events} events were rejected"
                + (f", the latest because {example.field} {example.reason}" if example else ""),
                hint="is this worker older than its runners, or the topic another one? nothing of it was committed",
            )
