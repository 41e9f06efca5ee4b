"""What a call costs that ends in a certain way: the table of progress, 5."""

from __future__ import annotations

from typing import NamedTuple

from loopwarden.detection.progress.body import (
    CALL,
    CLASS,
    EFFECT,
    KIND,
    MISSING,
    NO_CLASS,
    NO_OUTCOME,
    OUTCOME,
    SEND,
    TRANSIENT,
    WAIT,
    Body,
)
from loopwarden.detection.progress.memory import entry_call, entry_outcome, entry_time, newest
from loopwarden.detection.progress.reasons import Reason
from loopwarden_schemas.progress_settings import ProgressSettings

__all__ = ["NEWS", "Price", "price"]


class Price(NamedTuple):
    """What a call costs, and why.

    Attributes:
        points: In quarters.
        reason: Why.
    """

    points: int
    reason: Reason


_WRITES = frozenset([EFFECT, SEND])
NEWS = Price(0, Reason.NEWS)
_UNKNOWN = Price(0, Reason.UNKNOWN)
_RE_CHECK = Price(0, Reason.RE_CHECK)
_NEW_FAILURE = Price(0, Reason.NEW_FAILURE)
_RE_READ = Price(0, Reason.RE_READ)


def price(
    body: Body,
    settings: ProgressSettings,
    *,
    tool: int,
    call: bytes,
    target: bytes,
    traits: int,
    time: int,
    outcome: bytes,
    class_: bytes,
    failed: int,
) -> Price:
    """Prices a call as it ended, or as it is expected to end; the call itself is not in memory (progress, 5).

    Args:
        body: The run.
        settings: Parameters.
        tool: Place of the call's tool, -1 for one that is not in memory.
        call: Its fingerprint.
        target: Fingerprint of its target.
        traits: Its kind, and whether it waits.
        time: When it was made, epoch milliseconds.
        outcome: Its outcome.
        class_: Its class of failure.
        failed: How it ended.
    """
    if outcome == NO_OUTCOME:
        known = newest(body.calls, CALL, call, len(body.tools)) >= 0
        if known or newest(body.targets, CALL, target, len(body.tools)) >= 0:
            return Price(settings.waiting, Reason.UNANSWERED)
        return _UNKNOWN
    if failed:
        return _failure(body, settings, tool, call, traits, time, outcome, class_, failed)
    return _success(body, settings, tool, call, target, traits, time, outcome)


def _failure(
    body: Body,
    settings: ProgressSettings,
    tool: int,
    call: bytes,
    traits: int,
    time: int,
    outcome: bytes,
    class_: bytes,
    failed: int,
) -> Price:
    same = _same(body, tool, call, outcome, failed)
    if same >= 0 and same < len(body.tools) - body.fresh:
        return _RE_CHECK
    known = same if same >= 0 else _alike(body, tool, call, class_)
    if known < 0:
        return _NEW_FAILURE
    if failed == MISSING:
        return Price(settings.fault, Reason.MISSING)
    if failed == TRANSIENT:
        if time - entry_time(body, known) >= settings.pause_ms:
            return Price(settings.spaced, Reason.PAUSED)
        return Price(settings.waiting, Reason.WAITING)
    if same >= 0:
        return Price(settings.fault, Reason.FAILED)
    return Price(settings.thrash, Reason.THRASH)


def _success(
    body: Body,
    settings: ProgressSettings,
    tool: int,
    call: bytes,
    target: bytes,
    traits: int,
    time: int,
    outcome: bytes,
) -> Price:
    kind = traits & KIND
    count = len(body.tools)
    same = _same(body, tool, call, outcome, 0)
    if same >= 0:
        if same < count - body.fresh and kind not in _WRITES:
            return _RE_CHECK
        if kind in _WRITES:
            return Price(settings.fault, Reason.REWRITTEN)
        if same < count - body.recent:
            return _RE_READ
        waits = traits & WAIT
        if time - entry_time(body, same) >= settings.pause_ms:
            return Price(settings.spaced if waits else settings.waiting, Reason.PAUSED)
        if waits:
            return Price(settings.waiting, Reason.WAITING)
        return Price(settings.repeat, Reason.REPEAT)
    if call == target or not _reworded(body, tool, call, target, outcome, kind):
        return NEWS
    points = settings.reworded
    if kind == EFFECT:
        # Other words written are another write: such writes alone never lead past a warning.
        points = min(points, max(0, settings.warning - body.points))
    return Price(points, Reason.REWORDED)


def _same(body: Body, tool: int, call: bytes, outcome: bytes, failed: int) -> int:
    """The newest entry with this call and outcome, -1 for none."""
    place = newest(body.calls, CALL, call, len(body.tools))
    while place >= 0:
        if (
            entry_outcome(body, place) == outcome
            and body.tools[place] == tool
            and bool(body.flags[place] & MISSING) == bool(failed)
        ):
            return place
        place = newest(body.calls, CALL, call, place)
    return -1


def _alike(body: Body, tool: int, call: bytes, class_: bytes) -> int:
    """The newest entry that is another call of the tool and failed in the same class, -1 for none."""
    if class_ == NO_CLASS:
        return -1
    place = newest(body.classes, CLASS, class_, len(body.tools))
    while place >= 0:
        if body.tools[place] == tool and body.flags[place] & MISSING and entry_call(body, place) != call:
            return place
        place = newest(body.classes, CLASS, class_, place)
    return -1


def _reworded(body: Body, tool: int, call: bytes, target: bytes, outcome: bytes, kind: int) -> bool:
    """Whether a call in other words to the same target had this outcome; of a send only the target counts."""
    count = len(body.tools)
    place = newest(body.targets, CALL, target, count)
    if kind == SEND and place >= 0 and body.tools[place] == tool and not body.flags[place] & MISSING:
        return True
    width = OUTCOME
    while place >= 0:
        if (
            body.outcomes[place * width : place * width + width] == outcome
            and body.tools[place] == tool
            and not body.flags[place] & MISSING
            and entry_call(body, place) != call
        ):
            return True
        place = newest(body.targets, CALL, target, place)
    return False
