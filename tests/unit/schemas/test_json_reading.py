"""How deep JSON may be, and what is read although the standard forbids it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden_schemas.json_reading import DEEPEST, is_too_deep, read_leniently


def depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


def nested(levels: int, leaf: object = 1) -> object:
    value = leaf
    for level in range(levels):
        value = [value] if level % 2 else {"[": value, "}": '"]\\"'}
    return value


@pytest.mark.parametrize("levels", [1, DEEPEST - 1, DEEPEST, DEEPEST + 1, DEEPEST + 2, 2 * DEEPEST])
@pytest.mark.parametrize(
    "beside", [[], [[{}]] * 200, ["[[[[" * 100], ['\\"]' * 300]], ids=["", "brackets", "[", "quotes"]
)
def test_the_limit_is_exact(levels: int, beside: list[object]) -> None:
    value = [nested(levels - 1), *beside]
    assert depth(value) == levels or beside
    assert is_too_deep(json.dumps(value).encode()) == (depth(value) > DEEPEST)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{}"\\a🦎', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values, st.integers(0, 2 * DEEPEST), json_values)
def test_the_limit_is_that_of_the_parsed_value(deep: object, levels: int, wide: object) -> None:
    value = [nested(levels, deep), [wide] * 150]
    assert is_too_deep(json.dumps(value).encode()) == (depth(value) > DEEPEST)


@given(st.binary(max_size=100), st.integers(1, 400))
def test_whatever_is_no_json_is_answered(data: bytes, times: int) -> None:
    assert is_too_deep(data * times) in (True, False)


@pytest.mark.parametrize("piece", [b"[", b"]", b'{"a":', b"[]", b"[]{", b'"', b'\\"', b"[{}", b"]["])
def test_megabytes_of_brackets_take_no_longer_than_their_length(piece: bytes) -> None:
    is_too_deep(piece * (2_000_000 // len(piece)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"\\ud83d"', "\ud83d"),
        (b'"\xed\xa0\xbd"', "\ud83d"),
        (b'{"a":Infinity,"b":-Infinity}', {"a": math.inf, "b": -math.inf}),
        (b"1e999", math.inf),
        (b"9" * 5000, math.inf),
        (b"-" + b"9" * 5000, -math.inf),
        (b"9" * 4000, int("9" * 4000)),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_read(text: bytes, value: object) -> None:
    assert read_leniently(text) == value


def test_not_a_number_is_read() -> None:
    assert math.isnan(read_leniently(b"NaN"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1,]", b"'a'", b"nan", b'"a\nb"', b"\xef\xbb\xbf1", "1".encode("utf-16")]
)
def test_not_json_even_so(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_leniently(text)


def test_not_utf_8() -> None:
    with pytest.raises(UnicodeDecodeError):
        read_leniently(b'"\xff"')
