"""The documented profile behind the seam: judge, record, watch (rules 4 to 7)."""

from __future__ import annotations

from msgspec import UNSET

from loopwarden.detection.documented import body as rows
from loopwarden.detection.documented import guard
from loopwarden.detection.documented.body import Body
from loopwarden.detection.documented.detectors import Finding, detect, ping_pong, unknown_tool
from loopwarden.detection.documented.history import History
from loopwarden.detection.profile import Judgement, Position, ResultView
from loopwarden_schemas.configuration import AgentSettings
from loopwarden_schemas.events import CallRefused, Compaction, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts, reduce_content, signature
from loopwarden_schemas.fingerprint import id_hash, stored_name
from loopwarden_schemas.verdicts import Evidence, StandingEntry

__all__ = ["DocumentedProfile"]

EVIDENCE_LIMIT = 30
_NO_ARGS: str = reduce_content("", UNSET).args_fp or ""


class DocumentedProfile:
    """Judges exactly as the documented system does; see ``loopwarden.detection.profile.Profile``."""

    name = "documented"
    has_kin = False

    def new(self) -> Body:
        """The body of a run that begins."""
        return Body(History())

    def decode(self, body: bytes, window: bytes | None) -> Body:
        """Reads a body.

        Raises:
            ValueError: Not a body of this profile.
        """
        return rows.decode(body, window)

    def encode(self, body: Body) -> tuple[bytes, bytes | None]:
        """Writes a body and the guard's window."""
        return rows.encode(body)

    def call_fp(self, tool: str, facts: Facts) -> str:
        """Tool and arguments, as 16 hex digits."""
        return signature(tool, facts.args_fp or _NO_ARGS).hex()

    def on_call(
        self, body: Body, event: ToolCall, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Judges a call, then records it; in mode enforce a critical one is not recorded (rule 4)."""
        documented = settings.documented
        tool = stored_name(event.tool)
        sig = signature(event.tool, facts.args_fp or _NO_ARGS)
        call = id_hash(event.call_id) if event.call_id else b""
        finding = detect(body.history, tool, sig, facts.poll, documented)
        if finding is None:
            if documented.record_calls:
                body.history.record_call(tool, facts.poll, sig, call, documented.ring_size)
            return []
        judgement = self._judgement(body, finding, tool, sig, body.let_through(finding))
        critical = finding.level == "critical"
        if critical:
            body.mark(call, tool, settings.mode == "enforce")
        if documented.record_calls and not (critical and settings.mode == "enforce"):
            body.history.record_call(tool, facts.poll, sig, call, documented.ring_size)
        return [judgement]

    def on_refused(
        self, body: Body, event: CallRefused, facts: Facts, at: Position, settings: AgentSettings
    ) -> list[Judgement]:
        """Takes back a call that was judged already; judges any other one, and does not record it (reading 10)."""
        tool = stored_name(event.tool)
        if event.call_id:
            call = id_hash(event.call_id)
            mark = body.take_mark(call, tool)
            index = body.history.open_call(tool, call)
            if index is not None:
                body.history.remove(index)
            if mark is not None or index is not None:
                return []
        sig = signature(event.tool, facts.args_fp or _NO_ARGS)
        finding = detect(body.history, tool, sig, facts.poll, settings.documented)
        if finding is None:
            return []
        return [self._judgement(body, finding, tool, sig, body.let_through(finding))]

    def on_result(
        self, body: Body, event: ToolResult, facts: Facts, at: Position, settings: AgentSettings
    ) -> ResultView:
        """Records an outcome and shows it to the guard (rules 4 and 7)."""
        documented = settings.documented
        history = body.history
        tool = stored_name(event.tool)
        call = id_hash(event.call_id) if event.call_id else b""
        went_on = False
        if body.marks and (mark := body.take_mark(call, tool)) is not None:
            went_on = not (facts.own_veto or event.vetoed)
            if mark.drop:
                return ResultView([], went_on=went_on)
        if facts.outcome_fp is None:
            return ResultView([], went_on=went_on)
        poll = facts.poll
        if facts.args_fp is None and call and (index := history.open_call(tool, call)) is not None:
            sig, poll = history.signatures[index], history.poll_at(index)
        else:
            sig = signature(event.tool, facts.args_fp or _NO_ARGS)
        outcome = bytes.fromhex(facts.outcome_fp[:16])
        missing = stored_name(facts.unknown_tool) if facts.unknown_tool else ""
        matched = history.record_outcome(tool, poll, sig, call, outcome, missing, documented.ring_size)
        judgements = self._observe(body, tool, sig, outcome, settings)
        barren = history.signatures.count(sig) > 1 and history.no_progress(sig)[0] > 1
        return ResultView(judgements, recorded=True, matched=matched, went_on=went_on, barren=barren)

    def on_compaction(self, body: Body, event: Compaction, at: Position, settings: AgentSettings) -> list[Judgement]:
        """Arms the guard where the run goes on with the compacted context (rule 7)."""
        if event.retry and settings.documented.guard:
            body.guard = guard.Guard(settings.documented.window_size)
        return []

    def standing(
        self,
        body: Body,
        event: ToolCall | ToolResult | CallRefused | None,
        facts: Facts | None,
        at: Position,
        settings: AgentSettings,
    ) -> list[StandingEntry]:
        """Judges the newest call again, and the other leg of an alternation (design: verdicts ahead of the call).

        A warning that the de-duplication would hold back is left out.
        """
        history = body.history
        last = len(history.signatures) - 1
        other = history.other_leg() if last > 0 else None
        candidates: list[tuple[str, bytes, bool]] = []
        if event is not None and facts is not None and facts.args_fp is not None:
            sig = signature(event.tool, facts.args_fp)
            if self._cannot_fire(history, sig, other, settings):
                return []
            candidates.append((stored_name(event.tool), sig, facts.poll))
        if last >= 0:
            candidates.append((history.tool_at(last), history.signatures[last], history.poll_at(last)))
        if other is not None:
            candidates.append((history.tool_at(other), history.signatures[other], history.poll_at(other)))
        entries: dict[bytes, StandingEntry] = {}
        for tool, sig, poll in candidates:
            if sig in entries:
                continue
            finding = detect(history, tool, sig, poll, settings.documented)
            if finding is None or not body.would_let_through(finding):
                continue
            entries[sig] = StandingEntry(
                scope="call",
                key=sig.hex(),
                level=finding.level,
                action="block" if finding.level == "critical" else "warn",
                detector=finding.detector,
                message=finding.message,
                count=finding.count,
            )
        return list(entries.values())

    @staticmethod
    def _cannot_fire(history: History, sig: bytes, other: int | None, settings: AgentSettings) -> bool:
        """Whether no rule can fire for the call or the other leg: the way of nearly every result."""
        signatures = history.signatures
        if not settings.documented.enabled:
            return True
        floor = max(1, (settings.documented.warning - 1) // 2)
        return (
            bool(signatures)
            and signatures[-1] == sig
            and not history.missing[-1]
            and signatures.count(sig) < floor
            and (other is None or signatures.count(signatures[other]) < floor)
        )

    def _observe(self, body: Body, tool: str, sig: bytes, outcome: bytes, settings: AgentSettings) -> list[Judgement]:
        armed = body.guard
        if armed is None or not settings.documented.guard:
            return []
        count = armed.observe(sig + outcome, settings.documented.window_size)
        if armed.remaining <= 0:
            body.guard = None
        if not count:
            return []
        history = body.history
        window = [
            index
            for index in range(len(history))
            if history.signatures[index] == sig and history.outcomes[index] == outcome
        ]
        return [
            Judgement(
                level="critical",
                action="abort",
                scope="run",
                detector=guard.DETECTOR,
                count=count,
                message=guard.message(tool, count),
                call_fp=sig.hex(),
                tool=tool,
                evidence=_evidence(history, window[-count:]),
            )
        ]

    def _judgement(self, body: Body, finding: Finding, tool: str, sig: bytes, emit: bool) -> Judgement:
        critical = finding.level == "critical"
        return Judgement(
            level=finding.level,
            action="block" if critical else "warn",
            scope="call",
            detector=finding.detector,
            count=finding.count,
            message=finding.message,
            emit=emit,
            call_fp=sig.hex(),
            tool=tool,
            paired_tool=finding.paired_tool,
            evidence=_evidence(body.history, _window(body.history, finding, sig)) if emit else None,
        )


def _window(history: History, finding: Finding, sig: bytes) -> list[int]:
    """Indices of the records that a finding rests on, oldest first."""
    if finding.detector == ping_pong.DETECTOR:
        return list(range(max(0, len(history) - (finding.count - 1)), len(history)))
    if finding.detector == unknown_tool.DETECTOR:
        return list(range(len(history) - finding.count, len(history)))
    same = [index for index, signature_ in enumerate(history.signatures) if signature_ == sig]
    if finding.level == "warning" and finding.warning_key[0] == "generic":
        return same
    return [index for index in same if history.outcomes[index]][-finding.count :]


def _evidence(history: History, window: list[int]) -> list[Evidence]:
    return [
        Evidence(call=history.calls[index].hex() or None, outcome=history.outcomes[index].hex() or None)
        for index in window[-EVIDENCE_LIMIT:]
    ]
