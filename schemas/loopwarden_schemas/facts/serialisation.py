"""The stable serialisation that argument and outcome fingerprints are taken over (rule 2)."""

from __future__ import annotations

import base64
import json.encoder
import math
import re
from collections.abc import Mapping
from hashlib import sha256

from msgspec import UNSET, Struct, to_builtins

__all__ = ["described", "fingerprint", "stable"]

MAX_DEPTH = 100
"""Nesting below this depth is serialised as ``"[Deep]"``: such values differ in nothing that deep in practice."""

_quote = json.encoder.encode_basestring
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_EXACT_INTEGERS = 2**53


def _string(text: str) -> str:
    quoted: str = _quote(text)
    if quoted.isascii():
        return quoted
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)


def _number(value: float) -> str:
    """A double as JavaScript writes it: integers plainly below 1e21, -0 as 0, others by their shortest digits."""
    if not math.isfinite(value):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    power = int(exponent)
    if -7 <= power < 0:
        digits = mantissa.lstrip("-").replace(".", "")
        return ("-" if value < 0 else "") + "0." + "0" * (-power - 1) + digits
    return f"{mantissa.removesuffix('.0')}e{power:+d}"


def _integer(value: int) -> str:
    if -_EXACT_INTEGERS <= value <= _EXACT_INTEGERS:
        return str(value)
    try:
        return _number(float(value))
    except OverflowError:
        return '"Infinity"' if value > 0 else '"-Infinity"'


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _object(value: Mapping[object, object], path: tuple[int, ...]) -> str:
    items = {key if isinstance(key, str) else str(key): item for key, item in value.items()}
    keys = sorted(items) if all(key.isascii() for key in items) else sorted(items, key=_utf16)
    return "{" + ",".join([f"{_string(key)}:{_value(items[key], path)}" for key in keys]) + "}"


def _value(value: object, path: tuple[int, ...]) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is UNSET:
        return "undefined"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _object({"data": base64.b64encode(value).decode(), "type": "Uint8Array"}, path)
    return _container(value, path)


def _container(value: object, path: tuple[int, ...]) -> str:
    if id(value) in path:
        return '"[Circular]"'
    if len(path) >= MAX_DEPTH:
        return '"[Deep]"'
    path = (*path, id(value))
    if isinstance(value, Mapping):
        return _object(value, path)
    if isinstance(value, list | tuple):
        return "[" + ",".join([_value(item, path) for item in value]) + "]"
    if isinstance(value, set | frozenset):
        return "[" + ",".join(sorted(_value(item, path) for item in value)) + "]"
    if isinstance(value, BaseException):
        return _object({"message": str(value), "name": type(value).__name__, "stack": UNSET}, path)
    if callable(value):
        return "null"
    return _value(described(value), path)


def described(value: object) -> object:
    """What a Python object says of itself: pydantic models, dataclasses, structs, dates; else its attributes."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump()
    if isinstance(value, Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict) and attributes:
        return {key: item for key, item in attributes.items() if not key.startswith("_")}
    try:
        return to_builtins(value)
    except (TypeError, ValueError, RecursionError):
        return {}


def stable(value: object) -> str:
    """Serialises a value so that equal values, and only those, give the same text (rule 2).

    Keys are sorted by UTF-16 code unit at every depth, numbers are doubles (1 and 1.0 are equal), ``UNSET`` stands for
    JavaScript's ``undefined``. Takes any JSON value and, so that a Python runner need not convert its arguments,
    bytes, tuples, sets, exceptions, dataclasses, pydantic models and structs. A value on its own path becomes
    ``"[Circular]"``.

    Args:
        value: The value; never changed.
    """
    return _value(value, ())


def fingerprint(text: str, salt: bytes = b"") -> str:
    """Fingerprint of a stable serialisation: the first 64 bits of SHA-256, as 16 lower-case hex digits.

    Args:
        text: What ``stable`` returned, or any text.
        salt: Secret of the deployment; without it short arguments could be guessed from their fingerprint.
    """
    return sha256(salt + text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
