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
    SEND,
    TRANSIENT,
    WAIT,
    Body,
    Pending,
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


def price(body: Body, settings: ProgressSettings, call: Pending) -> Price:
    """Prices a call as it ended, or as it is expected to end (progress, 5).

    Args:
        body: The run; the call is not in its memory.
        settings: Parameters.
        call: The call, with its outcome.
    """
    if call.outcome == NO_OUTCOME:
        known = newest(body.calls, CALL, call.call, len(body.tools)) >= 0
        if known or newest(body.targets, CALL, call.target, len(body.tools)) >= 0:
            return Price(settings.waiting, Reason.UNANSWERED)
        return _UNKNOWN
    return _failure(body, settings, call) if call.failed else _success(body, settings, call)


def _failure(body: Body, settings: ProgressSettings, call: Pending) -> Price:
    same = _same(body, call)
    if same >= 0 and same < len(body.tools) - body.fresh:
        return _RE_CHECK
    known = same if same >= 0 else _alike(body, call)
    if known < 0:
        return _NEW_FAILURE
    if call.failed == MISSING:
        return Price(settings.fault, Reason.MISSING)
    if call.failed == TRANSIENT:
        if call.time - entry_time(body, known) >= settings.pause_ms:
            return Price(settings.spaced, Reason.PAUSED)
        return Price(settings.waiting, Reason.WAITING)
    if same >= 0:
        return Price(settings.fault, Reason.FAILED)
    return Price(settings.thrash, Reason.THRASH)


def _success(body: Body, settings: ProgressSettings, call: Pending) -> Price:
    same = _same(body, call)
    kind = call.traits & KIND
    if same >= 0:
        writes = kind in _WRITES
        if same < len(body.tools) - body.fresh and not writes:
            return _RE_CHECK
        if writes:
            return Price(settings.fault, Reason.REWRITTEN)
        if same < len(body.tools) - body.recent:
            return _RE_READ
        waits = call.traits & WAIT
        if call.time - entry_time(body, same) >= settings.pause_ms:
            return Price(settings.spaced if waits else settings.waiting, Reason.PAUSED)
        if waits:
            return Price(settings.waiting, Reason.WAITING)
        return Price(settings.repeat, Reason.REPEAT)
    if call.call == call.target or not _reworded(body, call):
        return NEWS
    points = settings.reworded
    if kind == EFFECT:
        # Other words written are another write: such writes alone never lead past a warning.
        points = min(points, max(0, settings.warning - body.points))
    return Price(points, Reason.REWORDED)


def _same(body: Body, call: Pending) -> int:
    """The newest entry with this call and outcome, -1 for none."""
    place = newest(body.calls, CALL, call.call, len(body.tools))
    while place >= 0:
        if (
            entry_outcome(body, place) == call.outcome
            and body.tools[place] == call.tool
            and bool(body.flags[place] & MISSING) == bool(call.failed)
        ):
            return place
        place = newest(body.calls, CALL, call.call, place)
    return -1


def _alike(body: Body, call: Pending) -> int:
    """The newest entry that is another call of the tool and failed in the same class, -1 for none."""
    if call.class_ == NO_CLASS:
        return -1
    place = newest(body.classes, CLASS, call.class_, len(body.tools))
    while place >= 0:
        if body.tools[place] == call.tool and body.flags[place] & MISSING and entry_call(body, place) != call.call:
            return place
        place = newest(body.classes, CLASS, call.class_, place)
    return -1


def _reworded(body: Body, call: Pending) -> bool:
    """Whether a call in other words to the same target had this outcome; of a send only the target counts."""
    place = newest(body.targets, CALL, call.target, len(body.tools))
    newest_sent = call.traits & KIND == SEND
    while place >= 0:
        if body.tools[place] == call.tool and not body.flags[place] & MISSING:
            if newest_sent:
                return True
            if entry_outcome(body, place) == call.outcome and entry_call(body, place) != call.call:
                return True
        newest_sent = False
        place = newest(body.targets, CALL, call.target, place)
    return False
