"""What leaves the process, and how large values are handled."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET, Raw

from loopwarden.errors import UsageError
from loopwarden.runner.content import LARGE_CHARACTERS, Content, cut, measure, snapshot


def test_fingerprint_publishes_nothing() -> None:
    assert Content().publishable("args", "read", {"path": "/secret"}) is UNSET


def test_raw_publishes_json() -> None:
    published = Content("raw").publishable("args", "read", {"b": 1, "a": (1, 2)})
    assert isinstance(published, Raw)
    assert bytes(published) == b'{"a":[1,2],"b":1}'


def test_raw_leaves_out_what_is_too_large_or_no_json() -> None:
    content = Content("raw", limit_bytes=100)
    assert content.publishable("result", "read", "x" * 99) is UNSET
    assert content.publishable("result", "read", "x" * 90) is not UNSET
    assert content.publishable("result", "read", UNSET) is UNSET


def test_redaction_sees_field_tool_and_value_and_may_publish_nothing() -> None:
    seen: list[tuple[str, str, Any]] = []

    def redact(field: str, tool: str, value: Any) -> Any:
        seen.append((field, tool, value))
        return UNSET if tool == "login" else {**value, "password": "…"}

    content = Content("raw", redact=redact)
    assert bytes(content.publishable("args", "call", {"password": "p"}) or b"") == '{"password":"…"}'.encode()
    assert content.publishable("args", "login", {"password": "p"}) is UNSET
    assert seen == [("args", "call", {"password": "p"}), ("args", "login", {"password": "p"})]


def test_a_redaction_that_fails_publishes_nothing() -> None:
    def redact(field: str, tool: str, value: Any) -> Any:
        raise KeyError(value)

    assert Content("raw", redact=redact).publishable("args", "read", {}) is UNSET


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(UsageError, match="hashed"):
        Content("hashed")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "large"),
    [
        ("x" * (LARGE_CHARACTERS - 1), False),
        ("x" * LARGE_CHARACTERS, True),
        ({"content": [{"type": "text", "text": "x" * LARGE_CHARACTERS}]}, True),
        ([0] * 1000, True),
        ({"a": {"b": [1, 2, None, True]}}, False),
        (ValueError("x" * LARGE_CHARACTERS), True),
        (None, False),
        (UNSET, False),
    ],
)
def test_measure(value: object, large: bool) -> None:
    assert measure(value).large == large


def test_measure_ends_on_a_cycle() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    assert measure(cycle).large


def test_a_snapshot_does_not_change_with_its_value() -> None:
    value = {"rows": [{"id": 1}], "raw": bytearray(b"a")}
    copy = snapshot(value)
    value["rows"][0]["id"] = 2  # type: ignore[index,call-overload]
    assert copy == {"rows": [{"id": 1}], "raw": b"a"}


def test_what_is_too_large_to_copy_is_taken_as_it_is() -> None:
    value = list(range(100_000))
    assert snapshot(value) is value


def test_cut_bounds_texts_and_keeps_equal_values_equal() -> None:
    value = {"a": "x" * 80, "b": ["y" * 80, 1]}
    assert cut(value, 1000) == value
    assert cut(value, 100) == {"a": "x" * 80, "b": ["y" * 20 + "… (80 characters)", 1]}
    assert cut("z" * 10, 4) == "zzzz… (10 characters)"
    assert cut(b"z" * 10, 4) == [b"zzzz", 10]
