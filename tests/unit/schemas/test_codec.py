"""Events and verdicts read and written; whatever is wrong is named, with field, value and reason."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwarden_schemas.codec import decode_event, decode_verdict, encode_event, encode_verdict, event_time
from loopwarden_schemas.errors import UnknownEventType, WireError
from loopwarden_schemas.events import Event, RunStarted, ToolCall, ToolResult
from loopwarden_schemas.facts import reduce_event
from loopwarden_schemas.json_reading import DEEPEST
from loopwarden_schemas.verdicts import Cause, Verdict

LATEST = 253_402_300_799_999


def wire(**fields: Any) -> bytes:
    return json.dumps({"type": "tool_call", "run_id": "r", "tool": "exec", **fields}).encode()


def with_args(raw: bytes) -> bytes:
    return b'{"type":"tool_call","run_id":"r","tool":"exec","args":' + raw + b"}"


def refused(data: bytes) -> WireError:
    with pytest.raises(WireError) as caught:
        decode_event(data)
    return caught.value


def attempt(data: bytes) -> tuple[Event | None, WireError | None]:
    try:
        return decode_event(data), None
    except WireError as error:
        return None, error


@pytest.mark.parametrize(
    ("data", "field", "reason", "value"),
    [
        (b"", "message", "is not valid JSON", ""),
        (b"{", "message", "is not valid JSON", ""),
        (b"null", "message", "Expected `object`, got `null`", ""),
        (b"[]", "message", "Expected `object`, got `array`", ""),
        (b"\xff\xfe", "message", "is not valid JSON", ""),
        (b'{"type":"run_started","run_id":"\xff"}', "message", "is not valid JSON: Invalid UTF-8", ""),
        (b'\xef\xbb\xbf{"type":"run_started","run_id":"r"}', "message", "is not valid JSON", ""),
        (b'{"type":"run_started","run_id":"r"}{}', "message", "is not valid JSON", ""),
        (b"{}", "message", "missing required field `type`", ""),
        (b'{"run_id":"r"}', "message", "missing required field `type`", ""),
        (b'{"type":"tool_call","run_id":"r"}', "message", "missing required field `tool`", ""),
        (b'{"type":"tool_call","tool":"x"}', "message", "missing required field `run_id`", ""),
        (b'{"type":5,"run_id":"r"}', "type", "Expected `str`", "5"),
        (b'{"type":null,"run_id":"r"}', "type", "Expected `str`", "None"),
        (wire(run_id=5), "run_id", "Expected `str`, got `int`", "5"),
        (wire(run_id=None), "run_id", "Expected `str`, got `null`", "None"),
        (wire(run_id=""), "run_id", "is blank", ""),
        (wire(run_id=" \t\n"), "run_id", "is blank", ""),
        (wire(run_id="\x00barrier"), "run_id", "begins with NUL", "'\\x00barrier'"),
        (wire(run_id=" \x00"), "run_id", "begins with NUL", "'\\x00'"),
        (wire(root_run_id="\x00config"), "root_run_id", "begins with NUL", "'\\x00config'"),
        (wire(run_id="x" * 257), "run_id", "is longer than 256 bytes", f"'{'x' * 80}'… (257 characters)"),
        (wire(run_id="é" * 129), "run_id", "is longer than 256 bytes", f"'{chr(92)}xe9"),
        (wire(run_id="x" * 10_240), "run_id", "is longer than 256 bytes", f"'{'x' * 80}'… (10240 characters)"),
        (wire(root_run_id="é" * 129), "root_run_id", "is longer than 256 bytes", ""),
        (wire(event_id="x" * 257), "event_id", "length <= 256", f"'{'x' * 80}'… (257 characters)"),
        (wire(call_id="x" * 1025), "call_id", "length <= 1024", f"'{'x' * 80}'… (1025 characters)"),
        (wire(tool="x" * 4097), "tool", "length <= 4096", f"'{'x' * 80}'… (4097 characters)"),
        (wire(tool="\x1b[31mred", call_id=1), "call_id", "Expected `str | null`, got `int`", "1"),
        (wire(tool=None), "tool", "Expected `str`, got `null`", "None"),
        (wire(seq=-1), "seq", "Expected `int` >= 0", "-1"),
        (wire(seq=1.5), "seq", "Expected `int | null`, got `float`", "1.5"),
        (wire(seq=2**53 + 1), "seq", "Expected `int` <= 9007199254740992", "9007199254740993"),
        (wire(seq=10**30), "seq", "Expected `int` <= 9007199254740992", "1000000000000000000000000000000"),
        (wire(ts="yesterday"), "ts", "got `str`", "'yesterday'"),
        (wire(ts=True), "ts", "got `bool`", "True"),
        (wire(usage={"cost": -5}), "usage.cost", "Expected `int` >= 0", "-5"),
        (wire(usage=5), "usage", "Expected `object | null`, got `int`", "5"),
        (wire(want_verdict="yes"), "want_verdict", "Expected `bool`, got `str`", "'yes'"),
        (wire(type="verdict_ack"), "message", "missing required field `verdict_id`", ""),
        (wire(type="verdict_ack", verdict_id="v", result="done"), "result", "Invalid enum value 'done'", ""),
        (with_args(b"[" * 5_000_000), "message", "is nested too deeply", ""),
        (with_args(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1)), "message", "is nested too deeply", ""),
    ],
    ids=lambda value: ascii(value)[:60] if isinstance(value, bytes) else "",
)  # fmt: skip
def test_what_is_wrong_is_named(data: bytes, field: str, reason: str, value: str) -> None:
    error = refused(data)
    assert type(error) is WireError
    assert error.field == field
    assert reason in error.reason
    assert error.value.startswith(value)
    assert bool(error.value) == bool(value) or field == "root_run_id"
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"args": {"secret": "hunter2"}, "run_id": {"secret": "hunter2"}}, "run_id"),
        ({"tool": {"name": "exec", "arguments": "hunter2"}}, "tool"),
        ({"facts": "hunter2"}, "facts"),
        ({"facts": {"args_fp": "hunter2"}}, "facts.args_fp"),
        ({"facts": {"unknown_tool": "hunter2" * 100}}, "facts.unknown_tool"),
        ({"args": "hunter2", "seq": "x"}, "seq"),
    ],
)
def test_no_error_shows_what_may_be_content(fields: dict[str, Any], field: str) -> None:
    error = refused(wire(**fields))
    assert error.field == field
    assert "hunter2" not in f"{error} {error.reason} {error.value}"


@pytest.mark.parametrize("value", ["\x1b[31m", "‮gnp.exe", "a\r\nlevel=error", "<script>", "x" * 5000, "🦎" * 300])
def test_a_value_is_shown_in_printable_ascii_and_clipped(value: str) -> None:
    error = refused(wire(event_id=value * 300))
    assert error.value.isprintable()
    assert error.value.replace("…", "").isascii()
    assert len(error.value) < 1000


@pytest.mark.parametrize("kind", ["tool_progress", "", "x' - at `$.run_id`", "\x1b[2J", "y" * 1000])
def test_an_unknown_type_is_an_error_of_its_own(kind: str) -> None:
    error = refused(wire(type=kind))
    assert isinstance(error, UnknownEventType)
    assert (error.field, error.reason) == ("type", "is unknown")
    assert error.value.startswith(ascii(kind[:80])[:-1])


def test_a_second_type_of_ours_is_no_unknown_one() -> None:
    """The ratio of rejections must count it."""
    error = refused(b'{"type":"tool_call","run_id":"r","tool":"x","type":"tool_result"}')
    assert type(error) is WireError
    assert (error.field, error.reason) == ("type", "is there twice")


def test_of_other_duplicate_keys_the_last_counts() -> None:
    event = decode_event(b'{"type":"tool_call","run_id":"a","run_id":"b","tool":"x","args":1,"args":2}')
    assert event.run_id == "b"
    assert isinstance(event, ToolCall)
    assert bytes(event.args) == b"2"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given_id", "kept"), [("r", "r"), (" r\n", "r"), ("a\x00b", "a\x00b"), ("é" * 128, "é" * 128)]
)
def test_run_ids_are_trimmed(given_id: str, kept: str) -> None:
    event = decode_event(wire(run_id=given_id, root_run_id=given_id))
    assert (event.run_id, event.root_run_id, event.key) == (kept, kept, kept)


def test_a_blank_root_is_none() -> None:
    event = decode_event(wire(root_run_id="  "))
    assert event.root_run_id is None
    assert event.key == "r"


@pytest.mark.parametrize(
    ("raw", "same"),
    [
        (b'"\\ud83d"', b'"\xed\xa0\xbd"'),  # a text cut in the middle of an emoji, as JSON.stringify writes it
        (b"NaN", b'"NaN"'),
        (b"[1e999]", b"[Infinity]"),
        (b"9" * 5000, b"1e999"),
        (b'{"a":1,"a":2}', b'{"a":2}'),
    ],
    ids=["surrogate", "nan", "infinity", "digits", "duplicate"],
)
def test_content_that_json_forbids_is_content_all_the_same(raw: bytes, same: bytes) -> None:
    facts = [reduce_event(decode_event(with_args(text))) for text in (raw, same)]  # type: ignore[arg-type]
    assert facts[0].args_fp == facts[1].args_fp
    assert facts[0] != reduce_event(decode_event(with_args(b"null")))  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["run_id", "root_run_id", "call_id", "tool", "agent_id", "event_id", "type"])
def test_an_id_with_a_lone_surrogate_is_refused(field: str) -> None:
    """It could not be written into a verdict."""
    error = refused(wire(**{field: "a\ud83d"}))
    assert (error.field, error.reason, error.value) == (field, "holds a lone surrogate", "")


def test_an_unknown_field_may_hold_anything() -> None:
    assert decode_event(wire(later={"\ud83d": [math.nan, "\ud83d"]})).run_id == "r"


def test_the_same_depth_is_refused_however_deep_the_caller_stands() -> None:
    """Worker, replay and runner stand at different depths, and must agree."""
    deepest = with_args(b"[" * (DEEPEST - 1) + b"]" * (DEEPEST - 1))

    def at(levels: int) -> Event:
        return decode_event(deepest) if levels == 0 else at(levels - 1)

    assert isinstance(at(0), ToolCall)
    event = at(sys.getrecursionlimit() - 450)
    assert isinstance(event, ToolCall)
    reduce_event(event)


@pytest.mark.parametrize(
    ("ts", "time"),
    [
        (None, 7),
        (1_764_576_000_000, 1_764_576_000_000),
        (1_764_576_000_000.75, 1_764_576_000_000),
        (0, 0),
        (LATEST, LATEST),
        (LATEST + 1, 7),
        (-1, 7),
        (1e308, 7),
        (10**400, 7),
        (-(10**400), 7),
        (math.nan, 7),
        (math.inf, 7),
        (-math.inf, 7),
    ],
    ids=lambda value: repr(value)[:25],
)
def test_an_absurd_time_is_the_brokers(ts: float | None, time: int) -> None:
    data = wire(ts=ts)
    assert event_time(decode_event(data), 7) == time


ids = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["tool_call", "tool_result", "call_refused"]),
            "run_id": ids,
            "tool": st.text(max_size=9),
        },
        optional={
            "event_id": ids,
            "agent_id": ids,
            "ts": st.integers(-5, 2**53) | st.floats(),
            "seq": st.integers(0, 2**53),
            "root_run_id": ids,
            "batch_id": ids,
            "call_id": st.text(max_size=9),
            "args": json_values,
            "result": json_values,
            "error": json_values,
            "vetoed": st.booleans(),
            "want_verdict": st.booleans(),
        },
    )
)
def test_what_is_read_and_written_is_read_as_the_same(fields: dict[str, Any]) -> None:
    data = json.dumps(fields).encode()
    event, error = attempt(data)
    if event is None:
        assert error is not None
        assert error.field in {*fields, "message"}
        return
    again = encode_event(event)
    assert encode_event(decode_event(again)) == again
    for name in ("args", "result", "error"):
        if name in fields and hasattr(event, name):
            assert json.loads(bytes(getattr(event, name))) == fields[name]


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    event, error = attempt(data)
    if error is not None:
        assert error.field
        assert error.reason
        assert str(error).isprintable()
    else:
        assert event is not None


VERDICT = Verdict(
    id="0" * 32,
    run_id="r",
    level="critical",
    action="block",
    scope="call",
    stage="final",
    mode="enforce",
    profile="documented",
    cause=Cause("agent-events", 3, 17),
    config_version="v",
    ts=5,
)


def test_verdict_there_and_back() -> None:
    assert decode_verdict(encode_verdict(VERDICT)) == VERDICT
    assert b"null" not in encode_verdict(VERDICT)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", "message"),
        (b"[" * 1_000_000, "message"),
        (b'{"id":"\xff"}', "message"),
        (b"{}", "message"),
        (encode_verdict(VERDICT).replace(b'"critical"', b'"fatal"'), "level"),
        (encode_verdict(VERDICT).replace(b"17", b'"17"'), "cause.offset"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_no_verdict(data: bytes, field: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_verdict(data)
    assert caught.value.field == field


def test_events_are_plain_structs_for_readers() -> None:
    started = decode_event(b'{"type":"run_started","run_id":"r","model":"m"}')
    assert started == RunStarted(run_id="r", model="m")
    assert msgspec.json.decode(encode_event(ToolResult(run_id="r", tool="x"))) == {
        "type": "tool_result",
        "run_id": "r",
        "tool": "x",
    }
