"""The AsyncAPI document is valid, and says of topics and messages what the code says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from loopwarden.detection.partition import DeadLetter
from loopwarden.processor.dead_letters import headers_of
from loopwarden_schemas.asyncapi import asyncapi_document
from loopwarden_schemas.examples import examples
from loopwarden_schemas.topics import DEAD_LETTER_HEADERS, Topics
from tests.loads.records import Record

DATA = Path(__file__).parent.parent / "data" / "asyncapi" / "3.0.0.json"
DOCUMENT = asyncapi_document()


def problems(document: Any) -> list[str]:
    """What the schema of AsyncAPI 3.0.0 has against a document."""
    validator = Draft7Validator(json.loads(DATA.read_text(encoding="utf-8")))
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(document)]


def resolve(reference: str) -> Any:
    node: Any = DOCUMENT
    for part in reference.removeprefix("#/").split("/"):
        node = node[part]
    return node


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [reference for value in node.values() for reference in references(value)]
    return [reference for value in node for reference in references(value)] if isinstance(node, list) else []


def test_document_is_asyncapi() -> None:
    assert problems(DOCUMENT) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [("channels.agentEvents.address", 5), ("operations.workerReceiveEvents.action", "publish"), ("info.title", None)],
)
def test_the_check_would_find_a_mistake(path: str, value: object) -> None:
    wrong = json.loads(json.dumps(DOCUMENT))
    *parents, last = path.split(".")
    node = wrong
    for part in parents:
        node = node[part]
    node[last] = value
    assert problems(wrong)


def test_every_reference_leads_somewhere() -> None:
    found = references(DOCUMENT)
    assert found
    for reference in found:
        assert resolve(reference), reference


def test_every_topic_is_a_channel_with_its_settings() -> None:
    channels = {channel["address"]: channel["bindings"]["kafka"] for channel in DOCUMENT["channels"].values()}
    specs = {spec.name: spec for spec in Topics().specs()}
    assert channels.keys() == specs.keys()
    for name, spec in specs.items():
        settings = channels[name]["topicConfiguration"]
        policies = settings.pop("cleanup.policy")
        assert {"cleanup.policy": ",".join(policies), **{key: str(value) for key, value in settings.items()}} == (
            spec.config
        )
        settings["cleanup.policy"] = policies
        assert channels[name]["partitions"] == spec.partitions
        assert channels[name]["x-key"] == spec.key != ""
        assert channels[name]["x-compatibility"] == spec.compatibility != ""


def test_every_channel_is_written_and_read() -> None:
    ways = {(operation["action"], operation["channel"]["$ref"]) for operation in DOCUMENT["operations"].values()}
    assert ways == {(action, f"#/channels/{name}") for action in ("send", "receive") for name in DOCUMENT["channels"]}


def test_only_workers_write_verdicts() -> None:
    writers = {
        operation["tags"][0]["name"]
        for operation in DOCUMENT["operations"].values()
        if operation["action"] == "send" and operation["channel"]["$ref"] == "#/channels/loopVerdicts"
    }
    assert writers == {"worker"}


def test_examples_are_in_the_document() -> None:
    shown = [
        item["name"] for message in DOCUMENT["components"]["messages"].values() for item in message.get("examples", [])
    ]
    assert sorted(shown) == sorted(
        example.name for topic in ("agent-events", "loop-verdicts") for example in examples(topic)
    )


def test_headers_of_a_dead_letter_are_those_that_the_document_names() -> None:
    letter = DeadLetter(Record(5, 1_764_576_000_000, b"k", b"v"), "run_id", "is blank", "' '", False)
    assert [name for name, _ in headers_of(letter, "agent-events", 3)] == list(DEAD_LETTER_HEADERS)
