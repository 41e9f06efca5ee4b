"""Publishes what came back of the calls of one run, reduced to facts."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from msgspec import UNSET

from loopwarden.runner.content import cut, measure, snapshot
from loopwarden.runner.host import Host
from loopwarden.runner.judging import UsageLike
from loopwarden.runner.open_calls import OpenCall, OpenCalls
from loopwarden.runner.outbox import Outbox
from loopwarden.runner.wire import fitted, fitted_call, usage_of
from loopwarden_schemas.events import ToolResult
from loopwarden_schemas.facts import Facts, reduce_content, reduce_outcome

__all__ = ["CameBack", "Results"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CameBack:
    """What came back; see ``Run.after_call``."""

    result: object = UNSET
    error: object = UNSET
    vetoed: bool = False
    tool: str | None = None
    args: object = UNSET
    batch_id: str | None = None
    usage: UsageLike | None = None


class Results:
    """The calls of one run, after they ran.

    Args:
        run_id: The run.
        host: What all runs share.
        outbox: Its events.
        calls: Its calls.
    """

    def __init__(self, run_id: str, host: Host, *, outbox: Outbox, calls: OpenCalls) -> None:
        self._run_id = run_id
        self._host = host
        self._outbox = outbox
        self._calls = calls

    def after(self, call_id: str | None, back: CameBack) -> str | None:
        """Publishes what came back of a call, once; nothing for a refused one.

        Args:
            call_id: The call; None for one without an id.
            back: What came back.

        Returns:
            What a verdict said that came while the call ran.
        """
        call_id = fitted(call_id, 1024)
        call = self._calls.get(call_id) if call_id else None
        if call is None:
            if back.tool is None:
                log.warning("a result of a call that was not announced, and without its tool, is not published")
                return None
            # Of a call that another process published.
            call = OpenCall(call_id or "", fitted_call(back.tool), None, back.args, batch_id=fitted(back.batch_id))
        elif call.refused or call.facts is None:
            return None
        event = ToolResult(
            run_id=self._run_id,
            tool=call.tool,
            call_id=call_id,
            batch_id=call.batch_id,
            usage=usage_of(back.usage),
            vetoed=back.vetoed,
            facts=call.facts,
        )
        self._reduce_and_put(event, call.facts, call.args, back)
        call.close()
        note, call.late_note = call.late_note, None
        return note

    def _reduce_and_put(self, event: ToolResult, known: Facts | None, args: object, back: CameBack) -> None:
        """Small values right here; large ones in the thread, while later events of the run wait for them."""
        field = "result" if back.error is UNSET else "error"
        value = back.result if back.error is UNSET else back.error
        if isinstance(value, BaseException):
            value = str(value) or type(value).__name__
        large = not self._host.bus.synchronous and measure(value).large
        if large:
            value = snapshot(value)

        def reduce() -> None:
            event.facts = self._facts(event, known, args, field, cut(value))
            setattr(event, field, self._host.settings.content.publishable(field, event.tool, value))

        if large:
            self._outbox.put(event, reducing=self._host.reducer.submit(reduce))
            return
        try:
            reduce()
        except Exception as error:
            self._host.reducer.unreduced += 1
            self._host.failed("a result was published without its outcome", error)
        self._outbox.put(event)

    def _facts(self, event: ToolResult, known: Facts | None, args: object, field: str, value: object) -> Facts:
        result, error = (value, UNSET) if field == "result" else (UNSET, value)
        salt = self._host.settings.salt
        if known is None and (args is not UNSET or event.call_id is None):
            return reduce_content(event.tool, args, result, error, salt=salt)
        # Without its arguments a result belongs to the open call of its id (design: facts).
        return reduce_outcome(known or Facts(), event.tool, args, result, error, salt=salt)
