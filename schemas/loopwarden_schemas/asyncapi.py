"""The AsyncAPI 3.0 document: every topic, what stands in it, who writes and who reads it."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from loopwarden_schemas.events import Event
from loopwarden_schemas.examples import examples
from loopwarden_schemas.json_schema import struct_schemas
from loopwarden_schemas.topics import DEAD_LETTER_HEADERS, Topics, TopicSpec
from loopwarden_schemas.verdicts import Verdict

__all__ = ["asyncapi_document"]

_BINDING = "0.5.0"
_JSON = "application/json"
_NUMBERS = frozenset(["retention.ms", "max.message.bytes", "segment.ms"])
_Node = dict[str, Any]


class _Channel(NamedTuple):
    """A topic's part in the document: its name there, its messages, and who does what with it."""

    name: str
    messages: tuple[str, ...]
    senders: tuple[tuple[str, str], ...]
    receivers: tuple[tuple[str, str], ...]


def asyncapi_document(version: str = "1") -> _Node:
    """The document, for topics without a prefix and the default number of partitions.

    Args:
        version: Version of the contract.
    """
    topics = Topics()
    channels = _channels(topics)
    specs = {spec.name: spec for spec in topics.specs()}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "LoopWarden",
            "version": version,
            "description": (
                "Agent runners publish the events of their runs; workers fold them and answer with verdicts, in the "
                "same partition. Operations name their party first: runner, worker, operator. Names are those without "
                "a prefix. All topics have the same number of partitions, for life. A message key decides the "
                "partition by murmur2, as the Java client's default does: librdkafka needs "
                "`partitioner=murmur2_random`."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": _JSON,
        "channels": {channel.name: _channel(channel, specs[topic]) for topic, channel in channels.items()},
        "operations": _operations(channels),
        "components": {
            "messages": _messages(topics),
            "schemas": struct_schemas([*get_args(Event), Verdict], "#/components/schemas/{}"),
        },
    }


def _channels(topics: Topics) -> dict[str, _Channel]:
    events = tuple(_tag(kind) for kind in get_args(Event))
    tables = ((topics.history_ring, "historyRing"), (topics.post_compaction_window, "postCompactionWindow"))
    return {
        topics.events: _Channel(
            "agentEvents",
            events,
            (
                ("runnerPublishEvents", "A runner publishes what its runs do."),
                ("operatorReleaseRun", "An operator lets a run start clean: `run_released`."),
            ),
            (("workerReceiveEvents", "Workers share the partitions in one consumer group."),),
        ),
        topics.verdicts: _Channel(
            "loopVerdicts",
            ("verdict",),
            (("workerSendVerdicts", "Verdicts and forecasts; at least once, a repeated one has the same id."),),
            (("runnerFollowVerdicts", "A runner follows the partitions of its own runs, without a group."),),
        ),
        topics.dead_letters: _Channel(
            "deadLetters",
            ("dead_letter",),
            (("workerSendDeadLetters", "What could not be taken, with the reason; nothing is dropped."),),
            (("operatorReadDeadLetters", "People and tools, to see what is wrong and to publish it again."),),
        ),
        topics.shadow_verdicts: _Channel(
            "shadowVerdicts",
            ("verdict",),
            (("workerSendShadowVerdicts", "What another configuration would have said."),),
            (("operatorReadShadowVerdicts", "People and tools. A runner never obeys these."),),
        ),
        **{
            topic: _Channel(
                f"{name}Changelog",
                ("row",),
                (
                    (
                        f"workerWrite{name[0].upper()}{name[1:]}",
                        "One record a run and batch; a tombstone when it is over.",
                    ),
                ),
                ((f"workerRestore{name[0].upper()}{name[1:]}", "Read back when a partition is assigned."),),
            )
            for topic, name in tables
        },
    }


def _channel(channel: _Channel, spec: TopicSpec) -> _Node:
    settings: _Node = {key: int(value) if key in _NUMBERS else value for key, value in spec.config.items()}
    settings["cleanup.policy"] = spec.config["cleanup.policy"].split(",")
    return {
        "address": spec.name,
        "description": f"{spec.description} Key: {spec.key}. Compatibility: {spec.compatibility}.",
        "messages": {message: {"$ref": f"#/components/messages/{message}"} for message in channel.messages},
        "bindings": {
            "kafka": {
                "topic": spec.name,
                "partitions": spec.partitions,
                "topicConfiguration": settings,
                "bindingVersion": _BINDING,
                "x-key": spec.key,
                "x-compatibility": spec.compatibility,
            }
        },
    }


def _operations(channels: dict[str, _Channel]) -> _Node:
    found: _Node = {}
    for channel in channels.values():
        for action, operations in (("send", channel.senders), ("receive", channel.receivers)):
            for name, summary in operations:
                party = next(party for party in ("runner", "worker", "operator") if name.startswith(party))
                messages = channel.messages
                if name == "operatorReleaseRun":
                    messages = ("run_released",)
                elif name == "runnerPublishEvents":
                    messages = tuple(message for message in messages if message != "run_released")
                found[name] = {
                    "action": action,
                    "channel": {"$ref": f"#/channels/{channel.name}"},
                    "summary": summary,
                    "tags": [{"name": party}],
                    "messages": [{"$ref": f"#/channels/{channel.name}/messages/{message}"} for message in messages],
                }
    return found


def _messages(topics: Topics) -> _Node:
    event_key = {"type": "string", "description": "The root run's id where the event has one, else the run's."}
    found: _Node = {}
    for kind in get_args(Event):
        tag = _tag(kind)
        shown = [
            {"name": example.name, "payload": example.payload}
            for example in examples(topics.events)
            if example.payload["type"] == tag
        ]
        found[tag] = _message(tag, kind.__name__, event_key, shown)
    shown = [{"name": item.name, "payload": item.payload} for item in examples(topics.verdicts)]
    found["verdict"] = _message("verdict", "Verdict", {**event_key, "description": "The key of its event."}, shown)
    found["dead_letter"] = {
        "name": "dead_letter",
        "summary": "An event that could not be taken: its own bytes, key and headers, and why.",
        "contentType": "application/octet-stream",
        "headers": {
            "type": "object",
            "properties": {name: {"type": "string", "description": text} for name, text in DEAD_LETTER_HEADERS.items()},
        },
        "payload": {},
    }
    found["row"] = {
        "name": "row",
        "summary": "A row of a worker's table; its form is the worker's own and carries a version.",
        "contentType": "application/vnd.msgpack",
        "payload": {},
    }
    return found


def _message(name: str, schema: str, key: _Node, shown: list[_Node]) -> _Node:
    return {
        "name": name,
        "contentType": _JSON,
        "payload": {"$ref": f"#/components/schemas/{schema}"},
        "bindings": {"kafka": {"key": key, "bindingVersion": _BINDING}},
        "examples": shown,
    }


def _tag(kind: Any) -> str:
    return str(kind.__struct_config__.tag)
