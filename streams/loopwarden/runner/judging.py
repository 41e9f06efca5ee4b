"""Decides about the calls of one run, publishes them, and tells the worker what came of its verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from loopwarden.runner.decision import Decision
from loopwarden.runner.host import Host
from loopwarden.runner.inbox import Inbox
from loopwarden.runner.open_calls import OpenCall, OpenCalls
from loopwarden.runner.outbox import Outbox, now_ms
from loopwarden.runner.policy import Answer, decide
from loopwarden.runner.standing import Match, final_match
from loopwarden.runner.wire import fitted, fitted_call, usage_of
from loopwarden_schemas.events import AckResult, CallRefused, ToolCall, Usage, VerdictAck
from loopwarden_schemas.facts import reduce_content
from loopwarden_schemas.verdicts import Action, Verdict

__all__ = ["UNANSWERED_DETECTOR", "Judging", "UsageLike"]

UNANSWERED_DETECTOR = "strict_timeout"
"""Stands for the rule where a call is refused because nobody judged it in time (``strict_fail="closed"``)."""
_UNANSWERED = "The loop detector did not answer in time, and calls that it has not seen are not run here."

UsageLike = Usage | Mapping[str, int]


class Judging:
    """The calls of one run, before they run.

    Args:
        run_id: The run.
        host: What all runs share.
        inbox: Its verdicts.
        outbox: Its events.
        calls: Its calls.
        supports: What the runner is able to do about a verdict.
    """

    def __init__(
        self,
        run_id: str,
        host: Host,
        *,
        inbox: Inbox,
        outbox: Outbox,
        calls: OpenCalls,
        supports: Collection[Action],
    ) -> None:
        self._run_id = run_id
        self._host = host
        self._settings = host.settings
        self._inbox = inbox
        self._outbox = outbox
        self._calls = calls
        self._supports = frozenset(supports)

    def before(
        self, tool: str, args: object, call_id: str, batch_id: str | None, usage: UsageLike | None
    ) -> tuple[Decision, Future[Verdict] | None]:
        """Decides by the standing, and publishes.

        Returns:
            The decision, and where the worker's own word is to be waited for: a future of it.
        """
        tool = fitted_call(tool)
        facts = reduce_content(tool, args, salt=self._settings.salt)
        call = OpenCall(call_id, tool, facts, _kept(args), batch_id=fitted(batch_id))
        self._host.counters.calls += 1
        match = self._inbox.match(tool, facts)
        if match is None:
            return Decision(self._run_id, call_id, tool), self._publish(call, args, usage)
        answer = self.answer(match)
        decision = self.decision(match, answer.action, call_id, tool)
        call.met = match.entry.action != "allow"
        waiting = None
        if decision.refused:
            self._refuse(call, decision, usage, args)
        else:
            waiting = self._publish(call, args, usage)
        if call.met:
            self._acknowledge(match, answer.result, call_id)
        return decision, waiting

    @property
    def patience(self) -> float:
        """Seconds to wait for a verdict; 0 where it is there already, or never will be."""
        return 0.0 if self._host.bus.synchronous else self._settings.strict_timeout

    def answered(self, decision: Decision, verdict: Verdict | None) -> Decision:
        """The worker's own word on a call that was published, or what is configured for its silence.

        Args:
            decision: By the standing.
            verdict: The final verdict; None where none came in time.
        """
        call = self._calls.get(decision.call_id)
        if verdict is None:
            self._inbox.stop_waiting(decision.call_id)
            return decision if self._host.bus.synchronous or call is None else self._unanswered(call, decision)
        if verdict.action == "allow" or call is None or decision.asked == "abort":
            return decision  # an abort that is not obeyed here says more than what is said of this call
        match = final_match(verdict, verdict.run_id, now_ms())
        answer = self.answer(match)
        judged = self.decision(match, answer.action, decision.call_id, decision.tool)
        if judged.refused:
            self._refuse(call, judged, None, call.args)
        if judged.refused or not call.met:  # a call that was told already is not told again
            call.met = True
            self._acknowledge(match, answer.result, decision.call_id)
        return judged

    def late(self, verdict: Verdict) -> None:
        """A final verdict that nobody waited for: its call ran, or runs."""
        call = self._calls.get(verdict.call_id) if verdict.call_id else None
        if call is None or call.met or call.refused or verdict.action == "allow":
            return
        call.met = True
        match = final_match(verdict, verdict.run_id, now_ms())
        if verdict.action in ("warn", "block") and self.answer(match).action != "allow":
            call.late_note = verdict.message
        self._acknowledge(match, "late", call.call_id)

    def answer(self, match: Match) -> Answer:
        """What is done about a finding."""
        return decide(
            match.entry,
            worker=match.mode,
            runner=self._settings.mode,
            policy=self._settings.policy,
            supports=self._supports,
        )

    def decision(self, match: Match, action: Action, call_id: str, tool: str) -> Decision:
        """A finding as a decision."""
        entry = match.entry
        return Decision(
            self._run_id,
            call_id,
            tool,
            action=action,
            asked=entry.action,
            message=entry.message,
            detector=entry.detector,
            scope=entry.scope,
            count=entry.count,
            verdict_id=match.verdict_id,
        )

    def _publish(self, call: OpenCall, args: object, usage: UsageLike | None) -> Future[Verdict] | None:
        wait = self._host.bus.synchronous or (self._settings.strict and self._settings.mode == "enforce")
        self._calls.add(call)
        waiting = self._inbox.call_published(call.call_id, wait=wait)
        event = ToolCall(
            run_id=self._run_id,
            tool=call.tool,
            call_id=call.call_id,
            batch_id=call.batch_id,
            usage=usage_of(usage),
            facts=call.facts,
            args=self._settings.content.publishable("args", call.tool, args),
            want_verdict=wait,
        )
        self._outbox.put(event, self._inbox.call_acknowledged)
        return waiting

    def _refuse(self, call: OpenCall, decision: Decision, usage: UsageLike | None, args: object) -> None:
        self._host.counters.refused += 1
        call.refused = True
        self._calls.add(call)
        event = CallRefused(
            run_id=self._run_id,
            tool=call.tool,
            call_id=call.call_id,
            batch_id=call.batch_id,
            usage=usage_of(usage),
            facts=call.facts,
            args=self._settings.content.publishable("args", call.tool, args),
            verdict_id=decision.verdict_id,
        )
        self._outbox.put(event)
        call.close()

    def _unanswered(self, call: OpenCall, decision: Decision) -> Decision:
        self._host.counters.unanswered += 1
        if self._settings.strict_fail == "open":
            return dataclasses.replace(decision, unanswered=True)
        refused = dataclasses.replace(
            decision, action="block", message=_UNANSWERED, detector=UNANSWERED_DETECTOR, unanswered=True
        )
        self._refuse(call, refused, None, call.args)
        return refused

    def _acknowledge(self, match: Match, result: AckResult, call_id: str) -> None:
        after = max(0, now_ms() - match.received_ms)
        self._outbox.put(
            VerdictAck(run_id=self._run_id, verdict_id=match.verdict_id, result=result, call_id=call_id, after_ms=after)
        )


def _kept(args: object) -> object:
    """Arguments as they were, for the result: the rules look at the first level only."""
    return dict(args) if type(args) is dict else args
