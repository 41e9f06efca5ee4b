"""The one place where content becomes facts."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from loopwarden_schemas.errors import WireError
from loopwarden_schemas.facts import documented, progress
from loopwarden_schemas.facts.structure import Facts
from loopwarden_schemas.json_reading import read_leniently

if TYPE_CHECKING:
    from loopwarden_schemas.events import CallRefused, ToolCall, ToolResult

__all__ = ["reduce_content", "reduce_event", "reduce_outcome"]

ALL_PROFILES = frozenset({"documented", "progress"})


def reduce_content(
    tool: str,
    args: object = UNSET,
    result: object = UNSET,
    error: object = UNSET,
    *,
    salt: bytes = b"",
    profiles: Container[str] = ALL_PROFILES,
) -> Facts:
    """Reduces a call, or a call and what came back, to facts.

    Args:
        tool: Exact tool name.
        args: Arguments, ``UNSET`` where there are none or they are unknown.
        result: Result, ``UNSET`` where there is none.
        error: Error, ``UNSET`` where there is none; wins over a result.
        salt: Secret of the deployment.
        profiles: Profiles whose facts are wanted.
    """
    fields: dict[str, Any] = {}
    if "documented" in profiles:
        fields |= _documented_call(tool, args, salt)
        out = documented.outcome(tool, args, result, error, salt)
        fields |= {"outcome_fp": out.fingerprint, "unknown_tool": out.unknown_tool, "own_veto": out.own_veto}
    if "progress" in profiles:
        fields |= progress.call_facts(tool, args, salt=salt)._asdict()
        fields |= progress.outcome_facts(result, error, salt=salt)._asdict()
    return Facts(**fields)


def reduce_outcome(
    call: Facts, tool: str, args: object = UNSET, result: object = UNSET, error: object = UNSET, *, salt: bytes = b""
) -> Facts:
    """Adds what came back to the facts of a call that is reduced already.

    Args:
        call: Facts of the call (``reduce_content`` without result).
        tool: Exact tool name.
        args: Its arguments: some rules depend on its action.
        result: Result, ``UNSET`` where there is none.
        error: Error, ``UNSET`` where there is none; wins over a result.
        salt: Secret of the deployment.
    """
    out = documented.outcome(tool, args, result, error, salt)
    return msgspec.structs.replace(
        call,
        outcome_fp=out.fingerprint,
        unknown_tool=out.unknown_tool,
        own_veto=out.own_veto,
        **progress.outcome_facts(result, error, salt=salt)._asdict(),
    )


def _documented_call(tool: str, args: object, salt: bytes = b"") -> dict[str, Any]:
    return {"args_fp": documented.args_fingerprint(args, salt), "poll": documented.is_poll(tool, args)}


def reduce_event(event: ToolCall | ToolResult | CallRefused, profiles: Container[str] = ALL_PROFILES) -> Facts:
    """Facts of an event: those it carries, else those its raw content reduces to.

    Facts that came with the event win over content beside them. ``args_fp`` and ``call`` stay absent for a result
    without arguments that has a call id: it belongs to the newest open call of that id (design: facts).

    Args:
        event: The event.
        profiles: Profiles whose facts are wanted; facts that the event carries are returned as they are.

    Raises:
        WireError: The content is not valid JSON.
    """
    if event.facts is not None:
        return _completed(event, event.facts, profiles)
    args = _content(event.args, "args")
    result = _content(getattr(event, "result", UNSET), "result")
    error = _content(getattr(event, "error", UNSET), "error")
    facts = reduce_content(event.tool, args, result, error, profiles=profiles)
    if args is UNSET and event.call_id and event.type_ == "tool_result":
        return msgspec.structs.replace(facts, args_fp=None, call=None, target=None, kind=None)
    return facts


def _completed(event: ToolCall | ToolResult | CallRefused, facts: Facts, profiles: Container[str]) -> Facts:
    """Facts that came with an event, and what the arguments beside them add."""
    lacking = (facts.args_fp is None and "documented" in profiles) or (facts.call is None and "progress" in profiles)
    if event.args is UNSET or not lacking:
        return facts
    args = _content(event.args, "args")
    fields: dict[str, Any] = {}
    if facts.args_fp is None and "documented" in profiles:
        fields |= _documented_call(event.tool, args)
    if facts.call is None and "progress" in profiles:
        fields |= progress.call_facts(event.tool, args)._asdict()
    return msgspec.structs.replace(facts, **fields)


def _content(raw: Raw | UnsetType, field: str) -> object:
    """Decodes content."""
    if raw is UNSET:
        return UNSET
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return read_leniently(bytes(raw))
    except (ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else "is not valid JSON"
        raise WireError(field, "is not valid UTF-8" if isinstance(error, UnicodeDecodeError) else reason) from None
