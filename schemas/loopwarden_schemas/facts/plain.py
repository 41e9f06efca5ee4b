"""Brings any value, however odd, into a form that can be serialised and hashed."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

MAX_DEPTH = 64
"""Levels of nesting that count: what lies deeper is taken for one and the same mark."""

TOO_DEEP = "\x00deep"
"""Stands for everything below MAX_DEPTH levels."""

FINGERPRINT_DIGITS = 16
"""Hex digits of a fingerprint: 64 bits."""

serialise = msgspec.json.Encoder(order="sorted").encode
"""JSON with sorted keys and no blanks. NaN and the infinities are null.

Raises:
    TypeError: for keys that are not strings and for types that JSON does not know.
    ValueError: for lone surrogates and for integers of more than 4,300 digits.
"""


def fingerprint(text: bytes, salt: bytes = b"") -> str:
    """The first 64 bits of SHA-256 over salt and text, as 16 lower-case hex digits."""
    return hashlib.sha256(salt + text).hexdigest()[:FINGERPRINT_DIGITS]


def as_bytes(text: str) -> bytes:
    """UTF-8, lone surrogates included."""
    return text.encode("utf-8", "surrogatepass")


def plain(value: Any, depth: int = 0) -> Any:
    """The same value in types and texts that `serialise` takes.

    Keys become strings, lone surrogates their escapes, integers of more than 64 bits hexadecimal, tuples and sets
    lists; a type that JSON does not know is taken by its name, because its text may hold an address.
    """
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return int(value) if value.bit_length() < 64 else hex(value)
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, dict):
        return {plain(str(key)): plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member, depth + 1) for member in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(member, depth + 1) for member in value), key=repr)
    return type(value).__name__
