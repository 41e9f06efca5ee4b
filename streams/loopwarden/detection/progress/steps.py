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
from loopwarden.detection.progress.reasons import LAST_NEUTRAL, Reason
from loopwarden_schemas.progress_settings import ProgressSettings

__all__ = [
    "Closed",
    "close_all",
    "close_batch",
    "close_single",
    "find",
    "find_by_id",
    "joins_batch",
    "make_room",
    "take_out",
]

_TALLY_LIMIT = 9_999
_REASONS = len(Reason)


class Closed(NamedTuple):
    """A step that was closed.

    Attributes:
        reason: Why it cost what it cost.
        points: Its price, in quarters; what news takes off at most, negative.
    """

    reason: Reason
    points: int


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


def find(body: Body, result: Pending) -> Pending | None:
    """The newest open, unanswered call that a result belongs to (progress, 6).

    Args:
        body: The run.
        result: What the result says of its call; where it says nothing but a call id, that decides.
    """
    if not result.call:
        return find_by_id(body, result.tool, result.call_id)
    call, call_id = result.call, result.call_id
    for pending in reversed(body.pending):
        if (
            pending.call == call
            and not pending.ended
            and pending.tool == result.tool
            and (not call_id or not pending.call_id or pending.call_id == call_id)
        ):
            return pending
    return None


def find_by_id(body: Body, tool: int, call_id: bytes) -> Pending | None:
    """The newest open, unanswered call of a tool with this call id."""
    for pending in reversed(body.pending):
        if pending.call_id == call_id and not pending.ended and pending.tool == tool:
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
    paid = price(body, settings, call)
    if _changes_world(call, paid.reason):
        body.fresh = 0
    _remember(body, settings, call, FIRST)
    return _settle(body, settings, paid)


def close_batch(body: Body, settings: ProgressSettings) -> Closed:
    """Closes the open batch: one decision of the model, one price."""
    members = [call for call in body.pending if call.traits & BATCHED]
    body.pending = [call for call in body.pending if not call.traits & BATCHED]
    body.batch = b""
    paid = [price(body, settings, call) for call in members]
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
        return Closed(reason, -settings.relief)
    if reason is Reason.NEW_FAILURE or reason is Reason.UNKNOWN:
        body.news_age = body.age
    if reason > LAST_NEUTRAL:
        body.points = min(body.points + points, settings.most)
        if not body.tally:
            body.tally = [0] * _REASONS
        body.tally[reason] = min(body.tally[reason] + 1, _TALLY_LIMIT)
    return Closed(reason, points)


def _changes_world(call: Pending, reason: Reason) -> bool:
    """A write that changed something: what was known before may be another now."""
    kind = call.traits & KIND
    if kind == EFFECT:
        return reason is Reason.NEWS or reason is Reason.REWORDED
    return kind == SEND and reason is Reason.NEWS


def _remember(body: Body, settings: ProgressSettings, call: Pending, first: int) -> None:
    memory.append(body, call, call.failed | first | (call.traits & (KIND | WAIT)) << TRAITS, settings.memory)


def _remove(body: Body, call: Pending) -> None:
    pending = body.pending
    if pending[-1] is call:
        del pending[-1]
        return
    for place in range(len(pending) - 1, -1, -1):
        if pending[place] is call:
            del pending[place]
            return
