"""What was decided about one call, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loopwarden.errors import CallRefusedError, CompactionLoopPersisted, RunAborted
from loopwarden_schemas.verdicts import COMPACTION_LOOP_PERSISTED, Action, Scope

__all__ = ["Decision", "blocked_result"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with one call.

    Attributes:
        run_id: The run.
        call_id: The call.
        tool: Its tool.
        action: ``allow``, ``warn`` (run it, and tell the model ``note``), ``block`` (give the model
            ``blocked_result`` instead) or ``abort`` (end the run).
        asked: What the rule asked for: more than ``action`` where mode or policy weakened it.
        message: The rule's words for the model, empty where no rule matched.
        detector: The rule, where one matched.
        scope: What the rule covers, where one matched.
        count: How often, where one matched.
        verdict_id: The verdict, where there is one.
        unanswered: No verdict came in time (``strict``).
    """

    run_id: str
    call_id: str
    tool: str
    action: Action = "allow"
    asked: Action = "allow"
    message: str = ""
    detector: str | None = None
    scope: Scope | None = None
    count: int = 0
    verdict_id: str | None = None
    unanswered: bool = False

    @property
    def refused(self) -> bool:
        """Whether the call must not run."""
        return self.action in ("block", "abort")

    @property
    def aborted(self) -> bool:
        """Whether the run must end."""
        return self.action == "abort"

    @property
    def note(self) -> str | None:
        """What to tell the model beside the result of a call that runs; None for nothing."""
        return self.message if self.action == "warn" else None

    @property
    def blocked_result(self) -> dict[str, Any]:
        """What the model is given instead of a result, for a refused call."""
        return blocked_result(self.message)

    def raise_if_refused(self) -> None:
        """Raises what a refused call comes to; does nothing for one that may run.

        Raises:
            CallRefusedError: The call is refused, the run goes on.
            RunAborted: The run must end; ``CompactionLoopPersisted`` for the documented rule.
        """
        if self.action == "block":
            raise CallRefusedError(
                self.message,
                run_id=self.run_id,
                call_id=self.call_id,
                tool=self.tool,
                detector=self.detector or "",
                blocked_result=self.blocked_result,
            )
        if self.action == "abort":
            kind = CompactionLoopPersisted if self.detector == COMPACTION_LOOP_PERSISTED else RunAborted
            raise kind(
                self.message,
                run_id=self.run_id,
                detector=self.detector or "",
                scope=self.scope or "run",
                tool=self.tool or None,
                count=self.count,
                verdict_id=self.verdict_id,
            )


def blocked_result(reason: str) -> dict[str, Any]:
    """The documented blocked result (rule 6): a text with the message, and details that say who refused.

    The detectors know it again and take it for no outcome (rule 3.4), in whatever way a runner publishes it.

    Args:
        reason: For the model.
    """
    return {
        "content": [{"type": "text", "text": reason}],
        "details": {"status": "blocked", "deniedReason": "tool-loop", "reason": reason},
    }
