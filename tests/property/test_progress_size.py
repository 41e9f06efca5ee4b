"""A run's state under profile ``progress`` stays within 4 KB, whatever a run does (progress, 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwarden.detection import run_state
from loopwarden.detection.partition import fold_batch
from loopwarden.detection.progress import encoding, memory, messages
from loopwarden.detection.progress.body import CALL, CALL_ID, CLASS, OUTCOME, TIME, TOOL, Body, Pending
from loopwarden.detection.progress.reasons import Reason
from loopwarden.detection.run_state import Abort
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import MemoryRows, Record

STATE_BYTES = 4096
LONG = "\U0001f9ff"  # four bytes each in a name
RUN = "r" * 256
"""The longest run id."""


def progress(**ours: Any) -> Configuration:
    return Configuration({"loopwarden": {"profile": "progress", "ignoredAfter": 0, **ours}})


def records(events: list[dict[str, Any]]) -> Iterator[Record]:
    for offset, event in enumerate(events):
        event = {"run_id": RUN, "event_id": f"event {offset}", **event}
        yield Record(offset, 10**12 + offset, event["run_id"].encode(), json.dumps(event).encode())


def largest(events: list[dict[str, Any]], configuration: Configuration, *, batch: int) -> int:
    """Largest history-ring row and window of the run, looked at after every batch."""
    rows, log, seen = MemoryRows(), list(records(events)), 0
    for start in range(0, len(log), batch):
        came = fold_batch(rows, "t", 0, log[start : start + batch], configuration, watermark=start - 1)
        assert not came.dead_letters, came.dead_letters[0]
        rows.apply(came)
        key = RUN.encode()
        seen = max(seen, len(rows.ring.get(key, b"")) + len(rows.armed.get(key, b"")))
    return seen


def hostile() -> Iterator[dict[str, Any]]:
    """As much of everything as a run can hold: distinct tools of the longest names, prose, failures, a full batch."""
    number = 0

    def call(kind: str, **more: Any) -> dict[str, Any]:
        tool = f"{number % 97}{LONG * 60}"
        args = {"text": f"please look at thing number {number} once more", "id": number}
        return {"type": kind, "agent_id": "a" * 256, "tool": tool, "call_id": f"call {number}", "args": args, **more}

    for round_ in range(3):
        for _ in range(60):
            number += 1
            ts = (number * 7_919_000) % 250_000_000_000_000
            yield call("tool_call", ts=ts)
            yield call("tool_result", ts=ts + 90_000, error=f"no such thing {number}\nat line {number}")
        yield {"type": "compaction", "session_id": "s" * 256}
        first = number
        for _ in range(3):
            number += 1
            yield call("tool_call")
        for _ in range(22):
            number += 1
            yield call("tool_call", batch_id=f"batch {round_}")
        for number in range(first + 4, first + 20):
            yield call("tool_result", error=f"failed in a way of its own {number}")
        number = first + 30
        for _ in range(9):
            yield call("tool_call")
            yield call("tool_result", vetoed=True)
            number += 1


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_hostile_run_fits(mode: str) -> None:
    assert largest(list(hostile()), progress(mode=mode), batch=1) <= STATE_BYTES


TOOLS = st.sampled_from(["read", "write_file", "spawn_agent", "send", "x" * 500, LONG * 300, "", "\x1b[31m", "t\x00"])
ARGS = st.sampled_from([{}, {"path": "a"}, {"text": "please look at this once more"}, {"text": "do it now, would you"}])
ENDS = st.sampled_from(
    [{"result": "ok"}, {"result": None}, {}, {"error": "boom"}, {"error": "timeout"}, {"error": "unknown tool"}]
)
EVENTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("compaction"), "session_id": st.sampled_from(["s", "t" * 256])}),
    st.builds(
        lambda tool, args, number, call_id, more: {
            "type": "tool_call",
            "tool": tool,
            "args": {**args, "n": number},
            **call_id,
            **more,
        },
        TOOLS,
        ARGS,
        st.integers(0, 60),
        st.sampled_from([{}, {"call_id": "c" * 1000}, {"call_id": "d"}]),
        st.sampled_from([{}, {"batch_id": "b" * 200}, {"ts": -1}, {"ts": 1e15}, {"ts": 5}]),
    ),
    st.builds(
        lambda tool, args, number, call_id, end: {
            "type": "tool_result",
            "tool": tool,
            "args": {**args, "n": number},
            **call_id,
            **end,
        },
        TOOLS,
        ARGS,
        st.integers(0, 60),
        st.sampled_from([{}, {"call_id": "c" * 1000}, {"call_id": "d"}]),
        ENDS,
    ),
    st.builds(
        lambda tool, n: {"type": "tool_result", "tool": tool, "args": {"n": n}, "vetoed": True},
        TOOLS,
        st.integers(0, 3),
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, min_size=1, max_size=150), st.sampled_from([1, 5, 1000]))
def test_any_run_fits(events: list[dict[str, Any]], batch: int) -> None:
    assert largest(events, progress(), batch=batch) <= STATE_BYTES


def test_fullest_run_fits() -> None:
    """Every part of a row at its largest at once, other than names of tools, which give way to the rest."""
    big, clock = 2**32 - 1, 253_402_300_799_999
    body = Body(
        tool_keys=bytes(memory.TOOLS * TOOL),
        tools=bytes(48),
        calls=bytes(48 * CALL),
        targets=bytes(48 * CALL),
        outcomes=bytes(48 * OUTCOME),
        classes=bytes(48 * CLASS),
        flags=bytes(48),
        times=bytes(48 * TIME),
        epoch=clock,
        fresh=48,
        recent=48,
        pending=[
            Pending(
                bytes(CALL),
                bytes(CALL),
                71,
                31,
                bytes(CALL_ID),
                clock,
                number < 16,
                failed=3 * (number < 16),
                end=clock,
            )
            for number in range(20)
        ],
        batch=bytes(6),
        points=8_000,
        tally=[9_999] * len(Reason),
        made=big,
        age=big,
        news_age=big,
        idle=big,
        marks=[big] * 8,
        refused=big,
        refused_tools={68 + number: big for number in range(4)},
        told=31,
        guard=3,
        guard_first=bytes(CALL + OUTCOME),
        session=bytes(8),
    )
    state = run_state.new("progress", clock)
    state.body = body
    state.agent_id = "a" * 256
    state.root_run_id = "r" * 256
    state.last_time = state.seq = clock
    state.calls = state.since_compaction = state.ignored = big
    for number in range(run_state.EVENT_IDS):
        state.knows_event(number.to_bytes(8, "big"))
    state.standing = state.wide = bytes(8)
    message = messages.guarded("t" * 500, 3)
    state.abort = Abort("delegation_missing_tool", messages.abort_name("t" * 500), 999, message, "root")
    state.critical, state.spent = True, (clock, clock, clock)
    state.judged = [(bytes(8), clock)] * run_state.JUDGED
    row, window = run_state.encode(state)
    assert window is not None
    assert len(row) + len(window) <= STATE_BYTES
    assert len(encoding.encode(body)[0]) <= memory.STATE_BYTES
    assert run_state.decode(row, window) == state
