"""Facts of the documented profile: argument and outcome fingerprints (rules 2 and 3)."""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import UNSET

from loopwarden_schemas.facts.serialisation import MAX_DEPTH, fingerprint, stable

__all__ = ["Outcome", "args_fingerprint", "is_poll", "outcome"]

_Object = dict[str, object]

_SEND_ACTIONS = frozenset(
    ["send", "broadcast", "reply", "thread-reply", "sendWithEffect", "sendAttachment", "upload-file", "sticker", "poll"]
)
# Tools that are channels of the documented system: a send there has action "sendMessage" and a recipient (rule 3.7).
_CHANNELS = frozenset(
    [
        "bluebubbles",
        "discord",
        "feishu",
        "googlechat",
        "imessage",
        "irc",
        "line",
        "matrix",
        "mattermost",
        "msteams",
        "nextcloud-talk",
        "nostr",
        "signal",
        "slack",
        "synology-chat",
        "telegram",
        "tlon",
        "twitch",
        "whatsapp",
        "zalo",
        "zalouser",
    ]
)
_SEND_VOLATILE = frozenset(
    [
        "messageId",
        "message_id",
        "messageIds",
        "platformMessageId",
        "platformMessageIds",
        "fileId",
        "file_id",
        "fileKey",
        "pollId",
        "poll_id",
        "receipt",
        "runId",
        "idempotencyKey",
        "ts",
        "timestamp",
        "sentAt",
        "deliveredAt",
        "createdAt",
    ]
)
_NAME = r"[A-Za-z0-9_.\-]+"
_UNKNOWN_TOOL = re.compile(rf"""unknown\ tool[:\s]+["']?({_NAME})["']?""", re.IGNORECASE | re.VERBOSE)
_TOOL_NOT_FOUND = re.compile(
    rf"""tool\s+["']?({_NAME})["']?\s+(?:not\ found|is\ not\ available)""", re.IGNORECASE | re.VERBOSE
)
_NAME_LIMIT = 128


class Outcome(NamedTuple):
    """An outcome under rule 3: its fingerprint, the unknown tool that it names, whether it is our own veto."""

    fingerprint: str | None
    unknown_tool: str | None = None
    own_veto: bool = False


def args_fingerprint(args: object, salt: bytes = b"") -> str:
    """Fingerprint of a call's arguments (rule 2); ``UNSET`` for a call without any.

    Args:
        args: Any JSON value.
        salt: Secret of the deployment.
    """
    return fingerprint(stable(args), salt)


def is_poll(tool: str, args: object) -> bool:
    """Whether a call is a known poll (rule 5): ``command_status``, or ``process`` with action poll or log."""
    if tool == "command_status":
        return True
    return tool == "process" and isinstance(args, dict) and args.get("action") in ("poll", "log")


def outcome(tool: str, args: object, result: object = UNSET, error: object = UNSET, salt: bytes = b"") -> Outcome:
    """Reduces what came back to its outcome (rule 3). An error wins over a result; null is present.

    Args:
        tool: Exact tool name.
        args: The call's arguments: some rules depend on its action. ``UNSET`` where unknown.
        result: The result, ``UNSET`` where there is none.
        error: The error, ``UNSET`` where there is none.
        salt: Secret of the deployment.
    """
    if error is not UNSET:
        text = _error_text(error)
        return Outcome(fingerprint("error:" + text, salt), _unknown_tool(text))
    if result is UNSET:
        return Outcome(None)
    if not isinstance(result, dict):
        return Outcome(fingerprint(stable(result), salt))
    details = result.get("details")
    if not isinstance(details, dict):
        details = {}
    if details.get("status") == "blocked" and details.get("deniedReason") == "tool-loop":
        return Outcome(None, own_veto=True)
    return Outcome(fingerprint(stable(_essence(tool, args, details, _text(result))), salt))


def _error_text(error: object) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, BaseException):
        return str(error) or type(error).__name__
    if isinstance(error, bool):
        return "true" if error else "false"
    text = stable(error)
    return text.strip('"') if isinstance(error, float) else text


def _unknown_tool(text: str) -> str | None:
    # Both patterns are searched in the head only: the name stands there, and a hostile text must not cost time.
    head = text.strip()[:4096]
    match = _UNKNOWN_TOOL.search(head) or _TOOL_NOT_FOUND.search(head)
    return match.group(1).lower()[:_NAME_LIMIT] if match else None


def _text(result: _Object) -> str:
    content = result.get("content")
    if not isinstance(content, list):
        return ""
    parts = [
        part["text"]
        for part in content
        if isinstance(part, dict) and isinstance(part.get("type"), str) and isinstance(part.get("text"), str)
    ]
    return "\n".join(parts).strip()


def _essence(tool: str, args: object, details: _Object, text: str) -> object:
    """What of a result counts (rules 3.5 to 3.8)."""
    if tool == "exec":
        essence = _exec_essence(details, text)
        if essence is not None:
            return essence
    action = args.get("action") if isinstance(args, dict) else None
    if tool == "process" and action == "poll":
        picked = {key: details.get(key) for key in ("exitCode", "exitSignal", "aggregated")}
        return {"action": action, "status": details.get("status", UNSET), **picked, "text": text}
    if tool == "process" and action == "log":
        keys = ("totalLines", "totalChars", "truncated", "exitCode", "exitSignal")
        picked = {key: details.get(key) for key in keys}
        return {"action": action, "status": details.get("status", UNSET), **picked, "text": text}
    if _is_send(tool, args):
        return {"details": _without_send_ids(details)}
    return {"details": details, "text": text}


def _exec_essence(details: _Object, text: str) -> _Object | None:
    status = details.get("status")
    if status == "running":
        return {"status": status, "tail": _string_or(details.get("tail"), "")}
    if status in ("completed", "failed"):
        aggregated = details.get("aggregated")
        output = aggregated.strip() if isinstance(aggregated, str) and aggregated.strip() else text
        exit_code = details.get("exitCode")
        is_number = isinstance(exit_code, int | float) and not isinstance(exit_code, bool)
        return {
            "status": status,
            "exitCode": exit_code if is_number else None,
            "timedOut": details.get("timedOut") is True,
            "output": output,
        }
    if status in ("approval-pending", "approval-unavailable"):
        return {
            "status": status,
            "reason": _string_or(details.get("reason"), None),
            "host": _string_or(details.get("host"), None),
            "command": _string_or(details.get("command"), None),
            "warningText": _string_or(details.get("warningText"), ""),
        }
    return None


def _string_or(value: object, otherwise: str | None) -> str | None:
    return value if isinstance(value, str) else otherwise


def _is_send(tool: str, args: object) -> bool:
    if tool == "sessions_send":
        return True
    if not isinstance(args, dict):
        return False
    action = args.get("action")
    if not isinstance(action, str):
        return False
    if tool == "message":
        return action in _SEND_ACTIONS
    if tool not in _CHANNELS:
        return False
    if action.strip() == "sendMessage":
        return isinstance(args.get("to"), str) and bool(args["to"])
    return tool == "discord" and action.strip() == "threadReply" and isinstance(args.get("channelId"), str)


def _without_send_ids(value: object, depth: int = 0) -> object:
    if depth > MAX_DEPTH:  # serialised as one mark anyway
        return value
    if isinstance(value, list):
        return [_without_send_ids(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    drop_id = _is_message(value)
    return {
        key: _without_send_ids(item, depth + 1)
        for key, item in value.items()
        if key not in _SEND_VOLATILE and not (drop_id and key == "id")
    }


def _is_message(value: _Object) -> bool:
    if not (isinstance(value.get("id"), str) and isinstance(value.get("text"), str)):
        return False
    return any(isinstance(value.get(key), str) for key in ("direction", "senderId", "accountId")) or isinstance(
        value.get("conversation"), dict
    )
