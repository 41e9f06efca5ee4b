"""Profile ``progress`` behind the seam: facts in, judgements out (progress, 4 to 8)."""

from __future__ import annotations

from loopwarden.detection.profile import Judgement, Position, ResultView
from loopwarden.detection.progress import encoding, events
from loopwarden.detection.progress.body import Body, Pending
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
    has_kin = True

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
        return events.asked(stored_name(tool), facts, b"", 0).call.hex()

    def on_call(
        self, body: Body, event: ToolCall, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Judges a call, then opens it."""
        name = stored_name(event.tool)
        call = events.asked(name, facts, id_hash(event.call_id) if event.call_id else b"", at.time)
        batch = id_hash(event.batch_id)[:_BATCH_BYTES] if event.batch_id else b""
        finding = events.take_call(body, settings.progress, name, call, batch).finding
        return [] if finding is None else [_judgement(body, finding, name, call)]

    def on_refused(
        self, body: Body, event: CallRefused, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Takes back a call that was judged already; any other one counts as the call, then as its refusal."""
        name = stored_name(event.tool)
        call_id = id_hash(event.call_id) if event.call_id else b""
        if events.take_back(body, name, call_id):
            return []
        call = events.asked(name, facts, call_id, at.time)
        finding = events.take_call(body, settings.progress, name, call).finding
        events.refuse(body, call)
        return [] if finding is None else [_judgement(body, finding, name, call)]

    def on_result(
        self, body: Body, event: ToolResult, facts: Facts, at: Position, settings: AgentSettings
    ) -> ResultView:
        """Closes what the result closes, with a price or with news."""
        name = stored_name(event.tool)
        call = events.asked(name, facts, id_hash(event.call_id) if event.call_id else b"", at.time, result=True)
        vetoed = event.vetoed or facts.own_veto
        taken = events.take_result(body, settings.progress, name, call, facts, vetoed=vetoed)
        judgements = [] if taken.finding is None else [_judgement(body, taken.finding, name, call)]
        barren = bool(taken.closed) and taken.closed[0].points > 0
        return ResultView(judgements, taken.recorded, taken.matched, taken.went_on, barren)

    def on_compaction(self, body: Body, event: Compaction, at: Position, settings: AgentSettings) -> list[Judgement]:
        """Closes what is open, and looks at the compactions before."""
        finding = compact(body, settings.progress)[0]
        return [] if finding is None else [_judgement(body, finding, None, None)]

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


def _judgement(body: Body, finding: Finding, name: str | None, call: Pending | None) -> Judgement:
    """Puts a finding into the seam's form; a warning is emitted once per group, which is remembered here."""
    emit = not finding.is_told(body.told)
    if finding.level == "warning":
        body.told |= GROUPS[finding.rule]
    return Judgement(
        level=finding.level,
        action=finding.action,
        scope=finding.scope,
        detector=finding.rule,
        count=finding.count,
        message=finding.message,
        emit=emit,
        call_fp=call.call.hex() if call is not None else "",
        target_fp=call.target.hex() if call is not None else None,
        tool=abort_name(name) if name is not None and finding.action == "abort" else name,
        tools=finding.tools,
        period=finding.period or None,
        points=finding.points,
    )
