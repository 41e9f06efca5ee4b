"""Families, sessions and overrides, through ``fold_batch`` as the worker calls it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.detection import kin, working_set
from loopwarden.detection.partition import Batch, fold_batch
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import MemoryRows, Record

PROGRESS = {"profile": "progress"}


class Partition:
    """Rows of a partition, and the events that were folded into them."""

    def __init__(self, **ours: Any) -> None:
        self.configuration = Configuration({"loopwarden": {**PROGRESS, **ours}})
        self.rows = MemoryRows()
        self.offset = 0

    def fold(self, *events: dict[str, Any], time: int = 1) -> Batch:
        records = [
            Record(
                self.offset + at,
                time,
                (event.get("root_run_id") or event["run_id"]).encode(),
                json.dumps(event).encode(),
            )
            for at, event in enumerate(events)
        ]
        batch = fold_batch(self.rows, "t", 0, records, self.configuration, watermark=self.offset - 1)
        self.offset += len(events)
        self.rows.apply(batch)
        return batch


def pair(run: str, tool: str, result: str = "same", **more: Any) -> list[dict[str, Any]]:
    call = {"run_id": run, "tool": tool, "args": {"path": "x"}, **more}
    return [{**call, "type": "tool_call"}, {**call, "type": "tool_result", "result": result}]


def rules(batch: Batch) -> list[str | None]:
    return [verdict.detector for _, verdict in batch.verdicts if verdict.stage == "final"]


def test_documented_runs_have_no_family_rows() -> None:
    partition = Partition(profile="documented")
    partition.fold(*pair("r1", "spawn_agent", root_run_id="r0", session_id="s"))
    assert list(partition.rows.ring) == [b"r1"]


def test_duplicates_do_not_enter_the_family() -> None:
    once, twice = Partition(), Partition()
    events = [{**event, "event_id": event["type"]} for event in pair("r1", "spawn_agent", root_run_id="r0")]
    once.fold(*events)
    twice.fold(*events, *events)
    assert once.rows.ring[kin.family_key("r0")] == twice.rows.ring[kin.family_key("r0")]


def test_child_that_starts_is_told_of_its_stuck_family() -> None:
    partition = Partition()
    for number in range(5):
        partition.fold(*pair(f"r{number}", "spawn_agent", root_run_id="r0"))
    batch = partition.fold({"type": "run_started", "run_id": "new", "root_run_id": "r0"})
    ((_, verdict),) = batch.verdicts
    assert verdict.stage == "forecast"
    assert [entry.detector for entry in verdict.standing or []] == ["delegation_repeat"]


def test_state_of_an_ended_run_waits_for_its_session() -> None:
    partition = Partition()
    partition.fold(*pair("r1", "read") * 4, {"type": "compaction", "run_id": "r1", "session_id": "s"})
    partition.fold({"type": "run_ended", "run_id": "r1"})
    assert [key for key in partition.rows.ring if key.startswith(kin.SESSION_PREFIX)]
    later = pair("r2", "read", root_run_id="r1", session_id="s")
    assert rules(partition.fold(*later, *later)) == ["repeat"]
    assert not [key for key in partition.rows.ring if key.startswith(kin.SESSION_PREFIX)]


def test_parked_state_goes_by_idle_time() -> None:
    partition = Partition(idleTimeoutSeconds=60)
    partition.fold(*pair("r1", "read") * 4, {"type": "compaction", "run_id": "r1", "session_id": "s"}, time=1_000)
    later = pair("r2", "read", root_run_id="r1", session_id="s")
    assert rules(partition.fold(*later, *later, time=100_000)) == []


def test_override_makes_a_tool_wait() -> None:
    assert rules(Partition().fold(*pair("r1", "board") * 6)) != []
    assert rules(Partition(tools={"board": {"wait": True}}).fold(*pair("r1", "board") * 6)) == []


def test_failed_fold_leaves_no_trace_in_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, hurt = Partition(), Partition()
    before, after = pair("r1", "spawn_agent", root_run_id="r0"), pair("r2", "spawn_agent", root_run_id="r0")
    whole.fold(*before, *after)
    fold = working_set.fold

    def failing(state: Any, event: Any, *rest: Any) -> Any:
        folded = fold(state, event, *rest)
        if event.run_id == "bad":
            raise RuntimeError
        return folded

    monkeypatch.setattr(working_set, "fold", failing)
    batch = hurt.fold(*before, *pair("bad", "spawn_agent", root_run_id="r0"), *after, time=1)
    assert [letter.field for letter in batch.dead_letters] == ["fold", "fold"]
    assert hurt.rows.ring == whole.rows.ring
