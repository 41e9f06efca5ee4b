"""Facts of profile `progress`: what a call asks for and how it ended (progress 3.1 to 3.6).

Any JSON value will do: what is nested deeper than 64 levels is taken for one mark, a text that does not parse as JSON
is a text, and whatever JSON cannot hold is brought into a form that it can (`plain`). The work is in proportion to the
size of the value, whatever it holds.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, cast

import msgspec

from loopwarden_schemas.facts.masking import MARK, mask
from loopwarden_schemas.facts.plain import MAX_DEPTH, TOO_DEEP, plain, serialise
from loopwarden_schemas.facts.serialisation import fingerprint
from loopwarden_schemas.facts.tool_words import READ_WORDS, Kind, kind_of_words, tool_traits, words
from loopwarden_schemas.json_reading import is_too_deep

__all__ = ["NO_OUTCOME", "CallFacts", "OutcomeFacts", "call_facts", "outcome_facts", "overridden"]

# fmt: off
VOLATILE_ARGUMENTS = frozenset({
    "idempotencykey", "idempotency_key", "requestid", "request_id", "traceid", "trace_id", "nonce", "timestamp",
    "ts",
})
"""Argument keys, in lower case, that say nothing about what a call asks for (progress 3.1)."""

IDENTITY_KEYS = frozenset({
    "command", "cmd", "code", "sql", "script", "input", "stdin", "path", "file", "file_path", "filename", "url",
    "uri", "pattern", "regex", "glob", "old", "old_string", "new_string", "old_str", "new_str", "new",
    "content", "new_content", "diff", "patch", "data", "expression", "id", "name", "cursor", "page", "offset",
})
"""Argument keys, in lower case, whose texts are never prose (progress 3.2)."""

VOLATILE_RESULTS = frozenset({
    "messageid", "messageids", "message_id", "platformmessageid", "platformmessageids", "fileid", "file_id",
    "filekey", "receipt", "runid", "run_id", "requestid", "request_id", "traceid", "trace_id", "spanid",
    "sessionid", "session_id", "idempotencykey", "idempotency_key", "nonce", "ts", "timestamp", "time", "date",
    "sentat", "deliveredat", "createdat", "updatedat", "startedat", "finishedat", "duration", "durationms",
    "duration_ms", "elapsed", "elapsedms", "elapsed_ms", "latency", "latencyms", "took", "pid", "ppid",
})
"""Result keys, in lower case, that differ from one result to the next without being news (progress 3.5)."""
# fmt: on

_SILENT_KEYS = frozenset(("status", "type"))
_SENDING_ACTIONS = frozenset(("send", "reply", "post"))
_WAITING_ACTIONS = frozenset(("poll", "log", "status", "wait"))
_CONTENT_TYPES = (str, dict, list, int, float, type(None), msgspec.UnsetType)
_PROSE = "\x00prose"
_PROSE_WORDS = 2_000
_LINE_CHARACTERS = 200
_END_CHARACTERS = 10_000  # what a failure is about stands at its ends; a log of megabytes need not be searched

_WAITING_COMMAND = re.compile(r"\s*(?:sleep|wait)\b")
_BLANKS = re.compile(r"(?<=[^ \t\n])[ \t]++")
_BLANK_LINE = re.compile(r"^[ \t]++$", re.MULTILINE)
# An apostrophe inside a word ("doesn't") opens no quotation.
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*+'(?!\w)|\"[^\"\n]*+\"|`[^`\n]*+`")
_TRANSIENT = re.compile(
    r"\b(?:429|50[234])\b|timed?[ -]?out|rate[ -]?limit|too many requests|overloaded|temporarily|unavailable"
    r"|connection (?:reset|refused|closed)|try again later|econnre|etimedout|deadline exceeded",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"(?:unknown|invalid|no such|unregistered) tool\b"
    r"|\btool:?\s{1,3}['\"`]?[\w.:/-]{1,200}+['\"`]?\s{1,3}(?:not found|is not available|does not exist)",
    re.IGNORECASE,
)


class CallFacts(NamedTuple):
    """What profile `progress` knows of a call.

    Attributes:
        call: Fingerprint of tool and arguments (progress 3.1).
        target: The same without the prose in the arguments; equal to `call` where there is none (progress 3.2).
        kind: Whether the call reads, has an effect, sends, or none of these that its names would tell (progress 3.3).
        wait: Whether the call waits or asks how things are (progress 3.4).
        spawn: Whether the call starts another agent (progress 3.3).
    """

    call: str
    target: str
    kind: Kind
    wait: bool
    spawn: bool


class OutcomeFacts(NamedTuple):
    """What profile `progress` knows of how a call ended.

    Attributes:
        outcome: Fingerprint of the result without its volatile parts; None for a call that ended without one.
        failed: Whether it ended in a failure (progress 3.6).
        class_: Fingerprint of the kind of failure; None unless failed.
        transient: Whether the failure may go away by itself.
        missing: Whether the failure says that there is no such tool.
    """

    outcome: str | None
    failed: bool = False
    class_: str | None = None
    transient: bool = False
    missing: bool = False


NO_OUTCOME = OutcomeFacts(None)
"""A call that ended without a result and without an error."""


def call_facts(tool: str, args: Any, *, salt: bytes = b"") -> CallFacts:
    """Reduces a call to its facts.

    Args:
        tool: The tool's name.
        args: The arguments, any JSON value; None and a missing value are no arguments.
        salt: Mixed into every fingerprint, for runners that keep their content to themselves.
    """
    if args is None or args is msgspec.UNSET:
        args = {}
    try:
        return _call_facts(tool, args, salt)
    except (TypeError, ValueError, AttributeError):  # not JSON, or not UTF-8
        return _call_facts(tool, plain(args), salt)


def outcome_facts(result: Any = msgspec.UNSET, error: Any = msgspec.UNSET, *, salt: bytes = b"") -> OutcomeFacts:
    """Reduces the end of a call to its facts.

    Args:
        result: What came back, any JSON value; None and a missing value are no result.
        error: The error that the call ended with; goes before a result.
        salt: Mixed into every fingerprint.
    """
    try:
        if not isinstance(result, _CONTENT_TYPES):
            result = plain(result)
        return _outcome_facts(result, error, salt)
    except (TypeError, ValueError, AttributeError):  # not JSON, or not UTF-8
        return _outcome_facts(plain(result), plain(error), salt)


def overridden(facts: CallFacts, kind: Kind | None = None, wait: bool | None = None) -> CallFacts:
    """Facts of a call with what the configuration says of its tool (progress 3.3, last sentence).

    Args:
        facts: What the names say.
        kind: The kind of all calls of the tool; a kind other than effect does not spawn, and neither effect nor send
            waits unless `wait` says so.
        wait: Whether calls of the tool wait.
    """
    if kind is not None:
        waits = facts.wait and kind not in ("effect", "send")
        facts = facts._replace(kind=kind, wait=waits, spawn=facts.spawn and kind == "effect")
    return facts if wait is None else facts._replace(wait=wait)


def _call_facts(tool: str, args: Any, salt: bytes) -> CallFacts:
    has_prose: list[bool] = []
    cleaned = _clean_arguments(args, False, 0, has_prose)
    call = target = fingerprint(f"{tool}:{serialise(cleaned).decode()}", salt)
    if has_prose:
        target = fingerprint(f"{tool}:{serialise(_without_prose(cleaned, False)).decode()}", salt)

    kind, spawn, wait = tool_traits(tool)
    action = command = ""
    if isinstance(cleaned, dict):
        action, command = _text(cleaned.get("action")), _text(cleaned.get("command"))
    if kind == "other":
        if action.lower() in _SENDING_ACTIONS:
            kind = "send"
    elif kind == "effect":
        own_name = tool.lower()
        verb = next((word for word in words(action or command, 2) if word != own_name), None)
        if verb in READ_WORDS:
            kind, spawn = "read", False
    elif kind == "send" and action and kind_of_words(words(action))[0] == "read":
        kind = "read"

    if kind == "effect" or kind == "send":
        wait = False
    elif not wait:
        wait = (
            action.lower() in _WAITING_ACTIONS
            or _WAITING_COMMAND.match(command or (_text(cleaned.get("cmd")) if isinstance(cleaned, dict) else ""))
            is not None
            or _says_nothing(cleaned)
        )
    return CallFacts(call, target, kind, wait, spawn)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _clean_text(text: str) -> str:
    """Makes runs of blanks and tabs inside a line one blank and cuts them at the end of a line (progress 3.1).

    Indentation and line breaks stay.
    """
    if "  " in text or "\t" in text or " \n" in text or text.endswith(" "):
        text = _BLANKS.sub(" ", text).replace(" \n", "\n")
        text = _BLANK_LINE.sub("", text)
        if text.endswith(" "):
            text = text[:-1]
    return text


def _clean_arguments(value: Any, identity: bool, depth: int, has_prose: list[bool]) -> Any:
    """The arguments without volatile keys and superfluous blanks; notes in `has_prose` whether a text is prose."""
    if isinstance(value, str):
        text = _clean_text(value)
        if not identity and not has_prose and _is_prose(text):
            has_prose.append(True)
        return text
    if isinstance(value, dict):
        if depth == MAX_DEPTH:
            return TOO_DEEP
        cleaned = {}
        for key, member in value.items():
            lowered = key.lower()
            if lowered not in VOLATILE_ARGUMENTS:
                cleaned[key] = _clean_arguments(member, lowered in IDENTITY_KEYS, depth + 1, has_prose)
        return cleaned
    if isinstance(value, list):
        if depth == MAX_DEPTH:
            return TOO_DEEP
        return [_clean_arguments(member, identity, depth + 1, has_prose) for member in value]
    return value


def _is_prose(text: str) -> bool:
    """Whether a text has 3 or more words, 60 % of them letters only (progress 3.2); the first 2,000 words decide."""
    found = text.split(None, _PROSE_WORDS)[:_PROSE_WORDS]
    if len(found) < 3:
        return False
    lettered = 0
    for word in found:
        letters = word.strip(".,;:!?()\"'")
        if len(letters) > 1 and letters.isalpha():
            lettered += 1
    return lettered * 5 >= len(found) * 3


def _without_prose(value: Any, identity: bool) -> Any:
    if isinstance(value, str):
        return _PROSE if not identity and _is_prose(value) else value
    if isinstance(value, dict):
        return {key: _without_prose(member, key.lower() in IDENTITY_KEYS) for key, member in value.items()}
    if isinstance(value, list):
        return [_without_prose(member, identity) for member in value]
    return value


def _says_nothing(value: Any) -> bool:
    """Whether every leaf is empty: such a call can only ask how things are (progress 3.4)."""
    if isinstance(value, dict):
        return all(_says_nothing(member) for member in value.values())
    if isinstance(value, list):
        return all(_says_nothing(member) for member in value)
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or value is False


def _outcome_facts(result: Any, error: Any, salt: bytes) -> OutcomeFacts:
    if error is not None and error is not msgspec.UNSET:
        return _failure(_error_text(error), salt, raised=True)
    if result is None or result is msgspec.UNSET:
        return NO_OUTCOME
    if isinstance(result, str):
        parsed = _parsed(result)
        if parsed is None:
            return OutcomeFacts(fingerprint(mask(result), salt))
        result = parsed
    if isinstance(result, dict) and _says_failed(result):
        spoken = _spoken(result)
        if spoken is not None:
            return _failure(spoken, salt, raised=False)
    return OutcomeFacts(fingerprint(serialise(_settled(result, 0)).decode(), salt))


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that a text is, or None."""
    if not text.lstrip().startswith(("{", "[")) or is_too_deep(text.encode("utf-8", "surrogatepass")):
        return None
    try:
        return cast("dict[str, Any] | list[Any]", json.loads(text))
    except ValueError:
        return None


def _settled(value: Any, depth: int) -> Any:
    """A result without its volatile keys, every text masked (progress 3.5)."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        if depth == MAX_DEPTH:
            return TOO_DEEP
        return {
            key: _settled(member, depth + 1) for key, member in value.items() if key.lower() not in VOLATILE_RESULTS
        }
    if isinstance(value, list):
        if depth == MAX_DEPTH:
            return TOO_DEEP
        return [_settled(member, depth + 1) for member in value]
    return value


def _says_failed(result: dict[str, Any]) -> bool:
    """Whether an object, or its `details`, carries a mark of failure (progress 3.6)."""
    details = result.get("details")
    for holder in (result, details) if isinstance(details, dict) else (result,):
        if holder.get("isError") is True or holder.get("status") in ("failed", "error"):
            return True
        code = holder.get("exitCode")
        if isinstance(code, (int, float)) and not isinstance(code, bool) and code != 0:
            return True
    return False


def _spoken(value: Any) -> str | None:
    """The texts of a value, line by line; None when none of them says anything.

    Volatile keys do not count, nor `status` and `type`, which say that something happened but not what.
    """
    texts: list[str] = []
    _gather(value, 0, texts)
    return "\n".join(texts) if any(not text.isspace() for text in texts) else None


def _gather(value: Any, depth: int, texts: list[str]) -> None:
    if isinstance(value, str):
        if value:
            texts.append(value)
    elif depth == MAX_DEPTH:
        return
    elif isinstance(value, dict):
        for key in sorted(value):
            lowered = key.lower()
            if lowered not in VOLATILE_RESULTS and lowered not in _SILENT_KEYS:
                _gather(value[key], depth + 1, texts)
    elif isinstance(value, list):
        for member in value:
            _gather(member, depth + 1, texts)


def _error_text(error: Any) -> str:
    """What an error says: itself, the texts in it, or else its JSON."""
    if isinstance(error, str):
        return error
    if isinstance(error, (dict, list)):
        spoken = _spoken(error)
        if spoken is not None:
            return spoken
    return serialise(_settled(error, 0)).decode()


def _failure(text: str, salt: bytes, *, raised: bool) -> OutcomeFacts:
    ends = text if len(text) <= 2 * _END_CHARACTERS else f"{text[:_END_CHARACTERS]}\n{text[-_END_CHARACTERS:]}"
    return OutcomeFacts(
        outcome=fingerprint(f"E:{mask(text)}", salt),
        failed=True,
        class_=fingerprint(f"C:{_class_text(text)}", salt),
        transient=_TRANSIENT.search(ends) is not None,
        missing=raised and _MISSING.search(ends) is not None,
    )


def _class_text(text: str) -> str:
    """First and last line of a failure, without what is quoted in them (progress 3.6)."""
    text = text.strip()
    first, more, _ = text.partition("\n")
    line = first[:_LINE_CHARACTERS]
    if more:
        last = text[text.rindex("\n") + 1 :].lstrip()
        line = f"{line} / {last[:_LINE_CHARACTERS]}"
    return _QUOTED.sub(MARK, mask(line))
