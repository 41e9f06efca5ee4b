"""Why a finished step cost what it cost (progress, 5)."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["LAST_NEUTRAL", "WORDS", "Reason"]


class Reason(IntEnum):
    """Reasons: news, neutral ones, costly ones. The value is the place in a body's tally: add members at the end."""

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


LAST_NEUTRAL = Reason.RE_READ
"""Up to here a step is news, or neither news nor waste; above, it is waste. (A set would hash an enum in Python.)"""

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
