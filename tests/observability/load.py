"""A load whose every tick brings the same: so much of everything that a dashboard shows, by runs of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from loopwarden.detection.notes import Note
from loopwarden.detection.partition import Batch
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import EVENT_TYPES, Usage
from loopwarden_schemas.verdicts import Verdict
from tests.loads.records import MemoryRows, Record, fold_all

BLOCK = {"enabled": True, "warningThreshold": 3, "criticalThreshold": 5, "globalCircuitBreakerThreshold": 7}
CONFIGURATION = Configuration.from_block(BLOCK)
Event = dict[str, Any]


def tick(number: int) -> list[bytes]:
    """The messages of one tick, in order; those without a run of their own included."""
    return [json.dumps(event).encode() for event in _events(number)] + [b"{", b'{"type": "from_the_future"}']


def key_of(message: bytes) -> bytes:
    """The message key that a runner would give it."""
    try:
        run_id: str = json.loads(message)["run_id"]
    except (ValueError, KeyError):
        return b"broken"
    return run_id.encode()


def as_records(messages: list[bytes], start_ms: int, *, offset: int = 0) -> list[Record]:
    """Messages as records, a millisecond apart."""
    return [
        Record(number, start_ms + number - offset, key_of(message), message)
        for number, message in enumerate(messages, offset)
    ]


def _events(number: int) -> list[Event]:
    return [
        *_repeats(f"repeat-{number}"),
        *_ping_pong(f"pong-{number}"),
        *_healthy(f"write-{number}"),
        *_compacted(f"compact-{number}"),
    ]


def _call(base: Event, tool: str, index: int, argument: object, result: str, **more: Any) -> list[Event]:
    call = {**base, "tool": tool, "call_id": f"{base['run_id']}-{index}", "args": {"a": argument}}
    return [{**call, "type": "tool_call", **more}, {**call, "type": "tool_result", "result": result}]


def _repeats(run_id: str) -> list[Event]:
    """One call eight times; the runner goes on, and is stopped in the end."""
    base: Event = {"run_id": run_id, "agent_id": "coder"}
    events: list[Event] = [{**base, "type": "run_started"}]
    for index in range(8):
        usage = {"tokens_in": 1000, "tokens_out": 50, "cost": 4000}
        events += _call(base, "search", index, "same", "nothing", usage=usage)
    return [*events, {**base, "type": "run_ended", "outcome": "failure"}]


def _ping_pong(run_id: str) -> list[Event]:
    """Two calls in turn; what is judged critical is refused by an obedient runner."""
    base: Event = {"run_id": run_id, "agent_id": "support"}
    events: list[Event] = [{**base, "type": "run_started"}]
    for index in range(4):
        events += _call(base, ("status", "refresh")[index % 2], index, index % 2, f"outcome {index % 2}")
    refused = {**base, "tool": "status", "call_id": f"{run_id}-4", "args": {"a": 0}}
    events += [{**refused, "type": "tool_call"}, {**refused, "type": "call_refused"}]
    ack = {**base, "type": "verdict_ack", "verdict_id": "v"}
    events += [{**ack, "result": "applied", "after_ms": 3}, {**ack, "result": "late", "after_ms": 40}]
    return [*events, {**base, "type": "run_ended", "outcome": "aborted"}]


def _healthy(run_id: str) -> list[Event]:
    """Ten different calls, a duplicate, a gap, a report of the runner library; it never ends."""
    base: Event = {"run_id": run_id, "agent_id": "writer"}
    started = {**base, "type": "run_started", "event_id": "e", "seq": 0}
    report = {"dropped": 2, "queue_high": 300, "publish_ms": 7}
    events: list[Event] = [started, started, {**base, "type": "run_started", "seq": 4, "publisher": report}]
    for index in range(10):
        events += _call(base, "write", index, index, f"outcome {index}")
    return events


def _compacted(run_id: str) -> list[Event]:
    """A compaction, and then the same call three times with the same outcome: the guard ends it."""
    base: Event = {"run_id": run_id, "agent_id": "coder"}
    events: list[Event] = [{**base, "type": "run_started"}, {**base, "type": "compaction"}]
    for index in range(3):
        events += _call(base, "read", index, "same", "same")
    # Armed for good: nothing comes any more.
    return [*events, {**base, "type": "compaction"}]


@dataclass
class PerTick:
    """What one tick comes to, counted from its events and its verdicts, without the metrics."""

    messages: list[bytes] = field(default_factory=lambda: tick(0))

    @cached_property
    def batch(self) -> Batch:
        """The tick, folded."""
        self.rows = MemoryRows()
        return next(fold_all(as_records(self.messages, 1_760_000_000_000), CONFIGURATION, rows=self.rows))

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Its verdicts."""
        return [verdict for _, verdict in self.batch.verdicts]

    @cached_property
    def loops(self) -> list[Verdict]:
        """Final verdicts of level warning or critical."""
        return [verdict for verdict in self.verdicts if verdict.stage == "final" and verdict.level != "none"]

    @cached_property
    def events(self) -> list[Event]:
        """Its events, without what cannot be taken."""
        return _events(0)

    def notes(self, kind: str) -> list[Note]:
        """Notes of a kind."""
        return [note for note in self.batch.notes if note.kind == kind]

    def types(self) -> dict[str, int]:
        """Events by type."""
        return {kind: sum(event["type"] == kind for event in self.events) for kind in EVENT_TYPES}

    def calls(self, by: str) -> Counter[str]:
        """Calls attempted, by a field: tool_call events; every refusal here follows its call."""
        return Counter(event.get(by, "") for event in self.events if event["type"] == "tool_call")

    def loops_by(self, key: Callable[[Verdict], Any]) -> Counter[Any]:
        """Loops by anything."""
        return Counter(key(verdict) for verdict in self.loops)

    def spent(self, kind: str, label: str | None = None) -> Usage:
        """Usage that notes of a kind carry."""
        used = [
            note.detail
            for note in self.notes(kind)
            if isinstance(note.detail, Usage) and (label is None or note.label == label)
        ]
        return Usage(
            tokens_in=sum(usage.tokens_in for usage in used),
            tokens_out=sum(usage.tokens_out for usage in used),
            cost=sum(usage.cost for usage in used),
        )
