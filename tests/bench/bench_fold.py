"""Measures what a call and its result cost, for both profiles, on the recorded runs.

    python -m tests.bench.bench_fold [--rounds N] [--traces FILE]

Printed apart: the publisher's part (content to facts), reading the event off the wire, the fold with the run's state at
hand, and reading and writing the run's row, which the worker does once a run and batch. The fold is timed over whole
runs, from the start of each, and once more with memory full of distinct calls. Best of the rounds, the profiles taking
turns.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from loopwarden.detection import run_state
from loopwarden.detection.fold import fold
from loopwarden.detection.profile import Position
from loopwarden.recordings import START_MS, Recording, read_recordings
from loopwarden_schemas.codec import decode_event, encode_event
from loopwarden_schemas.configuration import AgentSettings, Configuration
from loopwarden_schemas.events import Event, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts, reduce_event

DATA = Path(__file__).parent.parent / "data"
SETTINGS = {
    "documented": Configuration.from_block({"enabled": True}, profile="documented", mode="observe").settings_for(None),
    "progress": Configuration({"loopwarden": {"profile": "progress", "mode": "observe"}}).settings_for(None),
}
Step = tuple[Event, Facts | None, Position]


def steps_of(recordings: list[Recording]) -> list[list[Step]]:
    """Events, facts and positions, run by run."""
    return [
        [
            (event, reduce_event(event) if isinstance(event, ToolCall | ToolResult) else None, position(offset))
            for offset, event in enumerate(recording.events)
        ]
        for recording in recordings
    ]


def position(offset: int) -> Position:
    """Where an event of a recording stands: half a minute after the one before."""
    time = START_MS + 30_000 * offset
    return Position("bench", 0, offset, time, time)


def distinct(calls: int) -> list[Step]:
    """A run of distinct calls with distinct results: memory is full, and nothing repeats."""
    steps: list[Step] = []
    for number in range(calls):
        call = f'"run_id": "full", "tool": "read", "call_id": "c{number}", "args": {{"path": "src/module_{number}.py"}}'
        for line in (
            f'{{"type": "tool_call", {call}}}',
            f'{{"type": "tool_result", {call}, "result": "text {number}"}}',
        ):
            event = decode_event(line.encode())
            assert isinstance(event, ToolCall | ToolResult)
            steps.append((event, reduce_event(event), position(len(steps))))
    return steps


def timed(work: Callable[[], Any]) -> float:
    """Seconds that something takes, without the garbage collector."""
    gc.collect()
    gc.disable()
    began = perf_counter()
    work()
    spent = perf_counter() - began
    gc.enable()
    return spent


def fold_all(runs: list[list[Step]], settings: AgentSettings) -> list[run_state.RunState]:
    """Folds runs from their start; returns their last states."""
    states = []
    for steps in runs:
        state = None
        for event, facts, at in steps:
            state = fold(state, event, facts, at, settings).state
        if state is not None:
            states.append(state)
    return states


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="rounds; the best counts")
    parser.add_argument("--traces", default=str(DATA / "traces" / "agent-runs.jsonl"), metavar="FILE")
    options = parser.parse_args()
    recordings = read_recordings(options.traces)
    runs = steps_of(recordings)
    pairs = sum(len(steps) for steps in runs) / 2
    events = [event for steps in runs for event, _, _ in steps]
    lines = [encode_event(event) for event in events]
    full = distinct(400)
    best: dict[str, float] = {}

    def take(name: str, each: float, work: Callable[[], Any]) -> None:
        best[name] = min(best.get(name, float("inf")), timed(work) / each * 1e6)

    rows: dict[str, list[tuple[bytes, bytes | None]]] = {}
    for _ in range(options.rounds):
        take("decode", pairs, lambda: [decode_event(line) for line in lines])
        for name, settings in SETTINGS.items():
            only = (name,)
            take(f"{name} facts", pairs, lambda only=only: [_facts(event, only) for event in events])
            take(f"{name} fold", pairs, lambda settings=settings: fold_all(runs, settings))
            states = fold_all([full[:-200]], settings)
            take(f"{name} full", 100, lambda states=states, settings=settings: _go_on(states[0], full[-200:], settings))
            ends = fold_all(runs, settings)
            take(f"{name} write", len(ends), lambda ends=ends: [run_state.encode(state) for state in ends])
            rows[name] = [run_state.encode(state) for state in ends]
            take(f"{name} read", len(ends), lambda name=name: [run_state.decode(*row) for row in rows[name]])
    _print(best, rows, recordings, int(pairs))


def _facts(event: Event, profiles: tuple[str, ...]) -> None:
    if isinstance(event, ToolCall | ToolResult):
        reduce_event(event, profiles)


def _go_on(state: run_state.RunState, steps: list[Step], settings: AgentSettings) -> None:
    for event, facts, at in steps:
        fold(state, event, facts, at, settings)


def _print(
    best: dict[str, float],
    rows: dict[str, list[tuple[bytes, bytes | None]]],
    recordings: list[Recording],
    pairs: int,
) -> None:
    print(f"{len(recordings)} recorded runs, {pairs} calls with their results; microseconds, best round")
    print(f"{'':46}{'documented':>11}{'progress':>10}{'ratio':>7}")
    for label, key in (
        ("fold, a call and its result", "fold"),
        ("  the same, memory full of distinct calls", "full"),
        ("content to facts, a call and its result", "facts"),
        ("reading a run's row", "read"),
        ("writing it", "write"),
    ):
        documented, progress = best[f"documented {key}"], best[f"progress {key}"]
        print(f"{label:46}{documented:11.1f}{progress:10.1f}{progress / documented:7.2f}")
    print(f"{'reading a call and its result off the wire':46}{best['decode']:11.1f}")
    for name, written in rows.items():
        sizes = sorted(len(row) + len(window or b"") for row, window in written)
        print(f"row of a finished run, {name}: median {sizes[len(sizes) // 2]} bytes, largest {sizes[-1]}")


if __name__ == "__main__":
    main()
