"""Recorded runs as records of a partition, folded in batches as the worker does it, without a broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopwarden.detection.partition import Batch, fold_batch
from loopwarden_schemas.configuration import Configuration

TRACES = Path(__file__).parent.parent / "data" / "traces" / "agent-runs.jsonl"
START_MS = 1_760_000_000_000
STRICT = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3, "globalCircuitBreakerThreshold": 4}
"""Thresholds low enough that recorded runs, which are short, reach every level."""


@dataclass
class Record:
    """A record as the broker would hand it out."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass
class MemoryRows:
    """Rows of a partition in two dictionaries."""

    ring: dict[bytes, bytes] = field(default_factory=dict)
    armed: dict[bytes, bytes] = field(default_factory=dict)

    def history(self, key: bytes) -> bytes | None:
        """Row of history-ring."""
        return self.ring.get(key)

    def window(self, key: bytes) -> bytes | None:
        """Row of post-compaction-window."""
        return self.armed.get(key)

    def apply(self, batch: Batch) -> None:
        """Replaces rows by what a batch came to."""
        for table, rows in ((self.ring, batch.history), (self.armed, batch.window)):
            for key, row in rows.items():
                if row is None:
                    table.pop(key, None)
                else:
                    table[key] = row


def recorded_events(runs: int | None = None) -> list[dict[str, Any]]:
    """Events of the recorded runs, in order: started, each call with its result, ended. An agent per origin."""
    events: list[dict[str, Any]] = []
    for number, line in enumerate(TRACES.read_text(encoding="utf-8").splitlines()[:runs]):
        trace = json.loads(line)
        base = {"run_id": f"run-{number}", "agent_id": trace["source"].split("/")[1].split()[0]}
        events.append({**base, "type": "run_started"})
        for index, event in enumerate(trace["events"]):
            call = {**base, "tool": event["tool"], "call_id": f"c{index}", "args": event["params"]}
            events.append({**call, "type": "tool_call"})
            outcome = {key: event[key] for key in ("result", "error") if key in event}
            events.append({**call, "type": "tool_result", **outcome})
        events.append({**base, "type": "run_ended", "outcome": "success" if trace["outcome"] == 1 else "failure"})
    return events


def records(events: Iterable[dict[str, Any]], *, offset: int = 0, start_ms: int = START_MS) -> list[Record]:
    """Events as records, one millisecond apart."""
    return [
        Record(
            number,
            start_ms + number,
            (event.get("root_run_id") or event["run_id"]).encode(),
            json.dumps(event).encode(),
        )
        for number, event in enumerate(events, offset)
    ]


def fold_all(
    what: Sequence[Record], configuration: Configuration, *, size: int = 1000, rows: MemoryRows | None = None
) -> Iterator[Batch]:
    """Folds records in batches."""
    rows = rows if rows is not None else MemoryRows()
    watermark, stream_time = -1, 0
    for start in range(0, len(what), size):
        batch = fold_batch(
            rows,
            "agent-events",
            0,
            what[start : start + size],
            configuration,
            watermark=watermark,
            stream_time=stream_time,
        )
        rows.apply(batch)
        watermark, stream_time = batch.next_offset - 1, batch.stream_time
        yield batch
