"""What the control topic carries: verdicts.

A *final* verdict judges one event. A *forecast* carries a run's complete **standing**, what would happen to the calls
that may come next, and replaces the one before. ``action`` is what the rule asks for; a runner obeys it in mode
``enforce`` and only reports it in mode ``observe``.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

__all__ = [
    "COMPACTION_LOOP_PERSISTED",
    "Action",
    "Cause",
    "Evidence",
    "Level",
    "Mode",
    "Scope",
    "Stage",
    "StandingEntry",
    "Verdict",
]

COMPACTION_LOOP_PERSISTED = "compaction_loop_persisted"
"""Detector of the documented abort: the loop came back after a compaction (rule 7)."""

Level = Literal["none", "warning", "critical"]
Action = Literal["allow", "warn", "block", "abort"]
Scope = Literal["call", "target", "tool", "run", "root"]
Stage = Literal["forecast", "final"]
Mode = Literal["observe", "enforce"]


class Cause(Struct, frozen=True):
    """The event that a verdict rests on.

    Attributes:
        topic: Events topic.
        partition: Partition of the event, and of the verdict.
        offset: Offset of the event.
    """

    topic: str
    partition: int
    offset: int


class Evidence(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """One record of the window that a verdict rests on, oldest first; at most 30 of them.

    Attributes:
        call: Hash of the call id (``fingerprint.id_hash``), where the call had one.
        outcome: Outcome fingerprint, where it had one.
    """

    call: str | None = None
    outcome: str | None = None


class StandingEntry(Struct, kw_only=True, omit_defaults=True, frozen=True):
    """What would happen to some calls. The narrowest match wins: call, target, tool, run, root.

    Attributes:
        scope: What ``key`` is.
        key: Call or target fingerprint, tool name, run id or root run id.
        level: How bad.
        action: What to do; ``allow`` exempts a known call from a wider entry.
        detector: The rule.
        message: For the model; constant within a loop.
        count: How often.
    """

    scope: Scope
    key: str
    level: Level
    action: Action
    detector: str
    message: str
    count: int = 0


class Verdict(Struct, kw_only=True, omit_defaults=True):
    """What was found, and what to do.

    Attributes:
        id: Comes from the cause, detector, stage, scope, call and configuration: a replay gives the same.
        run_id: The run.
        level: none, warning or critical.
        action: allow, warn, block or abort.
        scope: What the action covers.
        stage: ``final`` or ``forecast``.
        mode: ``observe`` or ``enforce``: the worker's, per agent; a runner may only weaken it.
        profile: The profile that judged.
        cause: The event.
        config_version: Version of the configuration that it was judged under.
        ts: The event's time, epoch milliseconds; the broker's where the event has none.
        agent_id: The agent.
        root_run_id: The root run, where there is one.
        detector: The rule; absent at level none.
        call_id: The judged call's id, as its event gave it.
        tool: The judged call's tool.
        call_fp: The judged call's fingerprint: what a standing's ``call`` entries match.
        target_fp: Its target fingerprint (``progress``).
        paired_tool: The other tool of a ping-pong.
        tools: Tools of a lap, in order (``progress``).
        period: Length of the lap (``progress``).
        count: How often.
        points: Points (``progress``).
        message: For the model, in words.
        after_compaction: Fewer than ``historySize`` calls ago the context was compacted.
        standing: The complete standing (forecasts only).
        evidence: The window that it rests on.
        shadow: Name of the shadow judge; such a verdict is never obeyed.
    """

    id: str
    run_id: str
    level: Level
    action: Action
    scope: Scope
    stage: Stage
    mode: Mode
    profile: str
    cause: Cause
    config_version: str
    ts: int
    agent_id: str | None = None
    root_run_id: str | None = None
    detector: str | None = None
    call_id: str | None = None
    tool: str | None = None
    call_fp: str | None = None
    target_fp: str | None = None
    paired_tool: str | None = None
    tools: list[str] | None = None
    period: int | None = None
    count: int | None = None
    points: float | None = None
    message: str | None = None
    after_compaction: bool = False
    standing: list[StandingEntry] | None = None
    evidence: list[Evidence] | None = None
    shadow: str | None = None
