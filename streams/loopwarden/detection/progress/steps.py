"""Steps: opened by calls, answered by results, closed once, with a price or with news (progress, 5 and 6)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loopwarden.detection.progress import memory
from loopwarden.detection.progress.body import (
    BATCHED,
    EFFECT,
    FIRST,
    KIND,
    SEND,
    TRAITS,
    WAIT,
    Body,
    Pending,
)
from loopwarden.detection.progress.prices import Price, price
from loopwarden.detection.progress.reasons import NEUTRAL, Reason
from loopwarden_schemas.progress_settings import QUARTERS, ProgressSettings

__all__ = ["Closed", "close_all", "close_batch", "close_single", "find", "joins_batch", "make_room", "take_out"]

_TALLY_LIMIT = 9_999
_REASONS = len(Reason)


class Closed(NamedTuple):
    """A step that was closed.

    Attributes:
        reason: Why it cost what it cost.
        points: Its price in points; what news took off at most, negative.
    """

    reason: Reason
    points: float


def make_room(body: Body, settings: ProgressSettings, batch: bytes) -> list[Closed]:
    """Closes what a new call closes (progress, 6a).

    Args:
        body: The run.
        settings: Parameters.
        batch: The call's batch, empty for none.
    """
    pending = body.pending
    if not pending:
        return []
    closed: list[Closed] = []
    if batch and batch == body.batch:
        # One more call of the same decision closes nothing, but what no batch can hold must not grow without end.
        singles = [call for call in pending if not call.traits & BATCHED]
        if len(pending) - len(singles) >= settings.batch_max and len(singles) >= settings.open_max:
            closed.append(close_single(body, settings, singles[0]))
        return closed
    if body.batch:
        closed.append(close_batch(body, settings))
    while len(body.pending) >= settings.open_max:
        closed.append(close_single(body, settings, body.pending[0]))
    return closed


def joins_batch(body: Body, settings: ProgressSettings, batch: bytes) -> bool:
    """Whether a call becomes a member of a batch: of the open one, or of one that it opens."""
    if not batch:
        return False
    if batch != body.batch:
        return True
    return sum(1 for call in body.pending if call.traits & BATCHED) < settings.batch_max


def find(body: Body, tool: int, call: bytes | None, call_id: bytes) -> Pending | None:
    """The newest open, unanswered call that a result belongs to (progress, 6).

    Args:
        body: The run.
        tool: Place of the result's tool.
        call: Fingerprint of its call, None where the result does not say: then the call id decides.
        call_id: First bytes of the hashed call id, empty for none.
    """
    for pending in reversed(body.pending):
        if pending.ended or pending.tool != tool:
            continue
        if call is None:
            if call_id and pending.call_id == call_id:
                return pending
        elif pending.call == call and (not call_id or not pending.call_id or pending.call_id == call_id):
            return pending
    return None


def take_out(body: Body, call: Pending) -> None:
    """Takes a call out that was refused: a refusal is no result."""
    _remove(body, call)
    if call.traits & BATCHED and not any(other.traits & BATCHED for other in body.pending):
        body.batch = b""


def close_all(body: Body, settings: ProgressSettings) -> list[Closed]:
    """Closes every open step, oldest first."""
    closed: list[Closed] = []
    while body.pending:
        oldest = body.pending[0]
        closed.append(close_batch(body, settings) if oldest.traits & BATCHED else close_single(body, settings, oldest))
    return closed


def close_single(body: Body, settings: ProgressSettings, call: Pending, *, opened: bool = True) -> Closed:
    """Closes a step of one call.

    Args:
        body: The run.
        settings: Parameters.
        call: The call, as it ended.
        opened: It is among the open ones.
    """
    if opened:
        _remove(body, call)
    paid = _price(body, settings, call)
    if _changes_world(call, paid.reason):
        body.fresh = 0
    _remember(body, settings, call, FIRST)
    return _settle(body, settings, paid)


def close_batch(body: Body, settings: ProgressSettings) -> Closed:
    """Closes the open batch: one decision of the model, one price."""
    members = [call for call in body.pending if call.traits & BATCHED]
    body.pending = [call for call in body.pending if not call.traits & BATCHED]
    body.batch = b""
    paid = [_price(body, settings, call) for call in members]
    if any(_changes_world(call, each.reason) for call, each in zip(members, paid, strict=True)):
        body.fresh = 0
    flag = FIRST
    for call in members:
        _remember(body, settings, call, flag)
        flag = 0
    return _settle(body, settings, _dearest(paid))


def _dearest(paid: Iterable[Price]) -> Price:
    """News where any member brought some, else the largest price."""
    dearest: Price | None = None
    for each in paid:
        if each.reason is Reason.NEWS:
            return each
        if dearest is None or each.points > dearest.points:
            dearest = each
    assert dearest is not None
    return dearest


def _settle(body: Body, settings: ProgressSettings, paid: Price) -> Closed:
    """Books a step."""
    points, reason = paid
    if reason is Reason.NEWS:
        body.news_age = body.age
        body.points = max(0, body.points - settings.relief)
        if body.tally:
            body.tally = []
        if body.refused:
            body.refused = 0
            body.refused_tools = {}
        if not body.points:
            body.told = 0
        return Closed(reason, -settings.relief / QUARTERS)
    if reason is Reason.NEW_FAILURE or reason is Reason.UNKNOWN:
        body.news_age = body.age
    if reason not in NEUTRAL:
        body.points = min(body.points + points, settings.most)
        if not body.tally:
            body.tally = [0] * _REASONS
        body.tally[reason] = min(body.tally[reason] + 1, _TALLY_LIMIT)
    return Closed(reason, points / QUARTERS)


def _price(body: Body, settings: ProgressSettings, call: Pending) -> Price:
    return price(
        body,
        settings,
        tool=call.tool,
        call=call.call,
        target=call.target,
        traits=call.traits,
        time=call.time,
        outcome=call.outcome,
        class_=call.class_,
        failed=call.failed,
    )


def _changes_world(call: Pending, reason: Reason) -> bool:
    """A write that changed something: what was known before may be another now."""
    kind = call.traits & KIND
    if kind == EFFECT:
        return reason is Reason.NEWS or reason is Reason.REWORDED
    return kind == SEND and reason is Reason.NEWS


def _remember(body: Body, settings: ProgressSettings, call: Pending, first: int) -> None:
    memory.append(
        body,
        tool=call.tool,
        call=call.call,
        target=call.target,
        outcome=call.outcome,
        class_=call.class_,
        flags=call.failed | first | (call.traits & (KIND | WAIT)) << TRAITS,
        time=call.end if call.ended else call.time,
        memory=settings.memory,
    )


def _remove(body: Body, call: Pending) -> None:
    pending = body.pending
    for place in range(len(pending) - 1, -1, -1):
        if pending[place] is call:
            del pending[place]
            return
