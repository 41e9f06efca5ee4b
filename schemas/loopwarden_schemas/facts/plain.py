"""Serialises the arguments and results of profile `progress`, fast for what JSON can hold and safe for the rest."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from loopwarden_schemas.facts.serialisation import described

__all__ = ["MAX_DEPTH", "TOO_DEEP", "plain", "serialise"]

MAX_DEPTH = 64
"""Levels of nesting that count."""

TOO_DEEP = "\x00deep"
"""Stands for everything that lies deeper."""

serialise = msgspec.json.Encoder(order="sorted").encode
"""JSON with sorted keys and no blanks. NaN and the infinities are null.

Raises:
    TypeError: for keys that are not strings and for types that JSON does not know.
    ValueError: for lone surrogates and for integers of more than 4,300 digits.
"""


def plain(value: object, depth: int = 0) -> object:
    """The same value in types and texts that `serialise` takes.

    Keys become strings, lone surrogates their escapes, integers of more than 64 bits hexadecimal, tuples and sets
    lists, models and dataclasses objects.

    Args:
        value: Any value; never changed.
        depth: Levels that it lies deep.
    """
    if value is None or value is msgspec.UNSET or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return int(value) if value.bit_length() < 64 else hex(value)
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member, depth + 1) for member in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(member, depth + 1) for member in value), key=repr)
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    return plain(described(value), depth + 1)
