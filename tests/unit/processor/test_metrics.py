"""Metrics against what the batches of recorded runs say, counted a second time by hand."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from loopwarden.detection.partition import Batch
from loopwarden.processor.metric_definitions import DEFINITIONS, markdown
from loopwarden.processor.metrics import Metrics
from loopwarden.processor.observer import Observer
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import START_MS, STRICT, Record, fold_all, recorded_events, records

NOW_MS = START_MS + 60_000


def scrape(metrics: Metrics) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Sample name to labels to value, as a scraper reads it."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def by(samples: dict[tuple[tuple[str, str], ...], float], *names: str) -> dict[Any, float]:
    """Samples summed by some of their labels, zeros left out."""
    found: Counter[Any] = Counter()
    for labels, value in samples.items():
        key = tuple(dict(labels)[name] for name in names)
        found[key if len(names) > 1 else key[0]] += int(value)
    return {key: value for key, value in found.items() if value}


def count(
    events: list[dict[str, Any]], configuration: Configuration, *, size: int = 500
) -> tuple[Metrics, list[Batch]]:
    metrics = Metrics(configuration)
    batches = list(fold_all(records(events), configuration, size=size))
    for batch in batches:
        metrics.batch_finished(3, batch, fold_seconds=0.004, now_ms=NOW_MS)
    return metrics, batches


def test_is_an_observer() -> None:
    observer: Observer = Metrics(Configuration())
    assert observer


def test_every_definition_is_scraped_with_its_labels() -> None:
    metrics = Metrics(Configuration())
    for name in ("lag", "live_runs", "armed_guards"):
        getattr(metrics, name)(0, 1)
    metrics.commit(0)
    metrics.batch_finished(0, next(fold_all(records([]) + records(recorded_events(1)), Configuration())),
                           fold_seconds=0.1, now_ms=NOW_MS)  # fmt: skip
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    for one in DEFINITIONS:
        family = families[one.name.removesuffix("_total")]
        assert family.type == one.kind
        assert family.documentation == one.meaning
        assert {label for label in family.samples[0].labels if label != "le"} == set(one.labels), one.name
        assert (one.kind == "counter") == one.name.endswith("_total")
        assert not {"agent", "tool"} <= set(one.labels)
        assert "run" not in one.labels
    assert not [name for name in families if name.endswith("_created")]


def test_recorded_runs_are_counted_exactly() -> None:
    events = recorded_events()
    configuration = Configuration.from_block(STRICT)
    metrics, batches = count(events, configuration)
    seen = scrape(metrics)
    verdicts = [verdict for batch in batches for _, verdict in batch.verdicts]
    assert by(seen["loopwarden_events_total"], "type") == Counter(event["type"] for event in events)
    calls = [event for event in events if event["type"] == "tool_call"]
    assert by(seen["loopwarden_agent_calls_total"], "agent") == Counter(call["agent_id"] for call in calls)
    assert by(seen["loopwarden_tool_calls_total"], "tool") == Counter(call["tool"] for call in calls)
    assert by(seen["loopwarden_calls_total"], "after_compaction") == {"false": len(calls)}
    rule = ("level", "detector", "action", "stage", "after_compaction")
    assert by(seen["loopwarden_verdicts_total"], *rule) == Counter(
        (v.level, v.detector or "none", v.action, v.stage, str(v.after_compaction).lower()) for v in verdicts
    )
    loops = [verdict for verdict in verdicts if verdict.stage == "final" and verdict.level != "none"]
    assert len(loops) > 20, "the load must loop, or this shows nothing"
    assert by(seen["loopwarden_agent_loops_total"], "agent", "detector", "level") == Counter(
        (v.agent_id, v.detector, v.level) for v in loops
    )
    assert by(seen["loopwarden_tool_loops_total"], "tool", "level") == Counter((v.tool, v.level) for v in loops)
    assert by(seen["loopwarden_runs_ended_total"], "outcome") == Counter(
        event["outcome"] for event in events if event["type"] == "run_ended"
    )
    notes = Counter(note.kind for batch in batches for note in batch.notes)
    assert notes["barren"]
    assert notes["went_on"], "nobody obeys in a recording"
    assert sum(seen["loopwarden_agent_barren_calls_total"].values()) == notes["barren"]
    assert sum(seen["loopwarden_tool_barren_calls_total"].values()) == notes["barren"]
    assert sum(seen["loopwarden_agent_calls_after_verdict_total"].values()) == notes["went_on"]
    assert seen["loopwarden_event_to_verdict_seconds_count"][()] == len(verdicts)
    expected = sum((NOW_MS - START_MS - v.cause.offset) / 1000 for v in verdicts)
    assert seen["loopwarden_event_to_verdict_seconds_sum"][()] == pytest.approx(expected)
    assert seen["loopwarden_fold_seconds_count"][()] == len(batches)
    assert seen["loopwarden_last_progress_timestamp_seconds"][(("partition", "3"),)] == NOW_MS / 1000
    text = metrics.exposition().decode()
    assert "run-1" not in text, "a run id became a label"


def test_what_runners_report() -> None:
    base: dict[str, Any] = {"run_id": "r", "agent_id": "a"}
    call: dict[str, Any] = {**base, "type": "tool_call", "tool": "t", "args": {}}
    events: list[dict[str, Any]] = [
        {**base, "type": "run_started", "seq": 0, "event_id": "e"},
        {**base, "type": "run_started", "seq": 0, "event_id": "e"},
        {**call, "seq": 5, "usage": {"tokens_in": 100, "tokens_out": 7, "cost": 1234}},
        {**call, "publisher": {"dropped": 3, "queue_high": 40, "publish_ms": 250}},
        {**base, "type": "call_refused", "tool": "t", "args": {}},
        {**base, "type": "verdict_ack", "verdict_id": "v", "result": "late", "after_ms": 80},
        {**base, "type": "run_released"},
        {**base, "type": "run_ended"},
    ]
    metrics, _ = count(events, Configuration())
    seen = scrape(metrics)
    assert seen["loopwarden_events_duplicate_total"][()] == 1
    assert seen["loopwarden_events_missing_total"][()] == 4
    assert by(seen["loopwarden_agent_tokens_total"], "agent", "direction") == {("a", "in"): 100, ("a", "out"): 7}
    assert by(seen["loopwarden_agent_cost_micros_total"], "agent") == {"a": 1234}
    assert seen["loopwarden_runner_dropped_events_total"][()] == 3
    assert seen["loopwarden_runner_queue_events_sum"][()] == 40
    assert seen["loopwarden_runner_publish_seconds_sum"][()] == 0.25
    assert by(seen["loopwarden_agent_calls_refused_total"], "agent") == {"a": 1}
    assert by(seen["loopwarden_tool_calls_refused_total"], "tool") == {"t": 1}
    assert by(seen["loopwarden_acks_total"], "result") == {"late": 1}
    assert seen["loopwarden_ack_seconds_sum"][()] == 0.08
    assert seen["loopwarden_runs_released_total"][()] == 1
    assert by(seen["loopwarden_runs_ended_total"], "outcome") == {"none": 1}


def test_what_loops_cost_and_how_long_they_take_to_stop() -> None:
    base: dict[str, Any] = {"run_id": "r", "agent_id": "a", "tool": "t"}
    events: list[dict[str, Any]] = []
    for index in range(4):
        call = {**base, "call_id": f"c{index}", "args": {}}
        events.append({**call, "type": "tool_call", "usage": {"tokens_in": 10 + index, "cost": 100 + index}})
        events.append({**call, "type": "tool_result", "result": "same"})
    refused = {**base, "call_id": "c4", "args": {}}
    events += [
        {**refused, "type": "tool_call", "usage": {"tokens_in": 50, "cost": 7}},
        {**refused, "type": "call_refused"},
        {**base, "type": "tool_call", "call_id": "other", "args": {"other": 1}, "usage": {"tokens_in": 9}},
        {**base, "type": "tool_result", "call_id": "other", "args": {"other": 1}, "result": "news"},
        {**base, "type": "call_refused", "args": {}},
        {**base, "type": "verdict_ack", "verdict_id": "v", "result": "applied", "after_ms": 0},
        {**base, "type": "verdict_ack", "verdict_id": "v", "result": "applied"},
    ]
    block = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3}
    metrics, _ = count(events, Configuration.from_block(block, mode="observe"))
    seen = scrape(metrics)
    assert by(seen["loopwarden_agent_barren_tokens_total"], "direction") == {"in": 11 + 12 + 13}, "all but the first"
    assert by(seen["loopwarden_agent_barren_cost_micros_total"], "agent") == {"a": 101 + 102 + 103}
    # The fourth call is judged critical, so what came after it counts.
    assert by(seen["loopwarden_agent_after_critical_cost_micros_total"], "agent") == {"a": 7}
    assert by(seen["loopwarden_agent_after_critical_tokens_total"], "direction") == {"in": 59}
    assert seen["loopwarden_halt_seconds_count"][()] == 1
    assert seen["loopwarden_halt_seconds_sum"][()] == 0.001, "records are a millisecond apart"
    assert seen["loopwarden_ack_seconds_count"][()] == 1, "the one that says how long"
    calls = sum(event["type"] == "tool_call" for event in events)
    assert by(seen["loopwarden_agent_calls_total"], "agent") == {"a": calls + 1}, "one refusal had no call before it"


def test_first_agents_and_tools_keep_their_label() -> None:
    document = {"loopwarden": {"agents": {"configured": {"mode": "observe"}}, "tools": {"later": {"kind": "read"}}}}
    base = {"type": "tool_call", "args": {}}
    events = [
        {**base, "run_id": f"r{n}", "agent_id": f"agent-{n}", "tool": f"tool-{n}-{m}"}
        for n in range(80)
        for m in range(5)
    ]
    events += [
        {**base, "run_id": "last", "agent_id": "configured", "tool": "later"},
        {**base, "run_id": "x", "tool": "t"},
    ]
    metrics, _ = count(events, Configuration(document), size=7)
    seen = scrape(metrics)
    agents = by(seen["loopwarden_agent_calls_total"], "agent")
    assert agents == {
        **{f"agent-{n}": 5 for n in range(49)},
        "other": (80 - 49) * 5,
        "configured": 1,
        "none": 1,
    }
    tools = by(seen["loopwarden_tool_calls_total"], "tool")
    assert len(tools) == 201
    assert tools["later"] == 1
    assert tools["other"] == len(events) - 200
    metrics.batch_finished(
        0, next(fold_all(records(events[:5]), Configuration(document))), fold_seconds=0, now_ms=NOW_MS
    )
    assert by(scrape(metrics)["loopwarden_agent_calls_total"], "agent")["agent-0"] == 10


def test_known_series_exist_from_the_start() -> None:
    document = {"loopwarden": {"agents": {"a": {"mode": "observe"}}}}
    seen = scrape(Metrics(Configuration(document)))
    final = {"action": "abort", "detector": "compaction_loop_persisted", "level": "critical", "stage": "final"}
    for after in ("true", "false"):
        assert seen["loopwarden_verdicts_total"][tuple(sorted({**final, "after_compaction": after}.items()))] == 0
    loop = {"agent": "a", "detector": "global_circuit_breaker", "level": "critical"}
    assert seen["loopwarden_agent_loops_total"][tuple(sorted(loop.items()))] == 0
    assert seen["loopwarden_events_total"][(("type", "compaction"),)] == 0
    assert seen["loopwarden_acks_total"][(("result", "ignored"),)] == 0
    assert seen["loopwarden_changelog_bytes_total"][(("table", "history-ring"),)] == 0


@pytest.mark.parametrize(
    "name", ['"}\n# HELP x', "<script>alert(1)</script>", "\\", "\x1b[31m", "名" * 300, "a\u2028b"]
)
def test_hostile_names_are_labels_and_nothing_else(name: str) -> None:
    event = {"type": "tool_call", "run_id": "r", "agent_id": name[:60], "tool": name, "args": {}}
    metrics, _ = count([event], Configuration())
    tools = by(scrape(metrics)["loopwarden_tool_calls_total"], "tool")
    assert list(tools.values()) == [1]
    shown = next(iter(tools))
    assert len(shown.encode()) <= 128
    assert shown == name or shown.startswith("名")


def test_partition_lost_takes_its_gauges_along() -> None:
    metrics = Metrics(Configuration())
    for number in (1, 2):
        metrics.lag(number, 5)
        metrics.live_runs(number, 6)
        metrics.armed_guards(number, 7)
        metrics.commit(number)
    metrics.partition_lost(1)
    metrics.partition_lost(1)
    seen = scrape(metrics)
    for name in ("consumer_lag_records", "live_runs", "armed_guards", "last_commit_timestamp_seconds"):
        assert list(seen[f"loopwarden_{name}"]) == [(("partition", "2"),)]


def test_what_the_worker_tells() -> None:
    metrics = Metrics(Configuration())
    metrics.changelog_written("history-ring", 1000, 5)
    metrics.recovered(1, 42, 0.5)
    metrics.rebalanced(2.0)
    metrics.runs_expired(1, 3)
    changed = Configuration({"loopwarden": {"agents": {"new": {}}}})
    metrics.reconfigured(changed)
    seen = scrape(metrics)
    assert by(seen["loopwarden_changelog_bytes_total"], "table") == {"history-ring": 1000}
    assert by(seen["loopwarden_changelog_rows_total"], "table") == {"history-ring": 5}
    assert seen["loopwarden_recovered_rows_total"][()] == 42
    assert seen["loopwarden_recovery_seconds_sum"][()] == 0.5
    assert seen["loopwarden_rebalance_seconds_sum"][()] == 2.0
    assert by(seen["loopwarden_runs_ended_total"], "outcome") == {"expired": 3}
    assert seen["loopwarden_configuration_info"] == {(("version", changed.version),): 1}
    assert seen["loopwarden_configuration_changes_total"][()] == 1
    assert (("agent", "new"),) in seen["loopwarden_agent_calls_total"]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"r", b'{"type": "from_the_future", "run_id": "r"}', ("type", "unknown_type")),
        (b"r", b"", ("message", "empty")),
        (b"r", None, ("message", "empty")),
        (b"r", b"{", ("message", "not_json")),
        (b"r", b"[]", ("message", "wrong_type")),
        (b"r", b'{"type": "run_started", "x":' + b"[" * 20_000, ("message", "too_deep")),
        (b"other", b'{"type": "run_started", "run_id": "r"}', ("key", "wrong_key")),
        (None, b'{"type": "run_started", "run_id": "r"}', ("key", "wrong_key")),
        (b"r", b'{"type": "run_started"}', ("run_id", "missing")),
        (b"r", b'{"type": "run_started", "run_id": " "}', ("run_id", "blank")),
        (b"r", b'{"type": "run_started", "run_id": 7}', ("run_id", "wrong_type")),
        (b"r", b'{"type": "run_started", "run_id": "%s"}' % (b"x" * 300), ("run_id", "too_long")),
        (b"r", b'{"type": "run_started", "run_id": "r", "agent_id": "%s"}' % (b"x" * 300), ("agent_id", "too_long")),
        (b"r", b'{"type": "run_started", "run_id": "\\u0000"}', ("run_id", "reserved")),
        (b"r", b'{"type": "tool_call", "run_id": "r"}', ("tool", "missing")),
        (b"r", b'{"type": "tool_call", "run_id": "r", "tool": "t", "seq": -1}', ("seq", "out_of_range")),
        (b"r", b'{"type": "verdict_ack", "run_id": "r", "verdict_id": "v", "result": ""}', ("result", "invalid_value")),
    ],
)  # fmt: skip
def test_rejections_by_field_and_reason(key: bytes | None, value: bytes | None, expected: tuple[str, str]) -> None:
    metrics = Metrics(Configuration())
    batch = next(fold_all([Record(0, START_MS, key, value)], Configuration()))
    metrics.batch_finished(0, batch, fold_seconds=0, now_ms=NOW_MS)
    assert by(scrape(metrics)["loopwarden_events_rejected_total"], "field", "reason") == {expected: 1}


def test_table_of_the_readme() -> None:
    table = markdown().splitlines()
    assert len(table) == len(DEFINITIONS) + 2
    assert all(line.count("|") == 6 for line in table)
