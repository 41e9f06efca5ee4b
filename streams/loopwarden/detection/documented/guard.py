"""The post-compaction guard (rule 7): one a run, armed by a compaction, gone after ``windowSize`` outcomes."""

from __future__ import annotations

from msgspec import Struct

from loopwarden_schemas.verdicts import COMPACTION_LOOP_PERSISTED

__all__ = ["DETECTOR", "Guard", "message"]

DETECTOR = COMPACTION_LOOP_PERSISTED


class Guard(Struct, array_like=True):
    """The window since the arming.

    An abort needs all outcomes of the window to be the same triple, so the first one and whether all were equal say
    as much as a list would, and stay small whatever ``windowSize`` is.

    Attributes:
        remaining: Outcomes still to be seen.
        triple: Tool, arguments and outcome of the first one; empty before it.
        equal: How many were seen that all equal the first; -1 once one differed.
    """

    remaining: int
    triple: bytes = b""
    equal: int = 0

    def observe(self, triple: bytes, window: int) -> int:
        """Takes one outcome.

        Args:
            triple: Tool, arguments and outcome.
            window: ``windowSize`` now.

        Returns:
            The count to abort with, 0 for none.
        """
        self.remaining -= 1
        if not self.triple:
            self.triple, self.equal = triple, 1
        elif self.equal > 0 and triple == self.triple:
            self.equal += 1
        else:
            self.equal = -1
        return self.equal if self.equal >= window else 0


def message(tool: str, count: int) -> str:
    """What the run is ended with."""
    return (
        f"{tool} was called {count} times with identical arguments and identical results right after the context was "
        f"compacted (guard window {count}): the compaction did not break the loop."
    )
