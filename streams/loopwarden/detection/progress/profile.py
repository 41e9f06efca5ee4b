"""Profile ``progress`` behind the seam: facts in, judgements out (progress, 4 to 8)."""

from __future__ import annotations

from loopwarden.detection.profile import Judgement, Position, ResultView
from loopwarden.detection.progress import encoding, events
from loopwarden.detection.progress.body import Body
from loopwarden.detection.progress.compactions import compact
from loopwarden.detection.progress.judging import GROUPS, Finding
from loopwarden.detection.progress.messages import abort_name
from loopwarden.detection.progress.standing import standing
from loopwarden_schemas.configuration import AgentSettings
from loopwarden_schemas.events import CallRefused, Compaction, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.fingerprint import id_hash, stored_name
from loopwarden_schemas.verdicts import StandingEntry

__all__ = ["ProgressProfile"]

_BATCH_BYTES = 6


class ProgressProfile:
    """Asks whether a run still learns anything; see ``loopwarden.detection.profile.Profile``."""

    name = "progress"

    def new(self) -> Body:
        """The body of a run that begins."""
        return Body()

    def decode(self, body: bytes, window: bytes | None) -> Body:
        """Reads a body.

        Raises:
            ValueError: Not a body of this profile.
        """
        return encoding.decode(body, window)

    def encode(self, body: Body) -> tuple[bytes, bytes | None]:
        """Writes a body and its post-compaction window."""
        return encoding.encode(body)

    def call_fp(self, tool: str, facts: Facts) -> str:
        """The call's fingerprint, as 16 hex digits."""
        call = events.asked(stored_name(tool), facts, b"", 0).call
        return call.hex() if call is not None else ""

    def on_call(
        self, body: Body, event: ToolCall, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Judges a call, then opens it."""
        call = _asked(event, facts, at)
        batch = id_hash(event.batch_id)[:_BATCH_BYTES] if event.batch_id else b""
        taken = events.take_call(body, settings.progress, call, batch)
        return [] if taken.finding is None else [_judgement(body, taken.finding, call)]

    def on_refused(
        self, body: Body, event: CallRefused, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Takes back a call that was judged already; any other one counts as the call, then as its refusal."""
        call = _asked(event, facts, at, result=True)
        if events.take_back(body, call):
            return []
        call = events.said(call)
        taken = events.take_call(body, settings.progress, call)
        events.take_result(body, settings.progress, call, facts, vetoed=True)
        return [] if taken.finding is None else [_judgement(body, taken.finding, call)]

    def on_result(
        self, body: Body, event: ToolResult, facts: Facts, at: Position, settings: AgentSettings
    ) -> ResultView:
        """Closes what the result closes, with a price or with news."""
        call = _asked(event, facts, at, result=True)
        taken = events.take_result(body, settings.progress, call, facts, vetoed=event.vetoed or facts.own_veto)
        judgements = [] if taken.finding is None else [_judgement(body, taken.finding, call)]
        barren = any(closed.points > 0 for closed in taken.closed)
        return ResultView(judgements, taken.recorded, taken.matched, taken.went_on, barren)

    def on_compaction(self, body: Body, event: Compaction, at: Position, settings: AgentSettings) -> list[Judgement]:
        """Closes what is open, and looks at the compactions before."""
        finding = compact(body, settings.progress)[0]
        return [] if finding is None else [_judgement(body, finding, None)]

    def standing(
        self,
        body: Body,
        event: ToolCall | ToolResult | CallRefused | None,
        facts: Facts | None,
        at: Position,
        settings: AgentSettings,
    ) -> list[StandingEntry]:
        """Judges the calls of the last five steps again (design: verdicts ahead of the call)."""
        return standing(body, settings.progress, at.time)


def _asked(
    event: ToolCall | ToolResult | CallRefused, facts: Facts, at: Position, *, result: bool = False
) -> events.Asked:
    call_id = id_hash(event.call_id) if event.call_id else b""
    return events.asked(stored_name(event.tool), facts, call_id, at.time, result=result)


def _judgement(body: Body, finding: Finding, call: events.Asked | None) -> Judgement:
    """Puts a finding into the seam's form; a warning is emitted once per group, which is remembered here."""
    emit = not finding.is_told(body.told)
    if finding.level == "warning":
        body.told |= GROUPS[finding.rule]
    name = None if call is None else call.name
    return Judgement(
        level=finding.level,
        action=finding.action,
        scope=finding.scope,
        detector=finding.rule,
        count=finding.count,
        message=finding.message,
        emit=emit,
        call_fp=call.call.hex() if call is not None and call.call is not None else "",
        target_fp=call.target.hex() if call is not None and call.target else None,
        tool=abort_name(name) if name is not None and finding.action == "abort" else name,
        tools=finding.tools,
        period=finding.period or None,
        points=finding.points,
    )
