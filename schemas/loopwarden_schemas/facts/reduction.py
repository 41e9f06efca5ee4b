"""The one place where content becomes facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw, UnsetType

from loopwarden_schemas.errors import WireError
from loopwarden_schemas.facts import documented
from loopwarden_schemas.facts.structure import Facts

if TYPE_CHECKING:
    from loopwarden_schemas.events import CallRefused, ToolCall, ToolResult

__all__ = ["reduce_content", "reduce_event"]

_EMPTY = Facts()


def reduce_content(
    tool: str, args: object = UNSET, result: object = UNSET, error: object = UNSET, *, salt: bytes = b""
) -> Facts:
    """Reduces a call, or a call and what came back, to the facts of the documented profile.

    Args:
        tool: Exact tool name.
        args: Arguments, ``UNSET`` where there are none or they are unknown.
        result: Result, ``UNSET`` where there is none.
        error: Error, ``UNSET`` where there is none; wins over a result.
        salt: Secret of the deployment.
    """
    out = documented.outcome(tool, args, result, error, salt)
    return Facts(
        args_fp=documented.args_fingerprint(args, salt),
        poll=documented.is_poll(tool, args),
        outcome_fp=out.fingerprint,
        unknown_tool=out.unknown_tool,
        own_veto=out.own_veto,
    )


def reduce_event(event: ToolCall | ToolResult | CallRefused) -> Facts:
    """Facts of an event: those it carries, else those its raw content reduces to.

    Facts that came with the event win over content beside them. ``args_fp`` stays absent for a result without
    arguments that has a call id: it belongs to the newest open call of that id (design: facts).

    Raises:
        WireError: The content is not valid JSON.
    """
    if event.facts is not None:
        if event.facts.args_fp is not None or event.args is UNSET:
            return event.facts
        args = _content(event.args, "args")
        return msgspec.structs.replace(
            event.facts,
            args_fp=documented.args_fingerprint(args),
            poll=documented.is_poll(event.tool, args),
        )
    args = _content(event.args, "args")
    result = _content(getattr(event, "result", UNSET), "result")
    error = _content(getattr(event, "error", UNSET), "error")
    facts = reduce_content(event.tool, args, result, error)
    if args is UNSET and event.call_id and event.type_ == "tool_result":
        return msgspec.structs.replace(facts, args_fp=None)
    return facts


def _content(raw: Raw | UnsetType, field: str) -> object:
    """Decodes content. What msgspec is too strict for (a lone surrogate, 1e999) the standard library takes."""
    if raw is UNSET:
        return UNSET
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        reason = "is nested too deeply" if isinstance(error, RecursionError) else "is not valid JSON"
        raise WireError(field, reason) from None
