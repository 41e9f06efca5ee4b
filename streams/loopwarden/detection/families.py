"""The runs of one task: calls that spawn, and their results, fold a second time into their root's family (progress, 9).

A family is a state of its own, of profile ``progress``, kept under its root's id. What it shows is said of the caller's
run and covers the root: refusing refuses that call, aborting stops every run of the root. Of the root run itself its
own state says as much, so nothing is said twice.
"""

from __future__ import annotations

import msgspec

from loopwarden.detection import run_state
from loopwarden.detection.profile import Judgement, Position
from loopwarden.detection.run_state import RunState
from loopwarden_schemas.configuration import AgentSettings
from loopwarden_schemas.events import CallRefused, Event, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.facts.tool_words import tool_traits
from loopwarden_schemas.verdicts import StandingEntry

__all__ = ["PREFIX", "Entered", "enter", "is_over", "merged", "root_of", "spawns", "standing"]

PREFIX = "delegation_"
"""Rules of a family's verdicts begin with this."""
_PROFILE = "progress"
_FORCE = {"allow": 0, "warn": 1, "block": 2, "abort": 3}


class Entered(msgspec.Struct, frozen=True):
    """What came of an event in its family.

    Attributes:
        family: The family's next state.
        judgements: Of the caller's call.
        went_on: The call had been judged critical here, and ran.
    """

    family: RunState
    judgements: list[Judgement]
    went_on: bool = False


def root_of(event: Event, state: RunState | None) -> str:
    """The run at the top of the event's family: where nobody names one, the run itself."""
    return event.root_run_id or (state.root_run_id if state is not None else "") or event.run_id


def spawns(event: ToolCall | ToolResult | CallRefused, facts: Facts) -> bool:
    """Whether a call starts another agent; of a result that does not say what was called, its tool's name tells."""
    return facts.spawn or (facts.call is None and tool_traits(event.tool).spawn)


def is_over(family: RunState, at: Position, settings: AgentSettings) -> bool:
    """Whether a family was idle too long before this event, by the partition's stream time."""
    limit = settings.idle_timeout_ms
    return bool(limit and at.stream_time and at.stream_time - family.last_time > limit)


def enter(
    family: RunState | None,
    event: ToolCall | ToolResult | CallRefused,
    facts: Facts,
    at: Position,
    settings: AgentSettings,
    caller: RunState,
) -> Entered:
    """Folds a call that spawns, its result or its refusal into its family.

    Args:
        family: State before, None where there is none. Changed in place: use what is returned.
        event: The event, after the caller's own fold applied it.
        facts: Its facts.
        at: Where and when it stands.
        settings: Settings of the caller's agent: they judge.
        caller: State of the run that the event belongs to.
    """
    root = root_of(event, caller)
    if family is None:
        family = run_state.new(_PROFILE, at.stream_time or at.time)
        family.root_run_id = root
    family.last_time = at.stream_time or at.time
    family.agent_id = caller.agent_id
    rules, body = family.rules, family.body
    told = body.told
    went_on = False
    if isinstance(event, ToolCall):
        family.calls += 1
        judgements = rules.on_call(body, event, facts, at, settings)
    elif isinstance(event, CallRefused):
        judgements = rules.on_refused(body, event, facts, at, settings)
    else:
        view = rules.on_result(body, event, facts, at, settings)
        judgements, went_on = view.judgements, view.went_on
    if event.run_id == root:
        body.told = told
        return Entered(family, [])
    return Entered(family, [_of_family(judgement) for judgement in judgements], went_on)


def standing(family: RunState, event: Event, at: Position, settings: AgentSettings) -> list[StandingEntry]:
    """What a family would do to the next calls of a run; nothing to the root run's."""
    if event.run_id == family.root_run_id:
        return []
    return [
        msgspec.structs.replace(entry, detector=PREFIX + entry.detector, message=_said(entry.message))
        for entry in family.rules.standing(family.body, None, None, at, settings)
        if entry.action != "allow"
    ]


def merged(own: list[StandingEntry], of_family: list[StandingEntry]) -> list[StandingEntry]:
    """A run's standing and its family's in one: of two entries for the same calls the stricter holds."""
    if not of_family:
        return own
    entries = {(entry.scope, entry.key): entry for entry in own}
    for entry in of_family:
        known = entries.get((entry.scope, entry.key))
        if known is None or _FORCE[entry.action] > _FORCE[known.action]:
            entries[entry.scope, entry.key] = entry
    return list(entries.values())


def _of_family(judgement: Judgement) -> Judgement:
    return msgspec.structs.replace(
        judgement,
        detector=PREFIX + judgement.detector,
        scope="root",
        message=_said(judgement.message),
        for_root=True,
    )


def _said(message: str) -> str:
    return f"across the runs of one task: {message}" if message else ""
