"""Why a finished step cost what it cost (progress, 5)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["NEUTRAL", "WORDS", "Reason"]


class Reason(IntEnum):
    """Reasons; the value is the place in a body's tally, so members are only added at the end."""

    NEWS = 0
    UNKNOWN = 1
    RE_CHECK = 2
    NEW_FAILURE = 3
    RE_READ = 4
    REPEAT = 5
    FAILED = 6
    THRASH = 7
    REWRITTEN = 8
    MISSING = 9
    WAITING = 10
    PAUSED = 11
    REWORDED = 12
    UNANSWERED = 13

    @property
    def word(self) -> str:
        """The name in the rule book."""
        return self.name.lower().replace("_", "-")


NEUTRAL = frozenset([Reason.UNKNOWN, Reason.RE_CHECK, Reason.NEW_FAILURE, Reason.RE_READ])
"""Neither news nor waste."""

WORDS: tuple[tuple[Reason, str], ...] = (
    (Reason.REPEAT, "repeated"),
    (Reason.FAILED, "failed again"),
    (Reason.THRASH, "failed alike"),
    (Reason.REWRITTEN, "written or sent again"),
    (Reason.MISSING, "to a missing tool"),
    (Reason.WAITING, "unchanged waits"),
    (Reason.PAUSED, "unchanged after a pause"),
    (Reason.REWORDED, "reworded"),
    (Reason.UNANSWERED, "unanswered"),
)
"""How a tally is told to the model, in this order."""
