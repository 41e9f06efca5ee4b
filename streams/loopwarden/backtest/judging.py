"""One unit under each configuration: what would have become of its runs.

A run is halted at its first call that would have been refused, or that it would not have got to. Everything is folded
in mode ``observe``: what the agent did, it did without us, and what it would have done after a halt nobody knows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from loopwarden.backtest.reading import Unit
from loopwarden.replay import PartitionReplay, Span
from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.errors import WireError
from loopwarden_schemas.events import CallRefused, Event, RunEnded, RunStarted, ToolCall, VerdictAck
from loopwarden_schemas.verdicts import Verdict

__all__ = ["JudgedRun", "JudgedUnit", "RunFacts", "judge", "observing"]

TOPIC = "agent-events"


@dataclass
class RunFacts:
    """What a run did, whoever judges it.

    Attributes:
        name: For people.
        agent_id: Its agent, empty where none is named.
        outcome: How it ended, where anybody says so.
        calls: Calls that it made, refused ones included.
        cost: What it cost, in micro-units.
        cut: Its beginning is missing.
        halted_live: A verdict had halted it already.
    """

    name: str
    agent_id: str = ""
    outcome: str | None = None
    calls: int = 0
    cost: int = 0
    cut: bool = False
    halted_live: bool = False


@dataclass
class JudgedRun:
    """What one configuration makes of a run.

    Attributes:
        warned: It was warned.
        action: ``block`` or ``abort``, whichever came first; empty if neither did.
        detector: The rule of that.
        message: Its words.
        at_call: Number of the first call that would not have run, from 1; 0 for none.
        saved_calls: Calls from there on.
        saved_cost: Their cost, in micro-units.
    """

    warned: bool = False
    action: str = ""
    detector: str = ""
    message: str = ""
    at_call: int = 0
    saved_calls: int = 0
    saved_cost: int = 0


@dataclass
class JudgedUnit:
    """A unit's runs, and under each configuration what would have become of each.

    Attributes:
        events: Events folded.
        rejected: Events that could not be taken.
        runs: Run id to what it did.
        judged: For each configuration, run id to what it makes of the run.
    """

    events: int = 0
    rejected: int = 0
    runs: dict[str, RunFacts] = field(default_factory=dict)
    judged: list[dict[str, JudgedRun]] = field(default_factory=list)


def observing(configuration: Configuration) -> Configuration:
    """The same configuration in mode ``observe``, for every agent."""
    document = json.loads(configuration.text)
    ours = document["loopwarden"]
    ours["mode"] = "observe"
    for own in ours.get("agents", {}).values():
        own.pop("mode", None)
    return Configuration(document, source=configuration.source)


def judge(unit: Unit, configurations: Sequence[Configuration]) -> JudgedUnit:
    """Folds a unit under each configuration.

    Args:
        unit: The unit.
        configurations: In mode ``observe``, see ``observing``.
    """
    result = JudgedUnit(len(unit.records))
    events = [_event(record.value) for record in unit.records]
    result.rejected = sum(event is None for event in events)
    # Calls and cost of each run before each record: a verdict knows its cause's offset.
    before: dict[tuple[str, int], tuple[int, int]] = {}
    for event, record in zip(events, unit.records, strict=True):
        if event is None:
            continue
        run = result.runs.get(event.run_id)
        if run is None:
            run = result.runs[event.run_id] = RunFacts(unit.name or event.run_id, outcome=unit.outcome)
            run.cut = unit.cut and not isinstance(event, RunStarted)
        before[event.run_id, record.offset] = (run.calls, run.cost)
        _note(run, event)
    if unit.name and len(result.runs) > 1:
        for run_id, run in result.runs.items():
            run.name = f"{unit.name}/{run_id}"
    for configuration in configurations:
        judged = {run_id: JudgedRun() for run_id in result.runs}
        # Recorded tasks may have no times: nothing idles out of them.
        replay = PartitionReplay(TOPIC, 0, [Span(0, configuration)], expiry=not unit.name)
        for batch in replay.fold(unit.records):
            for _, verdict in batch.verdicts:
                if verdict.stage == "final" and verdict.run_id in judged:
                    at = before[verdict.run_id, verdict.cause.offset]
                    _take(judged[verdict.run_id], result.runs[verdict.run_id], verdict, at)
        result.judged.append(judged)
    return result


def _event(value: bytes | None) -> Event | None:
    try:
        return decode_event(value or b"")
    except WireError:
        return None


def _note(run: RunFacts, event: Event) -> None:
    run.agent_id = event.agent_id or run.agent_id
    if event.usage is not None:
        run.cost += event.usage.cost
    match event:
        case ToolCall():
            run.calls += 1
        case CallRefused():
            run.calls += 1
            run.halted_live = True
        case VerdictAck(result="applied"):
            run.halted_live = True
        case RunEnded(outcome=outcome):
            run.outcome = outcome or run.outcome
            run.halted_live = run.halted_live or outcome == "aborted"


def _take(judged: JudgedRun, run: RunFacts, verdict: Verdict, at: tuple[int, int]) -> None:
    if verdict.action == "warn":
        judged.warned = True
    if verdict.action not in ("block", "abort") or judged.action:
        return
    # A verdict on a call meets that call; one on a result or a compaction meets the next.
    calls, cost = at
    judged.action, judged.detector = verdict.action, verdict.detector or ""
    judged.message = verdict.message or ""
    judged.at_call = calls + 1
    judged.saved_calls = max(0, run.calls - calls)
    judged.saved_cost = max(0, run.cost - cost)
