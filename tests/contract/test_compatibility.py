"""Old and new versions read each other: the golden examples with what a later version may add to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwarden_schemas.codec import decode_event, decode_verdict, encode_event, encode_verdict
from loopwarden_schemas.errors import UnknownEventType
from loopwarden_schemas.examples import Example, examples

EVENTS = examples("agent-events")
VERDICTS = examples("loop-verdicts") + examples("loop-verdicts-shadow")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def with_more(node: Any, extra: dict[str, Any]) -> Any:
    """Adds fields to a message and to every object of the contract in it; content is not the contract's."""
    if not isinstance(node, dict):
        return [with_more(item, extra) for item in node] if isinstance(node, list) else node
    own = {key: value if key in ("args", "result", "error") else with_more(value, extra) for key, value in node.items()}
    return {**extra, **own}


@pytest.mark.parametrize("example", EVENTS, ids=str)
@settings(max_examples=15)
@given(value=json_values)
def test_event_of_a_newer_runner(example: Example, value: object) -> None:
    newer = with_more(example.payload, {"x_later": value})
    assert newer != example.payload
    assert json.loads(encode_event(decode_event(json.dumps(newer).encode()))) == example.payload


@pytest.mark.parametrize("example", VERDICTS, ids=str)
@settings(max_examples=15)
@given(value=json_values)
def test_verdict_of_a_newer_worker(example: Example, value: object) -> None:
    newer = with_more(example.payload, {"x_later": value})
    assert json.loads(encode_verdict(decode_verdict(json.dumps(newer).encode()))) == example.payload


@pytest.mark.parametrize("example", EVENTS, ids=str)
def test_null_is_absent(example: Example) -> None:
    """Runners in other languages write null for what they do not have."""
    optional = ("event_id", "agent_id", "ts", "seq", "parent_run_id", "root_run_id", "session_id", "batch_id", "usage")
    nulls = {name: None for name in optional if name not in example.payload}
    assert json.loads(encode_event(decode_event(json.dumps({**example.payload, **nulls}).encode()))) == example.payload


@pytest.mark.parametrize("kind", ["tool_progress", "", "TOOL_CALL", "tool_call "])
def test_event_of_an_unknown_type(kind: str) -> None:
    with pytest.raises(UnknownEventType) as caught:
        decode_event(json.dumps({**EVENTS[0].payload, "type": kind}).encode())
    assert caught.value.field == "type"
    assert caught.value.value == ascii(kind)
