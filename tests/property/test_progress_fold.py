"""The fold of profile ``progress`` gives the same however its log is cut, and its standing foretells its verdicts."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwarden.detection.partition import fold_batch
from loopwarden_schemas.codec import encode_verdict
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.verdicts import Verdict
from tests.loads.records import MemoryRows, Record
from tests.property.test_progress_size import EVENTS

CONFIGURATION = Configuration({"loopwarden": {"profile": "progress", "ignoredAfter": 0}})


def folded(events: list[dict[str, Any]], cuts: list[int]) -> tuple[list[bytes], MemoryRows]:
    """Verdicts on the wire and the last rows, of a log folded in pieces."""
    log = [
        Record(offset, 10**12 + offset, b"r", json.dumps({"run_id": "r", **event}).encode())
        for offset, event in enumerate(events)
    ]
    rows = MemoryRows()
    verdicts: list[bytes] = []
    edges = sorted({0, len(log), *(cut % (len(log) + 1) for cut in cuts)})
    for start, end in pairwise(edges):
        batch = fold_batch(rows, "t", 0, log[start:end], CONFIGURATION, watermark=start - 1)
        assert not batch.dead_letters, batch.dead_letters[0]
        verdicts += [encode_verdict(verdict) for _, verdict in batch.verdicts]
        rows.apply(batch)
    return verdicts, rows


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, min_size=1, max_size=80), st.lists(st.integers(0, 80), max_size=10))
def test_cuts_change_nothing(events: list[dict[str, Any]], cuts: list[int]) -> None:
    assert folded(events, cuts) == folded(events, [])


PLAIN = st.lists(
    st.tuples(st.sampled_from(["read", "edit", "send"]), st.integers(0, 3), st.sampled_from(["ok", "other", None])),
    min_size=4,
    max_size=40,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLAIN)
def test_known_call_is_judged_as_foretold(calls: list[tuple[str, int, str | None]]) -> None:
    """The standing before a call that it names says of it what its own verdict then says."""
    rows, offset = MemoryRows(), 0
    standing: dict[str, str] = {}
    for tool, number, result in calls:
        call = {"run_id": "r", "ts": 1, "tool": tool, "args": {"n": number}}
        end = {"error": f"failed at {number}"} if result is None else {"result": result}
        for event in ({**call, "type": "tool_call", "want_verdict": True}, {**call, "type": "tool_result", **end}):
            record = Record(offset, 1, b"r", json.dumps(event).encode())
            batch = fold_batch(rows, "t", 0, [record], CONFIGURATION, watermark=offset - 1)
            rows.apply(batch)
            offset += 1
            for _, verdict in batch.verdicts:
                if verdict.stage == "forecast":
                    standing = {entry.key: entry.action for entry in verdict.standing or [] if entry.scope == "call"}
                elif verdict.call_fp in standing:
                    assert verdict.action == standing[verdict.call_fp], _shown(verdict)
            if event["type"] == "tool_call":
                standing = {}  # a runner drops these entries when it publishes a call


def _shown(verdict: Verdict) -> str:
    return encode_verdict(verdict).decode()
