"""What a call, a result, a refusal do to a run (progress, 6): the profile's fold, below the seam."""

from __future__ import annotations

from typing import NamedTuple

from loopwarden.detection.progress import memory
from loopwarden.detection.progress.body import (
    BATCHED,
    CALL_ID,
    CLASS,
    CRITICAL,
    EFFECT,
    FAILED,
    MISSING,
    NO_CLASS,
    OTHER,
    OUTCOME,
    READ,
    SEND,
    TRANSIENT,
    WAIT,
    Body,
    Pending,
)
from loopwarden.detection.progress.compactions import watch
from loopwarden.detection.progress.judging import Finding, judge
from loopwarden.detection.progress.steps import (
    Closed,
    close_single,
    find,
    find_by_id,
    joins_batch,
    make_room,
    take_out,
)
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.facts.progress import call_facts
from loopwarden_schemas.progress_settings import ProgressSettings

__all__ = ["Taken", "asked", "refuse", "take_back", "take_call", "take_result"]

_NOTHING: list[Closed] = []
REFUSED_TOOLS = 4
"""Tools whose refusals are counted; the one refused first goes first."""
_KINDS = {"read": READ, "effect": EFFECT, "send": SEND, "other": OTHER, None: OTHER}


class Taken(NamedTuple):
    """What came of an event.

    Attributes:
        finding: A loop.
        closed: Steps that it closed, in order.
        recorded: A result that was no refusal.
        matched: A result belonged to a call that was open.
        went_on: That call had been judged critical.
    """

    finding: Finding | None
    closed: list[Closed]
    recorded: bool = False
    matched: bool = False
    went_on: bool = False


def asked(name: str, facts: Facts, call_id: bytes, time: int, *, result: bool = False) -> Pending:
    """Reads the facts of a call.

    Args:
        name: Stored name of the tool.
        facts: Facts of the event.
        call_id: Hash of the call id, empty for none.
        time: The event's time, epoch milliseconds.
        result: The event is a result or a refusal: with a call id it need not say what was called (``call`` empty).
    """
    traits = _KINDS.get(facts.kind, OTHER)
    if facts.wait:
        traits |= WAIT
    if facts.call is not None:
        call = target = bytes.fromhex(facts.call[:16])
        if facts.target is not None and facts.target != facts.call:
            target = bytes.fromhex(facts.target[:16])
    elif result and call_id:
        call = target = b""
    else:
        call = target = _unsaid(name)
    return Pending(call, target, -1, traits, call_id[:CALL_ID], time, end=time)


def _unsaid(name: str) -> bytes:
    """The call where nothing says what was called: as without arguments."""
    return bytes.fromhex(call_facts(name, None).call)


def said(name: str, call: Pending) -> None:
    """Takes a call that an event does not tell for one without arguments."""
    if not call.call:
        call.call = call.target = _unsaid(name)


def take_call(body: Body, settings: ProgressSettings, name: str, call: Pending, batch: bytes = b"") -> Taken:
    """A call is about to run: closes what it closes, judges it, opens it.

    Args:
        body: The run.
        settings: Parameters.
        name: Stored name of the tool.
        call: The call.
        batch: First bytes of the hashed batch id, empty for none.
    """
    closed = make_room(body, settings, batch) if body.pending else _NOTHING
    call.tool = memory.tool_place(body, name)
    finding = judge(body, settings, name, call)
    if batch and joins_batch(body, settings, batch):
        call.traits |= BATCHED
        body.batch = batch
    if finding is not None and finding.level == "critical":
        call.traits |= CRITICAL
    body.made += 1
    body.idle = 0
    _open(body, name, call)
    return Taken(finding, closed)


def take_result(
    body: Body, settings: ProgressSettings, name: str, result: Pending, facts: Facts, *, vetoed: bool = False
) -> Taken:
    """A call came back, or was refused by somebody.

    Args:
        body: The run.
        settings: Parameters.
        name: Stored name of the tool.
        result: What the event says of the call.
        facts: Facts of the event: how it ended.
        vetoed: It was refused and did not run.
    """
    result.tool = memory.tool_place(body, name)
    call = find(body, result)
    matched = call is not None
    if call is None:
        # Nobody published it: a call of its own, outside any batch.
        said(name, result)
        _open(body, name, call := result)
    if vetoed:
        refuse(body, call)
        return Taken(None, _NOTHING, matched=matched)
    if facts.outcome is not None:
        call.outcome = bytes.fromhex(facts.outcome[: 2 * OUTCOME])
    if facts.failed:
        call.failed = MISSING if facts.missing else TRANSIENT if facts.transient else FAILED
        call.class_ = bytes.fromhex(facts.class_[: 2 * CLASS]) if facts.class_ is not None else NO_CLASS
    call.ended = True
    call.end = result.time
    finding = watch(body, settings, name, call) if body.guard else None
    went_on = call.traits & CRITICAL != 0
    if call.traits & BATCHED:
        return Taken(finding, _NOTHING, True, matched, went_on)
    return Taken(finding, [close_single(body, settings, call)], True, matched, went_on)


def take_back(body: Body, name: str, call_id: bytes) -> bool:
    """Takes back a call that was judged and then refused by its runner; False where no open call has its id."""
    if not call_id:
        return False
    call = find_by_id(body, memory.tool_place(body, name), call_id[:CALL_ID])
    if call is None:
        return False
    refuse(body, call)
    return True


def _open(body: Body, name: str, call: Pending) -> None:
    call.tool = memory.use_tool(body, name)
    body.pending.append(call)


def refuse(body: Body, call: Pending) -> None:
    """Takes out an open call that was refused: a refusal is no result, and counts against the tool."""
    take_out(body, call)
    body.refused += 1
    refused = body.refused_tools
    refused[call.tool] = refused.get(call.tool, 0) + 1
    if len(refused) > REFUSED_TOOLS:
        del refused[next(iter(refused))]
