"""Every vector of profile ``progress``: 89 named, 60 random (see FORMAT.md and progress, 10).

Each event is applied to a body that was written and read again before it, with facts as the worker reduces them and as
a content-free runner publishes them. Verdicts, closed steps, points and what was seen must all be as expected; message
texts are not normative.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from loopwarden.detection.partition import fold_batch
from loopwarden.detection.progress import encoding, events
from loopwarden.detection.progress.body import Body
from loopwarden.detection.progress.compactions import compact
from loopwarden.detection.progress.judging import GROUPS, Finding
from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import Compaction, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts, reduce_content, reduce_event
from loopwarden_schemas.fingerprint import id_hash
from loopwarden_schemas.progress_settings import ProgressParameters, ProgressSettings
from loopwarden_schemas.verdicts import Verdict
from tests.loads.records import MemoryRows, Record
from tests.vectors.files import Case, cases


@pytest.mark.parametrize("salted", [False, True], ids=["raw", "salted"])
@pytest.mark.parametrize("case", cases("progress", "progress-random", profile="progress"), ids=str)
def test_vector(case: Case, salted: bool) -> None:
    vector = case.vector
    settings = ProgressSettings.of(ProgressParameters.model_validate(vector["config"]))
    runs = Runs()
    classes = Classes()
    for index, (raw, expected) in enumerate(zip(vector["events"], vector["expected"], strict=True)):
        body = runs.of(raw)
        event = decode_event(json.dumps(raw).encode())
        got: dict[str, Any] = {}
        if isinstance(event, Compaction):
            finding, closed = compact(body, settings)
        else:
            assert isinstance(event, ToolCall | ToolResult)
            facts = facts_of(event, salted)
            got["seen"] = classes.seen(event, facts)
            finding, closed = applied(body, settings, event, facts, raw)
        got["closed"] = [[step.reason.word, step.points / 4] for step in closed]
        got["points"] = body.points / 4
        got["verdicts"] = [] if finding is None else [judged(body, finding)]
        wanted = {**expected, "verdicts": [worded(v) for v in expected["verdicts"] if v["scope"] != "root"]}
        if got != wanted:
            pytest.fail(f"{case.file} {vector['name']}, event {index} {raw}\nexpected {wanted}\n     got {got}")
        runs.put(raw, body)


@pytest.mark.parametrize("size", [1, 7, 10_000], ids=lambda size: f"batches of {size}")
@pytest.mark.parametrize("case", cases("progress", "progress-random", profile="progress"), ids=str)
def test_stream(case: Case, size: int) -> None:
    """The same events on the wire, folded in batches with the rows between them: families and sessions, too."""
    vector = case.vector
    configuration = Configuration(
        {"loopwarden": {"profile": "progress", "progress": vector["config"], "mode": vector["mode"], "ignoredAfter": 0}}
    )
    rows = MemoryRows()
    log = list(on_the_wire(vector["events"]))
    published: list[list[dict[str, Any]]] = [[] for _ in log]
    for start in range(0, len(log), size):
        batch = fold_batch(rows, "t", 0, log[start : start + size], configuration, watermark=start - 1)
        assert not batch.dead_letters
        rows.apply(batch)
        for _, verdict in batch.verdicts:
            if verdict.stage == "final":
                published[verdict.cause.offset].append(as_expected(verdict))
    for index, (raw, expected) in enumerate(zip(vector["events"], vector["expected"], strict=True)):
        wanted = [worded(verdict) for verdict in expected["verdicts"] if verdict["emitted"]]
        if published[index] != wanted:
            pytest.fail(
                f"{case.file} {vector['name']}, event {index} {raw}\nexpected {wanted}\n     got {published[index]}"
            )


def on_the_wire(raws: list[dict[str, Any]]) -> Iterator[Record]:
    """The vectors' runner: roots are followed up to, and a run that goes on with a compacted session keeps its root."""
    roots: dict[str, str] = {}
    compacted: dict[str, str] = {}
    for offset, raw in enumerate(raws):
        run, session = raw["run_id"], raw.get("session")
        if run not in roots:
            parent = raw.get("parent_run")
            roots[run] = roots[parent] if parent else roots.get(compacted.pop(session or "", ""), run)
        event = {key: raw[key] for key in raw if key not in _RENAMED}
        event |= {_RENAMED[key]: raw[key] for key in raw if key in _RENAMED}
        if "t" in raw:
            event["ts"] = round(raw["t"] * 1000)
        event["root_run_id"] = roots[run]
        if raw["type"] == "compaction" and session:
            compacted[session] = run
        yield Record(offset, 0, roots[run].encode(), json.dumps(event).encode())


_RENAMED = {"batch": "batch_id", "session": "session_id", "parent_run": "parent_run_id", "t": "t"}


def as_expected(verdict: Verdict) -> dict[str, Any]:
    return {
        "level": "abort" if verdict.action == "abort" else verdict.level,
        "rule": verdict.detector,
        "count": verdict.count,
        "period": verdict.period or 0,
        "points": verdict.points,
        "scope": verdict.scope,
        "emitted": True,
    }


class Runs:
    """One body a run, always as its row has it; a run that follows a compaction in its session takes over."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[bytes, bytes | None]] = {}
        self.parked: dict[str, str] = {}

    def of(self, raw: dict[str, Any]) -> Body:
        run = raw["run_id"]
        if run not in self.rows:
            before = self.parked.pop(raw.get("session", ""), None)
            self.rows[run] = encoding.encode(Body()) if before is None else self.rows[before]
        return encoding.decode(*self.rows[run])

    def put(self, raw: dict[str, Any], body: Body) -> None:
        self.rows[raw["run_id"]] = encoding.encode(body)
        if raw["type"] == "compaction" and raw.get("session"):
            self.parked[raw["session"]] = raw["run_id"]


class Classes:
    """Numbers fingerprints in the order in which a vector meets them, each kind of fingerprint for itself."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[str, int]] = {}

    def of(self, kind: str, fingerprint: str | None) -> int | None:
        numbers = self.numbers.setdefault(kind, {})
        return None if fingerprint is None else numbers.setdefault(fingerprint, len(numbers))

    def seen(self, event: ToolCall | ToolResult, facts: Facts) -> dict[str, Any]:
        seen = {
            "call": self.of("call", facts.call),
            "target": self.of("target", facts.target),
            "kind": facts.kind,
            "wait": facts.wait,
            "spawn": facts.spawn,
        }
        if isinstance(event, ToolResult) and not event.vetoed:
            seen |= {"outcome": self.of("outcome", facts.outcome), "failed": facts.failed}
            if facts.failed:
                seen |= {
                    "class": self.of("class", facts.class_),
                    "transient": facts.transient,
                    "missing": facts.missing,
                }
        return seen


def facts_of(event: ToolCall | ToolResult, salted: bool) -> Facts:
    if not salted:
        return reduce_event(event)
    from msgspec import UNSET, Raw
    from msgspec.json import decode

    content = {
        name: decode(raw) for name in ("args", "result", "error") if isinstance(raw := getattr(event, name, UNSET), Raw)
    }
    return reduce_content(event.tool, **content, salt=b"of this deployment")


def applied(
    body: Body, settings: ProgressSettings, event: ToolCall | ToolResult, facts: Facts, raw: dict[str, Any]
) -> tuple[Finding | None, list[Any]]:
    call_id = id_hash(event.call_id) if event.call_id else b""
    time = round(raw.get("t", 0) * 1000)
    if isinstance(event, ToolCall):
        batch = id_hash(raw["batch"])[:6] if "batch" in raw else b""
        taken = events.take_call(body, settings, event.tool, events.asked(event.tool, facts, call_id, time), batch)
    else:
        call = events.asked(event.tool, facts, call_id, time, result=True)
        taken = events.take_result(body, settings, event.tool, call, facts, vetoed=event.vetoed)
    return taken.finding, taken.closed


def judged(body: Body, finding: Finding) -> dict[str, Any]:
    emitted = not finding.is_told(body.told)
    if finding.level == "warning":
        body.told |= GROUPS[finding.rule]
    return {
        "level": "abort" if finding.action == "abort" else finding.level,
        "rule": finding.rule,
        "count": finding.count,
        "period": finding.period,
        "points": finding.points,
        "scope": finding.scope,
        "emitted": emitted,
    }


def worded(verdict: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in verdict.items() if key != "message"}
