"""A run: what an agent's loop touches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection
from types import TracebackType
from typing import Self

from msgspec import UNSET

from loopwarden.errors import RunAborted
from loopwarden.runner.call import Call
from loopwarden.runner.decision import Decision
from loopwarden.runner.host import Host
from loopwarden.runner.inbox import Inbox
from loopwarden.runner.judging import Judging, UsageLike
from loopwarden.runner.open_calls import OpenCalls
from loopwarden.runner.outbox import Outbox
from loopwarden.runner.policy import ALL_ACTIONS
from loopwarden.runner.results import CameBack, Results
from loopwarden.runner.wire import fitted
from loopwarden_schemas.events import Compaction, RunEnded, RunStarted
from loopwarden_schemas.verdicts import Action, Verdict

__all__ = ["Run"]


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
        host: Host,
        started: RunStarted,
        *,
        supports: Collection[Action] = ALL_ACTIONS,
        forget: Callable[[Run], None],
    ) -> None:
        self._host = host
        self._started = started
        self._forget = forget
        self.id = started.run_id
        self.agent_id = started.agent_id
        self.parent_run_id = started.parent_run_id
        self.root_run_id = started.root_run_id
        self.session_id = started.session_id
        self.key = started.key
        self.ended = False
        self._calls = OpenCalls()
        self._inbox = Inbox(self.key, host.families)
        self._outbox = Outbox(
            agent_id=self.agent_id,
            parent_run_id=self.parent_run_id,
            root_run_id=self.root_run_id,
            session_id=self.session_id,
            new_event_id=host.new_id,
            publish=host.publish,
        )
        self._judging = Judging(
            self.id, host, inbox=self._inbox, outbox=self._outbox, calls=self._calls, supports=supports
        )
        self._results = Results(self.id, host, outbox=self._outbox, calls=self._calls)

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
            decision, waiting = self._judging.before(tool, args, call_id, batch_id, usage)
            if waiting is None:
                return decision
            verdict: Verdict | None = None
            with contextlib.suppress(TimeoutError):
                verdict = waiting.result(self._judging.patience)
            return self._judging.answered(decision, verdict)
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
            decision, waiting = self._judging.before(tool, args, call_id, batch_id, usage)
            if waiting is None:
                return decision
            verdict: Verdict | None = None
            if waiting.done():
                verdict = waiting.result()
            elif self._judging.patience:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._judging.patience):
                        verdict = await asyncio.wrap_future(waiting)
            return self._judging.answered(decision, verdict)
        except Exception as error:
            return self._failed_open(tool, call_id, error)
        finally:
            self._inbox.stop_waiting(call_id)  # also where the agent's task was cancelled meanwhile

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
            if isinstance(call, Decision):
                tool = call.tool
                call = call.call_id
            back = CameBack(result, error, vetoed, tool, args, batch_id, usage)
            return self._results.after(call, back)
        except Exception as failure:
            self._host.failed("a result was not published", failure)
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
        self._forget(self)

    def check(self) -> None:
        """Raises if the run was aborted: for the place between two model calls, where no tool is called.

        Raises:
            RunAborted: It was; ``CompactionLoopPersisted`` for the documented rule.
        """
        match = self._inbox.abort()
        if match is not None and self._judging.answer(match).action == "abort":
            self._judging.decision(match, "abort", "", "").raise_if_refused()

    @property
    def aborted(self) -> bool:
        """Whether a verdict that this runner obeys has ended the run."""
        match = self._inbox.abort()
        return match is not None and self._judging.answer(match).action == "abort"

    def context(self) -> dict[str, str]:
        """What a child needs to belong to this run's family, in any process: ``warden.run(**context)``."""
        return {"parent": self.id, "root": self.root_run_id or self.id}

    # For the warden.

    def _call_id(self, call_id: str | None) -> str:
        return fitted(call_id, 1024) or self._host.new_id()

    def _failed_open(self, tool: str, call_id: str, error: Exception) -> Decision:
        self._host.failed("a call was let through unjudged", error)
        return Decision(self.id, call_id, tool)

    def _deliver(self, verdict: Verdict) -> None:
        """Takes a verdict on this run, from the bus's thread."""
        if self._inbox.take(verdict):
            self._judging.late(verdict)

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
