"""The one function that everybody calls: a run's state and an event give the next state and the verdicts."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from loopwarden.detection import families, run_state
from loopwarden.detection.notes import Note
from loopwarden.detection.profile import Judgement, Position, Profile
from loopwarden.detection.run_state import Abort, RunState
from loopwarden_schemas.configuration import AgentSettings
from loopwarden_schemas.events import (
    CallRefused,
    Compaction,
    Event,
    RunEnded,
    RunReleased,
    RunStarted,
    ToolCall,
    ToolResult,
    Usage,
    VerdictAck,
)
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.fingerprint import id_hash, stored_name, verdict_id
from loopwarden_schemas.verdicts import Action, Cause, Level, Scope, Stage, StandingEntry, Verdict

__all__ = ["IGNORED_DETECTOR", "NEED_A_RUN", "Folded", "fold", "is_expired"]

IGNORED_DETECTOR = "verdict_ignored"
"""A runner goes on after critical verdicts (design: after a verdict)."""
_NARROW = frozenset(["call", "target"])
_FORCE = {"allow": 0, "warn": 1, "block": 2, "abort": 3}
_encode = msgspec.msgpack.Encoder().encode


class Folded(NamedTuple):
    """What an event came to.

    Attributes:
        state: The run's next state, None for a run that is over.
        verdicts: In the order in which they are published.
        notes: What counters rise from.
        applied: It changed the run; not so a duplicate, or what ends a run that is not known.
        family: The next state of the run's family; None where it has none.
    """

    state: RunState | None
    verdicts: list[Verdict]
    notes: list[Note]
    applied: bool = True
    family: RunState | None = None


def is_expired(state: RunState, at: Position, settings: AgentSettings) -> bool:
    """Whether a run was over before this event: idle too long, by the partition's stream time (design: two tables)."""
    limit = settings.idle_timeout_ms
    return bool(limit and at.stream_time and at.stream_time - state.last_time > limit)


def fold(
    state: RunState | None,
    event: Event,
    facts: Facts | None,
    at: Position,
    settings: AgentSettings,
    family: RunState | None = None,
) -> Folded:
    """Applies one event to its run.

    Args:
        state: State before, None for a run that is not known. Changed in place: use what is returned.
        event: The event.
        facts: Facts of a call, a result or a refusal (``reduce_event``); None for any other event.
        at: Where and when the event stands.
        settings: Settings of the run's agent.
        family: State of the run's family, where its profile has families and it has one. Changed in place.

    Returns:
        State, verdicts and notes.
    """
    notes: list[Note] = []
    kind = type(event)
    if state is not None and at.stream_time and is_expired(state, at, settings):
        notes.append(Note("run_expired", state.agent_id))
        state = None
    known = state is not None
    if state is None:
        if kind in NEED_A_RUN:
            # Nothing to end, to acknowledge or to release: such an event must not bring a run to life.
            _note_event(notes, event, event.agent_id or "", False, False)
            return Folded(None, [], notes, False, family)
        state = run_state.new(settings.profile, at.stream_time or at.time)
    if event.event_id and state.knows_event(id_hash(event.event_id)):
        notes.append(Note("duplicate", state.agent_id))
        return Folded(state, [], notes, False, family)
    _greet(state, event, at, notes)
    was_critical = state.critical
    turn = _Turn(state, event, facts or _NO_FACTS, at, settings, state.rules, notes, known, family)
    if (apply := _APPLY.get(kind)) is not None:
        apply(turn, event)
    if kind not in _CALLS or event.usage is not None or event.publisher is not None:
        _note_event(notes, event, state.agent_id, turn.after_compaction, was_critical)
    return Folded(None if kind is RunEnded else state, turn.verdicts, notes, True, turn.family)


def _greet(state: RunState, event: Event, at: Position, notes: list[Note]) -> None:
    """Takes over what any event says of its run."""
    state.last_time = at.stream_time or at.time
    if event.agent_id:
        state.agent_id = event.agent_id
    if event.root_run_id:
        state.root_run_id = event.root_run_id
    if event.seq is not None and event.seq > state.seq:
        if state.seq >= 0 and (gap := event.seq - state.seq - 1):
            notes.append(Note("seq_gap", state.agent_id, value=gap))
        state.seq = event.seq


def _note_event(notes: list[Note], event: Event, agent: str, after_compaction: bool, critical: bool) -> None:
    if isinstance(event, RunEnded):
        notes.append(Note("run_ended", agent, label=event.outcome or ""))
    elif isinstance(event, VerdictAck):
        notes.append(Note("ack", agent, label=event.result, value=-1 if event.after_ms is None else event.after_ms))
    elif isinstance(event, RunReleased):
        notes.append(Note("run_released", agent))
    elif isinstance(event, RunStarted):
        notes.append(Note("run_started", agent))
    if event.usage is not None:
        label = "critical" if critical else ""
        notes.append(Note("usage", agent, label=label, after_compaction=after_compaction, detail=event.usage))
    if event.publisher is not None:
        notes.append(Note("publisher", agent, detail=event.publisher))


class _Turn(Struct):
    """One event's way through its run."""

    state: RunState
    event: Event
    facts: Facts
    at: Position
    settings: AgentSettings
    rules: Profile
    notes: list[Note]
    known: bool
    family: RunState | None = None
    verdicts: list[Verdict] = []

    @property
    def _now(self) -> int:
        """The broker's time of the event, epoch milliseconds; the event's own where the broker keeps no time."""
        return self.at.stream_time or self.at.time

    @property
    def after_compaction(self) -> bool:
        return 0 <= self.state.since_compaction < self.settings.documented.history_size

    def call(self, event: ToolCall) -> None:
        state = self.state
        judgements = self.rules.on_call(state.body, event, self.facts, self.at, self.settings)
        if self.rules.has_kin and families.spawns(event, self.facts):
            judgements = judgements + self._in_family(event).judgements
        state.calls += 1
        if state.since_compaction >= 0:
            state.since_compaction += 1
        # The runner drops these entries when it publishes a call (design: verdicts ahead of the call).
        state.standing = state.wide
        self.notes.append(Note("call", state.agent_id, event.tool, "", 0, self.after_compaction))
        if event.usage is not None:
            usage, (tokens_in, tokens_out, cost) = event.usage, state.spent or (0, 0, 0)
            state.spent = (tokens_in + usage.tokens_in, tokens_out + usage.tokens_out, cost + usage.cost)
        if judgements:
            self._emit(judgements)
            if event.call_id and any(judgement.level == "critical" for judgement in judgements):
                state.judged.append((id_hash(event.call_id), self._now))
                del state.judged[: -run_state.JUDGED]
        if event.want_verdict and not any(judgement.emit for judgement in judgements):
            self._answer(event, judgements)

    def refused(self, event: CallRefused) -> None:
        judgements = self.rules.on_refused(self.state.body, event, self.facts, self.at, self.settings)
        if self.rules.has_kin and families.spawns(event, self.facts):
            judgements = judgements + self._in_family(event).judgements
        self.notes.append(Note("refused", self.state.agent_id, event.tool, "", 0, self.after_compaction))
        self.state.spent = None
        if not self._halted(event.call_id, event.tool):
            # It was refused before it was published: this event stands for the call, too.
            self.notes.append(Note("call", self.state.agent_id, event.tool, "", 0, self.after_compaction))
        self._emit(judgements)
        self.forecast(event)

    def result(self, event: ToolResult) -> None:
        state = self.state
        view = self.rules.on_result(state.body, event, self.facts, self.at, self.settings)
        went_on = view.went_on
        if self.rules.has_kin and families.spawns(event, self.facts):
            went_on = self._in_family(event).went_on or went_on
        if view.barren:
            spent = None if state.spent is None else Usage(**dict(zip(_SPENT, state.spent, strict=True)))
            self.notes.append(Note("barren", state.agent_id, event.tool, "", 0, self.after_compaction, spent))
        state.spent = None
        if state.judged and event.call_id:
            state.take_judged(id_hash(event.call_id))
        if view.judgements:
            self._emit(view.judgements)
        if went_on:
            self.notes.append(Note("went_on", state.agent_id, event.tool, self.settings.mode, 0, self.after_compaction))
            self._went_on(event)
        self.forecast(event)

    def acknowledged(self, event: VerdictAck) -> None:
        if event.result == "applied":
            self._halted(event.call_id, "")

    def _halted(self, call_id: str | None, tool: str) -> bool:
        """Takes note of how long a call judged critical took to come to its end, if it was one."""
        state = self.state
        judged = state.take_judged(id_hash(call_id)) if call_id and state.judged else None
        if judged is None:
            return False
        self.notes.append(Note("halted", state.agent_id, tool, "", max(0, self._now - judged), self.after_compaction))
        return True

    def compaction(self, event: Compaction) -> None:
        self.state.since_compaction = 0
        self._emit(self.rules.on_compaction(self.state.body, event, self.at, self.settings))
        self.forecast(None)

    def started(self, event: RunStarted) -> None:
        # A run that is not known may still have a family that is stuck.
        if self.known or self.family is not None:
            self.forecast(None, force=self.known)

    def released(self, event: RunReleased) -> None:
        state = self.state
        state.body = self.rules.new()
        state.abort = None
        state.ignored = 0
        state.critical = False
        state.judged.clear()
        if self.family is not None:
            self.family.body = self.family.rules.new()
            self.family.abort = None
        self.forecast(None, force=True)

    def forecast(self, event: ToolResult | CallRefused | None, *, force: bool = False) -> None:
        """Publishes the standing where it changed (design: verdicts ahead of the call)."""
        state = self.state
        entries = self.rules.standing(state.body, event, self.facts if event else None, self.at, self.settings)
        abort = state.abort
        if self.family is not None:
            entries = families.merged(entries, families.standing(self.family, self.event, self.at, self.settings))
            abort = abort or self.family.abort
        if abort is not None:
            entries.append(self._abort_entry(abort))
        if not entries and not state.standing and not force:
            return
        digest = _digest(entries)
        if digest == state.standing and not force:
            return
        state.standing = digest
        state.wide = _digest([entry for entry in entries if entry.scope not in _NARROW])
        worst: StandingEntry | None = max(entries, key=lambda entry: _FORCE[entry.action], default=None)
        self.verdicts.append(
            self._verdict(
                level=worst.level if worst else "none",
                action=worst.action if worst else "allow",
                scope=worst.scope if worst else "run",
                stage="forecast",
                detector=worst.detector if worst else None,
                call_fp=worst.key if worst and worst.scope == "call" else None,
                tool=stored_name(event.tool) if event else None,
                count=worst.count if worst and worst.count else None,
                message=worst.message if worst else None,
                standing=entries,
            )
        )

    def _abort_entry(self, abort: Abort) -> StandingEntry:
        root = abort.scope == "root"
        return StandingEntry(
            scope="root" if root else "run",
            key=(self.state.root_run_id or self.event.run_id) if root else self.event.run_id,
            level="critical",
            action="abort",
            detector=abort.detector,
            message=abort.message,
            count=abort.count,
        )

    def _in_family(self, event: ToolCall | ToolResult | CallRefused) -> families.Entered:
        entered = families.enter(self.family, event, self.facts, self.at, self.settings, self.state)
        self.family = entered.family
        return entered

    def _emit(self, judgements: list[Judgement]) -> None:
        for judgement in judgements:
            if not judgement.emit:
                continue
            self.verdicts.append(
                self._verdict(
                    level=judgement.level,
                    action=judgement.action,
                    scope=judgement.scope,
                    stage="final",
                    detector=judgement.detector,
                    call_fp=judgement.call_fp or None,
                    target_fp=judgement.target_fp,
                    call_id=getattr(self.event, "call_id", None),
                    tool=judgement.tool,
                    paired_tool=judgement.paired_tool,
                    tools=judgement.tools,
                    period=judgement.period,
                    count=judgement.count,
                    points=judgement.points,
                    message=judgement.message,
                    evidence=judgement.evidence,
                )
            )
            if judgement.level == "critical":
                self.state.critical = True
            if judgement.action == "abort":
                self._abort(judgement)

    def _abort(self, judgement: Judgement) -> None:
        # Only what is enforced is repeated to a process that starts again.
        holder = self.family if judgement.for_root and self.family is not None else self.state
        if self.settings.mode == "enforce" and holder.abort is None:
            holder.abort = Abort(
                judgement.detector, judgement.tool or "", judgement.count, judgement.message, judgement.scope
            )

    def _went_on(self, event: ToolResult) -> None:
        state, settings = self.state, self.settings
        state.ignored += 1
        if settings.mode != "enforce" or not settings.ignored_after or state.ignored != settings.ignored_after:
            return
        message = (
            f"{state.ignored} calls ran although they had been refused: the runner does not obey verdicts; "
            "the run is stopped."
        )
        self._emit(
            [
                Judgement(
                    level="critical",
                    action="abort",
                    scope="run",
                    detector=IGNORED_DETECTOR,
                    count=state.ignored,
                    message=message,
                    call_fp=self.rules.call_fp(event.tool, self.facts),
                    tool=stored_name(event.tool),
                )
            ]
        )

    def _answer(self, event: ToolCall, judgements: list[Judgement]) -> None:
        """Answers a call that asked for it and got nothing: healthy, or a warning that was held back."""
        level: Level = "warning" if judgements else "none"
        self.verdicts.append(
            self._verdict(
                level=level,
                action="allow",
                scope="call",
                stage="final",
                detector=judgements[0].detector if judgements else None,
                call_id=event.call_id,
                call_fp=self.rules.call_fp(event.tool, self.facts),
                tool=stored_name(event.tool),
                count=judgements[0].count if judgements else None,
            )
        )

    def _verdict(
        self,
        *,
        level: Level,
        action: Action,
        scope: Scope,
        stage: Stage,
        detector: str | None,
        call_fp: str | None,
        **rest: object,
    ) -> Verdict:
        at, state, settings = self.at, self.state, self.settings
        return Verdict(
            id=verdict_id(
                at.topic,
                at.partition,
                at.offset,
                detector=detector or "",
                stage=stage,
                scope=scope,
                call_fp=call_fp or "",
                config_version=settings.config_version,
            ),
            run_id=self.event.run_id,
            level=level,
            action=action,
            scope=scope,
            stage=stage,
            mode=settings.mode,
            profile=state.profile,
            cause=Cause(at.topic, at.partition, at.offset),
            config_version=settings.config_version,
            ts=at.time,
            agent_id=state.agent_id or None,
            root_run_id=state.root_run_id or None,
            detector=detector,
            call_fp=call_fp,
            after_compaction=self.after_compaction,
            **rest,  # type: ignore[arg-type]
        )


_NO_FACTS = Facts()
_SPENT = ("tokens_in", "tokens_out", "cost")
NEED_A_RUN: frozenset[type] = frozenset([RunEnded, VerdictAck, RunReleased])
"""Events that bring no run to life."""
_CALLS = frozenset([ToolCall, ToolResult, CallRefused])
_APPLY: dict[type[Event], Callable[[_Turn, Any], None]] = {
    ToolCall: _Turn.call,
    ToolResult: _Turn.result,
    CallRefused: _Turn.refused,
    Compaction: _Turn.compaction,
    RunStarted: _Turn.started,
    RunReleased: _Turn.released,
    VerdictAck: _Turn.acknowledged,
}


def _digest(entries: list[StandingEntry]) -> bytes:
    """Hash of a standing, empty for an empty one."""
    if not entries:
        return b""
    return blake2b(_encode(sorted(entries, key=lambda entry: (entry.scope, entry.key))), digest_size=8).digest()
