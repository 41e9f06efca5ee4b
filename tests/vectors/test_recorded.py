"""Recorded runs of the real OpenClaw give the verdicts that the real runner gave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwarden.detection.fold import fold
from loopwarden.detection.profile import Position
from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import CallRefused, ToolCall, ToolResult
from loopwarden_schemas.facts import reduce_event
from tests.vectors.files import Case, recorded


@pytest.mark.parametrize("case", recorded(), ids=str)
def test_recorded_run(case: Case) -> None:
    """Judged in mode enforce, every call in order, the same list of emissions comes out (traces/README.md)."""
    run = case.vector
    settings = Configuration.from_block(run["config"], mode="enforce", ignoredAfter=0).settings_for(None)
    state = None
    got = []
    for index, raw in enumerate(run["events"]):
        event = decode_event(json.dumps({**raw, "ts": raw.get("t_ms")}).encode())
        facts = reduce_event(event) if isinstance(event, ToolCall | ToolResult | CallRefused) else None
        folded = fold(state, event, facts, Position("t", 0, index, 0, 0), settings)
        state = folded.state
        got += [(index, verdict) for verdict in folded.verdicts if verdict.stage == "final"]
    for (index, verdict), expected in zip(got, run["emitted"], strict=False):
        assert emission(index, verdict, expected) == expected, f"{case.file} {run['name']}"
    assert len(got) == len(run["emitted"]), f"{case.file} {run['name']}: {[v.detector for _, v in got]}"


def emission(index: int, verdict: Any, expected: dict[str, Any]) -> dict[str, Any]:
    """A verdict in the recorded form; only the fields that the runner's own record has."""
    got = {
        "after_event": index,
        "level": verdict.level,
        "action": verdict.action,
        "detector": verdict.detector,
        "count": verdict.count,
        "tool": verdict.tool,
        "paired_tool": verdict.paired_tool,
    }
    return {key: got[key] for key in expected}
