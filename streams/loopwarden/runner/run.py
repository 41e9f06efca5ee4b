"""A run: what an agent's loop touches."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from msgspec import UNSET

from loopwarden.errors import RunAborted
from loopwarden.runner.call import Call
from loopwarden.runner.content import cut, measure, snapshot
from loopwarden.runner.decision import Decision
from loopwarden.runner.inbox import Inbox
from loopwarden.runner.open_calls import OpenCall, OpenCalls
from loopwarden.runner.outbox import Outbox, now_ms
from loopwarden.runner.policy import ALL_ACTIONS, Answer, decide
from loopwarden.runner.standing import Match, final_match
from loopwarden.runner.wire import fitted, fitted_call, usage_of
from loopwarden_schemas.events import (
    AckResult,
    CallRefused,
    Compaction,
    RunEnded,
    RunStarted,
    ToolCall,
    ToolResult,
    Usage,
    VerdictAck,
)
from loopwarden_schemas.facts import Facts, reduce_content, reduce_outcome
from loopwarden_schemas.verdicts import Action, Verdict

if TYPE_CHECKING:
    from loopwarden.runner.warden import LoopWarden

__all__ = ["Run"]

log = logging.getLogger(__name__)

UNANSWERED_DETECTOR = "strict_timeout"
"""Stands for the rule where a call is refused because nobody judged it in time (``strict_fail="closed"``)."""
_UNANSWERED = "The loop detector did not answer in time, and calls that it has not seen are not run here."
_Waiting = concurrent.futures.Future[Verdict]
UsageLike = Usage | Mapping[str, int]


class Run:
    """One run of an agent. Thread-safe; calls may overlap.

    Made by ``LoopWarden.run``. As a context manager, sync and async, it ends the run: ``success``, or ``aborted``,
    ``cancelled`` or ``failure`` by what was raised. Of its methods only ``check`` and the entering of a ``call`` raise.

    Attributes:
        id: The run's id.
        agent_id: The agent.
        parent_run_id: The run that started it.
        root_run_id: The run at the top of its family, None for a run without a parent.
        session_id: The session.
        key: Message key of its events and verdicts.
        ended: It is over.
    """

    def __init__(
        self,
        warden: LoopWarden,
        started: RunStarted,
        *,
        supports: Collection[Action] = ALL_ACTIONS,
    ) -> None:
        self._warden = warden
        self._settings = warden.settings
        self._started = started
        self._supports = frozenset(supports)
        self.id = started.run_id
        self.agent_id = started.agent_id
        self.parent_run_id = started.parent_run_id
        self.root_run_id = started.root_run_id
        self.session_id = started.session_id
        self.key = started.key
        self.ended = False
        self._calls = OpenCalls()
        self._inbox = Inbox(self.key, warden._families)
        self._outbox = Outbox(
            self.id,
            agent_id=self.agent_id,
            parent_run_id=self.parent_run_id,
            root_run_id=self.root_run_id,
            session_id=self.session_id,
            new_event_id=warden._new_id,
            publish=warden._publish,
        )

    # The three lines.

    def call(
        self,
        tool: str,
        args: object = UNSET,
        *,
        call_id: str | None = None,
        batch_id: str | None = None,
        usage: UsageLike | None = None,
    ) -> Call:
        """A call, as a context manager: ``async with run.call(tool, args) as call: call.result(await …)``.

        Args:
            tool: Exact tool name.
            args: Its arguments, any JSON value.
            call_id: The model's id of the call; one is made up where there is none.
            batch_id: Id of the model response that asked for it: parallel calls share it.
            usage: What the model used since the last call that said so: ``tokens_in``, ``tokens_out``, ``cost``.
        """
        return Call(self, tool, args, call_id=call_id, batch_id=batch_id, usage=usage)

    # The same, step by step.

    def before_call(
        self,
        tool: str,
        args: object = UNSET,
        *,
        call_id: str | None = None,
        batch_id: str | None = None,
        usage: UsageLike | None = None,
    ) -> Decision:
        """Decides about a call that is about to run, and publishes it. Never raises.

        Takes microseconds; with ``strict`` it waits for the worker's verdict, up to the bound.

        Args:
            tool: Exact tool name.
            args: Its arguments, any JSON value.
            call_id: The model's id of the call.
            batch_id: Id of the model response.
            usage: What the model used.
        """
        call_id = self._call_id(call_id)
        try:
            decision, waiting = self._before(tool, args, call_id, batch_id, usage)
            if waiting is None:
                return decision
            verdict: Verdict | None = None
            with contextlib.suppress(TimeoutError):
                verdict = waiting.result(self._patience)
            return self._answered(decision, verdict)
        except Exception as error:
            return self._failed_open(tool, call_id, error)

    async def abefore_call(
        self,
        tool: str,
        args: object = UNSET,
        *,
        call_id: str | None = None,
        batch_id: str | None = None,
        usage: UsageLike | None = None,
    ) -> Decision:
        """``before_call`` for async code: with ``strict`` it waits without blocking the event loop."""
        call_id = self._call_id(call_id)
        try:
            decision, waiting = self._before(tool, args, call_id, batch_id, usage)
            if waiting is None:
                return decision
            verdict: Verdict | None = None
            if waiting.done():
                verdict = waiting.result()
            elif self._patience:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._patience):
                        verdict = await asyncio.wrap_future(waiting)
            return self._answered(decision, verdict)
        except Exception as error:
            return self._failed_open(tool, call_id, error)

    def after_call(
        self,
        call: Decision | str | None,
        *,
        result: object = UNSET,
        error: object = UNSET,
        vetoed: bool = False,
        tool: str | None = None,
        args: object = UNSET,
        batch_id: str | None = None,
        usage: UsageLike | None = None,
    ) -> str | None:
        """Publishes what came back of a call. Never raises, never blocks: large results are reduced in a thread.

        Args:
            call: The call's decision or its id. What comes back of a refused call is not published.
            result: Result, any JSON value.
            error: Error; wins over a result. An exception is taken by its text.
            vetoed: Somebody else, a person or a policy, refused the call.
            tool: Its tool, for a call that this object has not seen (a process that started again).
            args: Its arguments, likewise.
            batch_id: Id of the model response, likewise.
            usage: What the model used.

        Returns:
            A note for the model, where a verdict on this call came only while it ran.
        """
        try:
            return self._after(call, result, error, vetoed, tool, args, batch_id, usage)
        except Exception as failure:
            self._warden._failed("a result was not published", failure)
            return None

    def compacted(
        self, *, retry: bool = True, tokens_before: int | None = None, tokens_after: int | None = None
    ) -> None:
        """The context was compacted. Never raises.

        Args:
            retry: The run goes on with the compacted context: arms the guard.
            tokens_before: Size of the context before, in tokens.
            tokens_after: Size after.
        """
        if self.ended:
            return
        event = Compaction(run_id=self.id, retry=bool(retry))
        event.tokens_before = tokens_before if isinstance(tokens_before, int) and tokens_before >= 0 else None
        event.tokens_after = tokens_after if isinstance(tokens_after, int) and tokens_after >= 0 else None
        self._outbox.put(event)

    def end(self, outcome: str = "success") -> None:
        """The run is over. Never raises; ending it again does nothing.

        Args:
            outcome: ``success``, ``failure``, ``aborted``, ``cancelled``, or a word of your own.
        """
        if self.ended:
            return
        self.ended = True
        self._outbox.put(RunEnded(run_id=self.id, outcome=fitted(outcome)))
        self._warden._forget(self)

    def check(self) -> None:
        """Raises if the run was aborted: for the place between two model calls, where no tool is called.

        Raises:
            RunAborted: It was; ``CompactionLoopPersisted`` for the documented rule.
        """
        match = self._inbox.abort()
        if match is not None and self._act(match).action == "abort":
            self._decision(match, "abort", "", "").raise_if_refused()

    @property
    def aborted(self) -> bool:
        """Whether a verdict that this runner obeys has ended the run."""
        match = self._inbox.abort()
        return match is not None and self._act(match).action == "abort"

    def context(self) -> dict[str, str]:
        """What a child needs to belong to this run's family, in any process: ``warden.run(**context)``."""
        return {"parent": self.id, "root": self.root_run_id or self.id}

    # Before a call.

    def _before(
        self, tool: str, args: object, call_id: str, batch_id: str | None, usage: UsageLike | None
    ) -> tuple[Decision, _Waiting | None]:
        """Decides by the standing, and publishes. A future where the worker's own word is to be waited for."""
        tool = fitted_call(tool)
        facts = reduce_content(tool, args, salt=self._settings.salt)
        call = OpenCall(call_id, tool, facts, _kept(args), batch_id=fitted(batch_id))
        self._warden._counters.calls += 1
        match = self._inbox.match(tool, facts)
        answer: Answer | None = None
        if match is None:
            decision = Decision(self.id, call_id, tool)
        else:
            answer = self._act(match)
            decision = self._decision(match, answer.action, call_id, tool)
            call.met = match.entry.action != "allow"
        content = self._settings.content.publishable("args", tool, args)
        waiting: _Waiting | None = None
        if decision.refused:
            self._refuse(call, decision, usage)
        else:
            synchronous = self._warden._bus.synchronous
            wait = synchronous or (self._settings.strict and self._settings.mode == "enforce")
            self._calls.add(call)
            waiting = self._inbox.call_published(call_id, wait=wait)
            event = ToolCall(
                run_id=self.id,
                tool=tool,
                call_id=call_id,
                batch_id=call.batch_id,
                usage=usage_of(usage),
                facts=facts,
                args=content,
                want_verdict=wait,
            )
            self._outbox.put(event, self._inbox.call_acknowledged)
        if match is not None and answer is not None and call.met:
            self._acknowledge(match.verdict_id, answer.result, call_id, match.received_ms)
        return decision, waiting

    @property
    def _patience(self) -> float:
        """Seconds to wait for a verdict: none where it is there already, or never will be."""
        return 0.0 if self._warden._bus.synchronous else self._settings.strict_timeout

    def _answered(self, decision: Decision, verdict: Verdict | None) -> Decision:
        """The worker's own word on a call that was published, or what is configured for its silence."""
        call = self._calls.get(decision.call_id)
        if verdict is None:
            self._inbox.stop_waiting(decision.call_id)
            if self._warden._bus.synchronous or call is None:
                return decision
            self._warden._counters.unanswered += 1
            if self._settings.strict_fail == "open":
                return dataclasses.replace(decision, unanswered=True)
            refused = dataclasses.replace(
                decision, action="block", message=_UNANSWERED, detector=UNANSWERED_DETECTOR, unanswered=True
            )
            self._refuse(call, refused, None)
            return refused
        if verdict.action == "allow" or call is None or decision.asked == "abort":
            return decision  # an abort that is not obeyed here says more than what is said of this call
        match = final_match(verdict, verdict.run_id, now_ms())
        answer = self._act(match)
        judged = self._decision(match, answer.action, decision.call_id, decision.tool)
        if judged.refused:
            self._refuse(call, judged, None)
        if judged.refused or not call.met:  # a call that was told already is not told again
            call.met = True
            self._acknowledge(match.verdict_id, answer.result, decision.call_id, match.received_ms)
        return judged

    def _act(self, match: Match) -> Answer:
        return decide(
            match.entry,
            worker=match.mode,
            runner=self._settings.mode,
            policy=self._settings.policy,
            supports=self._supports,
        )

    def _decision(self, match: Match, action: Action, call_id: str, tool: str) -> Decision:
        entry = match.entry
        return Decision(
            self.id,
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

    def _refuse(self, call: OpenCall, decision: Decision, usage: UsageLike | None) -> None:
        self._warden._counters.refused += 1
        call.refused = True
        self._calls.add(call)
        self._outbox.put(
            CallRefused(
                run_id=self.id,
                tool=call.tool,
                call_id=call.call_id,
                batch_id=call.batch_id,
                usage=usage_of(usage),
                facts=call.facts,
                args=self._settings.content.publishable("args", call.tool, call.args),
                verdict_id=decision.verdict_id,
            )
        )
        call.close()

    def _call_id(self, call_id: str | None) -> str:
        return fitted(call_id, 1024) or self._warden._new_id()

    def _failed_open(self, tool: str, call_id: str, error: Exception) -> Decision:
        self._warden._failed("a call was let through unjudged", error)
        return Decision(self.id, call_id, str(tool))

    # After a call.

    def _after(
        self,
        handle: Decision | str | None,
        result: object,
        error: object,
        vetoed: bool,
        tool: str | None,
        args: object,
        batch_id: str | None,
        usage: UsageLike | None,
    ) -> str | None:
        if isinstance(handle, Decision):
            tool = handle.tool
        call_id = fitted(handle.call_id if isinstance(handle, Decision) else handle, 1024)
        call = self._calls.get(call_id) if call_id else None
        if call is None:
            if tool is None:
                log.warning("a result of a call that was not announced, and without its tool, is not published")
                return None
            call = OpenCall(call_id or "", fitted_call(tool), None, args, batch_id=fitted(batch_id))
        elif call.refused or call.facts is None:
            return None
        event = ToolResult(
            run_id=self.id,
            tool=call.tool,
            call_id=call_id,
            batch_id=call.batch_id,
            usage=usage_of(usage),
            vetoed=vetoed,
            facts=call.facts,
        )
        note, call.late_note = call.late_note, None
        value = result if error is UNSET else error
        if isinstance(value, BaseException):
            value = str(value) or type(value).__name__
        field = "result" if error is UNSET else "error"
        large = measure(value).large and not self._warden._bus.synchronous
        if large:
            value = snapshot(value)
        known, call_args, call_tool = call.facts, call.args, call.tool

        def reduce() -> None:
            event.facts = self._reduced(call_tool, call_args, known, field, cut(value), call_id is not None)
            setattr(event, field, self._settings.content.publishable(field, call_tool, value))

        call.close()
        if not large:
            try:
                reduce()
            except Exception as failure:
                self._warden._reducer.unreduced += 1
                self._warden._failed("a result was published without its outcome", failure)
            self._outbox.put(event)
        else:
            self._outbox.put(event, reducing=self._warden._reducer.submit(reduce))
        return note

    def _reduced(self, tool: str, args: object, known: Facts | None, field: str, value: object, has_id: bool) -> Facts:
        result, error = (value, UNSET) if field == "result" else (UNSET, value)
        if known is None and (args is not UNSET or not has_id):
            return reduce_content(tool, args, result, error, salt=self._settings.salt)
        # Without its arguments a result belongs to the open call of its id (design: facts).
        return reduce_outcome(known or Facts(), tool, args, result, error, salt=self._settings.salt)

    # Verdicts.

    def _deliver(self, verdict: Verdict) -> None:
        """Takes a verdict on this run, from the bus's thread."""
        if not self._inbox.take(verdict) or verdict.call_id is None or verdict.action == "allow":
            return
        call = self._calls.get(verdict.call_id)
        if call is None or call.met or call.refused:
            return
        call.met = True
        match = final_match(verdict, verdict.run_id, now_ms())
        if verdict.action in ("warn", "block") and self._act(match).action != "allow":
            call.late_note = verdict.message
        self._acknowledge(verdict.id, "late", verdict.call_id, match.received_ms)

    def _acknowledge(self, verdict_id: str, result: AckResult, call_id: str, received_ms: int) -> None:
        after = max(0, now_ms() - received_ms)
        self._outbox.put(
            VerdictAck(run_id=self.id, verdict_id=verdict_id, result=result, call_id=call_id, after_ms=after)
        )

    # Beginning, forking, ending.

    def _announce(self) -> None:
        """Publishes that the run begins, or that its process does again: a known run's standing is sent."""
        started = self._started
        self._outbox.put(
            RunStarted(run_id=self.id, framework=started.framework, version=started.version, model=started.model)
        )

    def _after_fork(self) -> None:
        self._calls.after_fork()
        self._inbox.after_fork()
        self._outbox.after_fork()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.end("success")
        elif isinstance(error, RunAborted):
            self.end("aborted")
        else:
            self.end("failure" if isinstance(error, Exception) else "cancelled")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _kept(args: object) -> object:
    """Arguments as they were, for the result: the rules look at the first level only."""
    return dict(args) if type(args) is dict else args
