"""The JSON Schemas take and refuse what the code takes and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.errors import ConfigurationError, WireError
from loopwarden_schemas.examples import examples
from loopwarden_schemas.json_schema import configuration_schema, events_schema
from tests.vectors.files import DATA

EVENTS = Draft202012Validator(events_schema())
CONFIGURATION = Draft202012Validator(configuration_schema())
SINGLES = json.loads((DATA / "vectors" / "config.json").read_text())["singles"]
BASE = {example.name: example.payload for example in examples("agent-events")}

values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**54), 2**54),
    # To JSON Schema 1.0 is an integer, to the codec it is none.
    st.floats(allow_nan=False, allow_infinity=False, width=32).filter(lambda number: not number.is_integer()),
    st.sampled_from(["", "x", "warn", "applied", "0123456789abcdef", "a" * 257, "b" * 5000]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["tokens_in", "args_fp", "x"]), st.integers(-1, 5), max_size=2),
)


@given(st.sampled_from(sorted(BASE)), st.data())
def test_one_changed_field_is_judged_alike(name: str, data: st.DataObject) -> None:
    event: dict[str, Any] = dict(BASE[name])
    definition = next(
        definition
        for definition in EVENTS.schema["$defs"].values()
        if definition["properties"].get("type", {}).get("enum") == [event["type"]]
    )
    field = data.draw(st.sampled_from(sorted(definition["properties"])), label="field")
    event[field] = data.draw(values, label="value")
    try:
        decode_event(json.dumps(event).encode())
        taken = True
    except WireError:
        taken = False
    assert EVENTS.is_valid(event) == taken


@pytest.mark.parametrize("run_id", ["", " ", "\t\n", "\x00barrier", " \x00", "x" * 257, 5, None])
def test_run_ids_that_are_refused_are_not_valid(run_id: object) -> None:
    event = {"type": "run_started", "run_id": run_id}
    assert not EVENTS.is_valid(event)
    with pytest.raises(WireError):
        decode_event(json.dumps(event).encode())


def test_schema_is_json_schema() -> None:
    Draft202012Validator.check_schema(CONFIGURATION.schema)


@pytest.mark.parametrize("case", [case for case in SINGLES if not case.get("absent")], ids=json.dumps)
def test_configuration_vector(case: dict[str, Any]) -> None:
    document = {"tools": {"loopDetection": case["config"]}}
    assert CONFIGURATION.is_valid(document) == case["valid"]
    assert CONFIGURATION.is_valid({"agents": {"list": [{"id": "a", **document}]}}) == case["valid"]
    assert CONFIGURATION.is_valid({"agents": {"entries": {"a": document}}}) == case["valid"]


@pytest.mark.parametrize(
    ("ours", "valid"),
    [
        ({}, True),
        ({"mode": "observe", "profile": "documented"}, True),
        ({"ignoredAfter": 0, "idleTimeoutSeconds": 60.0}, True),
        ({"agents": {"a": {"mode": "observe"}}}, True),
        ({"tools": {"exec": {"kind": "read", "wait": False}}}, True),
        ({"mode": "off"}, False),
        ({"ignoredAfter": -1}, False),
        ({"ignoredAfter": 1.5}, False),
        ({"ignored_after": 1}, False),
        ({"agents": {"a": {"agents": {}}}}, False),
        ({"tools": {"exec": {"kind": "write"}}}, False),
        ({"tools": {"exec": {"wait": "yes"}}}, False),
    ],
    ids=repr,
)
def test_our_section(ours: dict[str, Any], valid: bool) -> None:
    document = {"loopwarden": ours}
    assert CONFIGURATION.is_valid(document) == valid
    if valid:
        Configuration(document)
    else:
        with pytest.raises(ConfigurationError):
            Configuration(document)
