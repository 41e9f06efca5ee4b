"""JSON as runners really write it: how deep it may be nested, and what is read although the standard forbids it."""

from __future__ import annotations

import json

__all__ = ["DEEPEST", "is_too_deep", "read_leniently"]

DEEPEST = 128
"""Levels of nesting that are read.

Parsers give up at a depth that depends on how deep their caller stands. A worker, an offline replay and a runner must
take and refuse the same messages, so the limit is ours, and well below any parser's.
"""
_LONGEST_INTEGER = 4000
"""Digits; Python refuses to convert more than 4,300."""
_AS_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def is_too_deep(data: bytes) -> bool:
    """Whether JSON is nested deeper than ``DEEPEST`` levels; any answer will do for what is no JSON.

    Args:
        data: JSON in UTF-8.
    """
    # Every level opens and closes: nearly all messages are too short, or have too few brackets.
    if len(data) <= 2 * DEEPEST or data.count(b"{") + data.count(b"[") <= DEEPEST:
        return False
    outside_strings = b"".join(data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    brackets = outside_strings.translate(_AS_BRACKETS, _OTHERS)
    # Each round takes the innermost level away; a level needs two brackets.
    levels = 0
    while levels + len(brackets) // 2 > DEEPEST:
        if levels == DEEPEST:
            return True
        left = brackets.replace(b"[]", b"")
        if len(left) == len(brackets):  # what is left does not pair: no JSON
            return levels + left.count(b"[") > DEEPEST
        brackets = left
        levels += 1
    return False


def read_leniently(data: bytes) -> object:
    """Reads JSON with lone surrogates (a text cut in the middle of an emoji), NaN, infinities, integers of any length.

    Slower than msgspec: for what msgspec refuses.

    Args:
        data: JSON in UTF-8, not too deep.

    Raises:
        ValueError: Not JSON even so; a UnicodeDecodeError where it is not UTF-8.
    """
    return json.loads(data.decode("utf-8", "surrogatepass"), parse_int=_integer)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_INTEGER else float(digits)
