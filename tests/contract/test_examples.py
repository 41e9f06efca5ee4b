"""Every golden example is valid, is read, and is written again as it was."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import UNSET, Raw

from loopwarden_schemas.codec import decode_event, decode_verdict, encode_event, encode_verdict
from loopwarden_schemas.events import EVENT_TYPES
from loopwarden_schemas.examples import FOLDER, Example, examples
from loopwarden_schemas.facts import reduce_content, reduce_event
from loopwarden_schemas.json_schema import events_schema, verdicts_schema
from loopwarden_schemas.topics import Topics
from loopwarden_schemas.verdicts import Action, Level, Scope, Stage

TOPICS = Topics()
EVENTS = examples(TOPICS.events)
VERDICTS = examples(TOPICS.verdicts) + examples(TOPICS.shadow_verdicts)
SCHEMAS = {"event": events_schema(), "verdict": verdicts_schema()}
FACTS = json.loads((FOLDER / "facts.json").read_text(encoding="utf-8"))["vectors"]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_schema_is_json_schema(kind: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[kind])


@pytest.mark.parametrize("example", EVENTS, ids=str)
def test_event(example: Example) -> None:
    Draft202012Validator(SCHEMAS["event"]).validate(example.payload)
    event = decode_event(example.wire)
    assert event.type_ == example.payload["type"]
    assert json.loads(encode_event(event)) == example.payload


@pytest.mark.parametrize("example", VERDICTS, ids=str)
def test_verdict(example: Example) -> None:
    Draft202012Validator(SCHEMAS["verdict"]).validate(example.payload)
    verdict = decode_verdict(example.wire)
    assert json.loads(encode_verdict(verdict)) == example.payload
    assert (verdict.shadow is not None) == (example.topic == TOPICS.shadow_verdicts)


def test_every_event_type_has_an_example() -> None:
    assert {example.payload["type"] for example in EVENTS} == set(EVENT_TYPES)


@pytest.mark.parametrize(("field", "values"), [("level", Level), ("action", Action), ("stage", Stage)])
def test_every_kind_of_verdict_has_an_example(field: str, values: Any) -> None:
    assert {example.payload[field] for example in VERDICTS} == set(get_args(values))


def test_every_scope_has_an_example() -> None:
    entries = [entry for example in VERDICTS for entry in example.payload.get("standing", [])]
    assert {item["scope"] for item in [*entries, *(example.payload for example in VERDICTS)]} == set(get_args(Scope))


def test_examples_with_and_without_content_come_to_the_same_facts() -> None:
    payloads = {example.name: decode_event(example.wire) for example in EVENTS}
    for name in ("tool_call", "tool_result"):
        plain, content = payloads[name], payloads[f"{name}_with_content"]
        assert reduce_event(content) == plain.facts  # type: ignore[arg-type,union-attr]


@pytest.mark.parametrize("vector", FACTS, ids=lambda vector: f"{vector['tool']}")
def test_facts_of_content(vector: dict[str, Any]) -> None:
    """A publisher in any language has to reach these; a run's fingerprints must outlive an upgrade of the library."""
    content = {name: vector.get(name, UNSET) for name in ("args", "result", "error")}
    facts = reduce_content(vector["tool"], **content, salt=vector.get("salt", "").encode())
    assert msgspec.to_builtins(facts) == vector["facts"]


def test_content_reduces_alike_as_bytes_of_an_event() -> None:
    """What the worker reduces is what the library would have published."""
    for vector in FACTS:
        if "salt" in vector or "args" not in vector:
            continue
        raw = {name: vector[name] for name in ("args", "result", "error") if name in vector}
        event = {"type": "tool_result", "run_id": "r", "tool": vector["tool"], **raw}
        decoded = decode_event(json.dumps(event).encode())
        assert isinstance(decoded.args, Raw)  # type: ignore[union-attr]
        assert msgspec.to_builtins(reduce_event(decoded)) == vector["facts"]  # type: ignore[arg-type]
