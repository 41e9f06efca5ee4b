"""What a detector looks at, and what it finds."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from loopwarden.detection.documented.history import History
from loopwarden_schemas.verdicts import Level

__all__ = ["Finding", "Look"]


class Look(NamedTuple):
    """One call before it runs, seen against its history (rule 5).

    Attributes:
        history: The run's ring.
        tool: Tool of the call.
        signature: Signature of the call.
        poll: It is a known poll.
        repeats: Records of this signature (R).
        streak: No-progress streak of this signature (N).
        outcome: The outcome of that streak, empty where there is none.
    """

    history: History
    tool: str
    signature: bytes
    poll: bool
    repeats: int
    streak: int
    outcome: bytes


class Finding(Struct, frozen=True):
    """A loop.

    Attributes:
        level: warning or critical.
        detector: The rule.
        count: How often.
        message: For the model.
        warning_key: Warnings of one key are de-duplicated (rule 6).
        paired_tool: The other tool of a ping-pong.
    """

    level: Level
    detector: str
    count: int
    message: str
    warning_key: tuple[object, ...]
    paired_tool: str | None = None
