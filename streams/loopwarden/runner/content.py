"""What becomes of arguments and results: facts always, content only if asked to.

A small value is reduced where it is; a large one in a thread of the library, up to ``REDUCED_CHARACTERS``, from a
snapshot where one can be taken in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from msgspec import UNSET, Raw, UnsetType

from loopwarden.errors import UsageError
from loopwarden_schemas.facts.plain import plain, serialise

__all__ = ["LARGE_CHARACTERS", "REDUCED_CHARACTERS", "Content", "Measured", "cut", "measure", "snapshot"]

LARGE_CHARACTERS = 4 * 1024
"""From about this size on a result is reduced in a thread: reducing takes 60 microseconds a kilobyte."""
LARGE_NODES = 64
REDUCED_CHARACTERS = 16 * 1024 * 1024
"""Of the texts in one result so many characters count; what is beyond counts by its length."""
SNAPSHOT_NODES = 1000
"""A structure of up to so many values is copied before the agent gets it back; of a larger one that the agent changes
meanwhile, the change may count."""
DEFAULT_LIMIT_BYTES = 64 * 1024

Redact = Callable[[str, str, Any], Any]


class Measured(NamedTuple):
    """How large a value is, as far as a bounded look tells.

    Attributes:
        characters: Characters of the texts seen.
        nodes: Values seen.
        large: It is worth a thread.
    """

    characters: int
    nodes: int
    large: bool


@dataclass(frozen=True)
class Content:
    """What of arguments and results is published beside their facts.

    Attributes:
        mode: ``fingerprint`` publishes none of it; ``raw`` publishes it, so that ``explain`` can show it.
        limit_bytes: A value of more than so many bytes of JSON is left out (``raw``); its facts stay.
        redact: Called with field (``args``, ``result``, ``error``), tool and value; returns what may be published, or
            ``msgspec.UNSET`` for nothing. One that raises publishes nothing.

    Raises:
        UsageError: A mode that there is not.
    """

    mode: Literal["fingerprint", "raw"] = "fingerprint"
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    redact: Redact | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("fingerprint", "raw"):
            raise UsageError(f"content {self.mode!r} is neither 'fingerprint' nor 'raw'")

    def publishable(self, field: str, tool: str, value: object) -> Raw | UnsetType:
        """A value as it may be published, ``UNSET`` where it may not."""
        if self.mode != "raw" or value is UNSET:
            return UNSET
        try:
            if self.redact is not None:
                value = self.redact(field, tool, value)
                if value is UNSET:
                    return UNSET
            data = serialise(plain(value))
        except Exception:
            return UNSET
        return Raw(data) if len(data) <= self.limit_bytes else UNSET


def measure(value: object) -> Measured:
    """Looks at no more of a value than it takes to see that it is large; takes microseconds."""
    characters = nodes = 0
    stack: list[object] = [value]
    while stack and characters < LARGE_CHARACTERS and nodes < LARGE_NODES:
        item = stack.pop()
        nodes += 1
        if isinstance(item, str | bytes | bytearray):
            characters += len(item)
        elif isinstance(item, dict):
            nodes += len(item)
            if nodes < LARGE_NODES:
                stack.extend(item.values())
                characters += sum(len(key) for key in item if isinstance(key, str))
        elif isinstance(item, list | tuple | set | frozenset):
            nodes += len(item)
            if nodes < LARGE_NODES:
                stack.extend(item)
        elif isinstance(item, BaseException):
            stack.extend(item.args)
        elif item is not None and not isinstance(item, bool | int | float):
            stack.append(getattr(item, "__dict__", None))  # a model, a message
    return Measured(characters, nodes, characters >= LARGE_CHARACTERS or nodes >= LARGE_NODES)


def snapshot(value: object) -> object:
    """A copy that the agent cannot change, of lists and objects up to ``SNAPSHOT_NODES``; else the value itself."""
    budget = [SNAPSHOT_NODES]
    try:
        return _copied(value, budget)
    except _TooMany:
        return value


class _TooMany(Exception):
    """More values than are copied."""


def _copied(value: object, budget: list[int]) -> object:
    budget[0] -= 1
    if budget[0] < 0:
        raise _TooMany
    if isinstance(value, dict):
        if len(value) > budget[0]:
            raise _TooMany
        return {key: _copied(item, budget) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > budget[0]:
            raise _TooMany
        return [_copied(item, budget) for item in value]
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def cut(value: object, limit: int = REDUCED_CHARACTERS) -> object:
    """The same value, with at most so many characters of text; equal values are cut alike.

    Args:
        value: Any value; never changed.
        limit: Characters.
    """
    if isinstance(value, str | bytes) and len(value) <= limit:
        return value
    return _cut(value, [limit])


def _cut(value: object, left: list[int], depth: int = 0) -> object:
    if isinstance(value, str):
        kept = value[: max(0, left[0])]
        left[0] -= len(value)
        return kept if len(kept) == len(value) else f"{kept}… ({len(value)} characters)"
    if isinstance(value, bytes | bytearray):
        kept_bytes = bytes(value[: max(0, left[0])])
        left[0] -= len(value)
        return kept_bytes if len(kept_bytes) == len(value) else [kept_bytes, len(value)]
    if depth > 100:  # deeper than what counts
        return value
    if isinstance(value, dict):
        return {key: _cut(item, left, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cut(item, left, depth + 1) for item in value]
    return value
