"""Brings what callers hand over into what the contract takes: a worker must not have to refuse an event of ours."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from loopwarden.errors import UsageError
from loopwarden_schemas.events import RUN_ID_BYTES, Usage

__all__ = ["checked_run_id", "fitted", "fitted_call", "usage_of"]

TOOL_CHARACTERS = 4096
LABEL_CHARACTERS = 256


def fitted(value: object, limit: int = LABEL_CHARACTERS) -> str | None:
    """A value as an id or label; None for none, and a hash for what is too long (ids must stay apart).

    Args:
        value: Usually a string; anything else by its text.
        limit: Characters that the contract takes.
    """
    if value is None or value == "":
        return None
    text = _text(value)
    return text if len(text) <= limit else sha256(text.encode()).hexdigest()


def fitted_call(tool: object) -> str:
    """A tool's name, cut to what the contract takes."""
    return _text(tool)[:TOOL_CHARACTERS]


def usage_of(value: Usage | Mapping[str, int] | None) -> Usage | None:
    """Usage from what callers have; what is not one is left out."""
    if value is None or isinstance(value, Usage):
        return value
    try:
        return msgspec.convert(dict(value), Usage)
    except (msgspec.ValidationError, TypeError, ValueError):
        return None


def checked_run_id(field: str, value: object) -> str:
    """A run's id, trimmed; empty for none.

    Raises:
        UsageError: The worker would refuse it.
    """
    if value is None:
        return ""
    text = _text(value).strip()
    if text.startswith("\x00"):
        raise UsageError(f"{field} begins with NUL")
    if len(text.encode()) > RUN_ID_BYTES:
        raise UsageError(f"{field} is longer than {RUN_ID_BYTES} bytes", hint="give the run a shorter id")
    return text


def _text(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
