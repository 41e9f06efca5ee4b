"""What a call, a result, a refusal do to a run (progress, 6): the profile's fold, below the seam."""

from __future__ import annotations

from typing import NamedTuple

from loopwarden.detection.progress import memory
from loopwarden.detection.progress.body import (
    BATCHED,
    CLASS,
    CRITICAL,
    EFFECT,
    FAILED,
    MISSING,
    NO_CLASS,
    NO_OUTCOME,
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
    joins_batch,
    make_room,
    take_out,
)
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.facts.progress import call_facts
from loopwarden_schemas.progress_settings import ProgressSettings

__all__ = ["CALL_ID", "Asked", "Taken", "asked", "said", "take_back", "take_call", "take_result"]

CALL_ID = 4
"""Bytes kept of a hashed call id: enough to tell a handful of open calls apart."""
REFUSED_TOOLS = 4
"""Tools whose refusals are counted; the one refused first goes first."""
_KINDS = {"read": READ, "effect": EFFECT, "send": SEND, "other": OTHER, None: OTHER}


class Asked(NamedTuple):
    """What an event says of a call.

    Attributes:
        name: Stored name of the tool.
        call: Fingerprint of the call, None for a result that does not say.
        target: Fingerprint of its target.
        traits: Kind, and whether it waits.
        call_id: First bytes of the hashed call id, empty for none.
        time: The event's time, epoch milliseconds.
    """

    name: str
    call: bytes | None
    target: bytes
    traits: int
    call_id: bytes
    time: int


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


def asked(name: str, facts: Facts, call_id: bytes, time: int, *, result: bool = False) -> Asked:
    """Reads the facts of a call.

    Args:
        name: Stored name of the tool.
        facts: Facts of the event.
        call_id: Hash of the call id, empty for none.
        time: The event's time, epoch milliseconds.
        result: The event is a result or a refusal: with a call id it need not repeat what was called.
    """
    traits = _KINDS.get(facts.kind, OTHER) | (WAIT if facts.wait else 0)
    if facts.call is not None:
        call = bytes.fromhex(facts.call[:16])
        target = call if facts.target is None or facts.target == facts.call else bytes.fromhex(facts.target[:16])
        return Asked(name, call, target, traits, call_id[:CALL_ID], time)
    if result and call_id:
        return Asked(name, None, b"", traits, call_id[:CALL_ID], time)
    return Asked(name, *_unsaid(name), traits, call_id[:CALL_ID], time)


def said(call: Asked) -> Asked:
    """A call that an event does not tell, as if it had been made without arguments."""
    if call.call is not None:
        return call
    fingerprint, target = _unsaid(call.name)
    return call._replace(call=fingerprint, target=target)


def _unsaid(name: str) -> tuple[bytes, bytes]:
    """Call and target where nothing says what was called: as without arguments."""
    call = bytes.fromhex(call_facts(name, None).call)
    return call, call


def take_call(body: Body, settings: ProgressSettings, call: Asked, batch: bytes = b"") -> Taken:
    """A call is about to run: closes what it closes, judges it, opens it.

    Args:
        body: The run.
        settings: Parameters.
        call: The call; its fingerprint is there.
        batch: First bytes of the hashed batch id, empty for none.
    """
    assert call.call is not None
    closed = make_room(body, settings, batch)
    finding = judge(
        body,
        settings,
        name=call.name,
        tool=memory.tool_place(body, call.name),
        call=call.call,
        target=call.target,
        traits=call.traits,
        time=call.time,
    )
    traits = call.traits
    if joins_batch(body, settings, batch):
        traits |= BATCHED
        body.batch = batch
    if finding is not None and finding.level == "critical":
        traits |= CRITICAL
    body.made += 1
    body.idle = 0
    _open(body, call, traits)
    return Taken(finding, closed)


def take_result(body: Body, settings: ProgressSettings, result: Asked, facts: Facts, *, vetoed: bool = False) -> Taken:
    """A call came back, or was refused by somebody.

    Args:
        body: The run.
        settings: Parameters.
        result: What the event says of the call.
        facts: Facts of the event: how it ended.
        vetoed: It was refused and did not run.
    """
    tool = memory.tool_place(body, result.name)
    call = find(body, tool, result.call, result.call_id)
    matched = call is not None
    if call is None:
        call = _unannounced(body, result)
    if vetoed:
        take_out(body, call)
        _count_refusal(body, call.tool)
        return Taken(None, [], matched=matched)
    call.outcome = bytes.fromhex(facts.outcome[: 2 * OUTCOME]) if facts.outcome is not None else NO_OUTCOME
    if facts.failed:
        call.failed = MISSING if facts.missing else TRANSIENT if facts.transient else FAILED
        call.class_ = bytes.fromhex(facts.class_[: 2 * CLASS]) if facts.class_ is not None else NO_CLASS
    call.ended = True
    call.end = result.time
    finding = None
    if body.guard:
        finding = watch(body, settings, result.name, call.call, call.traits, call.outcome, call.failed)
    went_on = bool(call.traits & CRITICAL)
    if call.traits & BATCHED:
        return Taken(finding, [], True, matched, went_on)
    return Taken(finding, [close_single(body, settings, call)], True, matched, went_on)


def take_back(body: Body, refusal: Asked) -> bool:
    """Takes back a call that was judged and then refused by its runner; False where no open call has its id."""
    if not refusal.call_id:
        return False
    call = find(body, memory.tool_place(body, refusal.name), None, refusal.call_id)
    if call is None:
        return False
    take_out(body, call)
    _count_refusal(body, call.tool)
    return True


def _open(body: Body, call: Asked, traits: int) -> Pending:
    assert call.call is not None
    opened = Pending(
        call.call, call.target, memory.use_tool(body, call.name), traits, call.call_id, call.time, end=call.time
    )
    body.pending.append(opened)
    return opened


def _unannounced(body: Body, result: Asked) -> Pending:
    """A result whose call nobody published is a call of its own, outside any batch."""
    return _open(body, said(result), result.traits)


def _count_refusal(body: Body, tool: int) -> None:
    body.refused += 1
    refused = body.refused_tools
    refused[tool] = refused.get(tool, 0) + 1
    if len(refused) > REFUSED_TOOLS:
        del refused[next(iter(refused))]
