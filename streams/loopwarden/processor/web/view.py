"""Runs and verdicts as plain data, the way the page and ``loopwarden explain`` show them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from loopwarden.detection import run_state
from loopwarden.detection.documented.body import Body
from loopwarden.detection.documented.history import History
from loopwarden.detection.run_state import RunState
from loopwarden.processor.web.inspection import FoundRun, PastRun
from loopwarden.processor.web.rules import rule_in_words
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.verdicts import Verdict

__all__ = ["busiest", "past_view", "run_view", "streak", "summary_view", "told_view", "verdict_brief", "verdict_view"]


def summary_view(found: FoundRun) -> dict[str, Any]:
    """A run in a line of the fleet."""
    state = run_state.decode(found.history, found.window)
    return {
        "run_id": found.run_id,
        "partition": found.partition,
        "agent_id": state.agent_id,
        "calls": state.calls,
        "streak": streak(state),
        "started": state.started,
        "last_time": state.last_time,
        "armed": found.window is not None,
        "aborted": state.abort is not None,
        "ignored": state.ignored,
    }


def run_view(found: FoundRun) -> dict[str, Any]:
    """A run that is alive: what its rows say.

    Raises:
        ValueError: A row cannot be read.
    """
    state = run_state.decode(found.history, found.window)
    return summary_view(found) | {
        "state": "live",
        "key": state.root_run_id or found.run_id,
        "root_run_id": state.root_run_id,
        "profile": state.profile,
        "since_compaction": state.since_compaction,
        "abort": None if state.abort is None else msgspec.to_builtins(msgspec.structs.asdict(state.abort)),
        "guard": _guard(state),
        "ring": _ring(state),
    }


def past_view(past: PastRun, configuration: Configuration) -> dict[str, Any]:
    """A run as the topics have it."""
    view: dict[str, Any] = {"run_id": past.run_id, "partition": past.partition, "ring": [], "agent_id": ""}
    if past.history is not None:
        view = run_view(FoundRun(past.run_id, past.partition, past.history, past.window))
    view["state"] = "ended" if past.ended else "gone"
    view["retained"] = past.complete
    return view | told_view(past, configuration)


def told_view(past: PastRun, configuration: Configuration) -> dict[str, Any]:
    """Verdicts of a run and what was done with them."""
    return {
        "verdicts": [verdict_view(verdict, configuration) for verdict in past.verdicts],
        "deeds": [deed._asdict() for deed in past.deeds],
    }


def verdict_brief(verdict: Verdict) -> dict[str, Any]:
    """A verdict in a line."""
    return {
        "id": verdict.id,
        "ts": verdict.ts,
        "run_id": verdict.run_id,
        "agent_id": verdict.agent_id or "",
        "level": verdict.level,
        "action": verdict.action,
        "scope": verdict.scope,
        "stage": verdict.stage,
        "mode": verdict.mode,
        "detector": verdict.detector or "",
        "tool": verdict.tool or "",
        "count": verdict.count or 0,
        "after_compaction": verdict.after_compaction,
    }


def verdict_view(verdict: Verdict, configuration: Configuration) -> dict[str, Any]:
    """A verdict with what it rests on, and its rule in words."""
    settings = configuration.settings_for(verdict.agent_id)
    return verdict_brief(verdict) | {
        "message": verdict.message or "",
        "rule": rule_in_words(verdict.detector or "", verdict.level, settings),
        "paired_tool": verdict.paired_tool or "",
        "tools": verdict.tools or [],
        "points": verdict.points,
        "call_fp": verdict.call_fp or "",
        "evidence": msgspec.to_builtins(verdict.evidence or []),
        "standing": msgspec.to_builtins(verdict.standing or []),
        "cause": msgspec.to_builtins(verdict.cause),
        "config_version": verdict.config_version,
        "same_configuration": verdict.config_version == configuration.version,
    }


def streak(state: RunState) -> int:
    """How often the newest call stands in the ring with one unchanged outcome, at least 1; 0 for an empty ring."""
    history = _history(state)
    if history is None or not len(history):
        return 0
    return max(1, history.no_progress(history.signatures[-1])[0])


def _history(state: RunState) -> History | None:
    return state.body.history if isinstance(state.body, Body) else None


def _guard(state: RunState) -> dict[str, Any] | None:
    guard = state.body.guard if isinstance(state.body, Body) else None
    if guard is None:
        return None
    return {"remaining": guard.remaining, "seen_equal": max(0, guard.equal), "differed": guard.equal < 0}


def _ring(state: RunState) -> list[dict[str, Any]]:
    """The ring, oldest first; ``repeats`` is how often call and outcome stand in it, together."""
    history = _history(state)
    if history is None:
        return []
    pairs = Counter(zip(history.signatures, history.outcomes, strict=True))
    letters = _letters(history.signatures)
    return [
        {
            "tool": history.tool_at(index),
            "signature": signature.hex(),
            "letter": letters[signature],
            "call": history.calls[index].hex(),
            "outcome": history.outcomes[index].hex(),
            "poll": history.poll_at(index),
            "missing": history.missing[index],
            "repeats": pairs[signature, history.outcomes[index]] if history.outcomes[index] else 1,
        }
        for index, signature in enumerate(history.signatures)
    ]


def _letters(signatures: Sequence[bytes]) -> dict[bytes, int]:
    """A small number for each different call, in order of appearance."""
    found: dict[bytes, int] = {}
    for signature in signatures:
        found.setdefault(signature, len(found))
    return found


def busiest(runs: Iterable[FoundRun], limit: int) -> list[FoundRun]:
    """Runs with the most calls, most first."""
    counted = ((run_state.peek_calls(found.history), found) for found in runs)
    return [found for _, found in sorted(counted, key=lambda pair: pair[0], reverse=True)[:limit]]
