"""One call, as a context manager."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import UNSET

from loopwarden.runner.decision import Decision

if TYPE_CHECKING:
    from loopwarden.runner.run import Run

__all__ = ["Call"]

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Call:
    """One call, sync and async alike: entering decides, leaving publishes what came back. Made by ``Run.call``.

    What the block raises is the call's error, and is raised on.

    Attributes:
        decision: What was decided, after entering.
        note: What to tell the model beside the result; one at most, and perhaps only known after leaving.

    Raises:
        CallRefusedError: On entering: the call must not run.
        RunAborted: On entering: the run must end.
    """

    def __init__(self, run: Run, tool: str, args: object, **options: Any) -> None:
        self._run = run
        self._tool = tool
        self._args = args
        self._options = options
        self._result: object = UNSET
        self._error: object = UNSET
        self._vetoed = False
        self._decision: Decision | None = None
        self.note: str | None = None

    @property
    def decision(self) -> Decision:
        """What was decided."""
        if self._decision is None:
            raise RuntimeError("the call is not entered yet")
        return self._decision

    def result(self, value: _T) -> _T:
        """Takes the result, and hands it back: ``return call.result(await search(query))``."""
        self._result = value
        return value

    def error(self, value: object) -> None:
        """Takes an error that is not raised: what a tool that catches its exceptions returns."""
        self._error = value

    def vetoed(self, answer: object = UNSET) -> None:
        """Somebody else, a person or a policy, refused the call.

        Args:
            answer: What the model was told.
        """
        self._vetoed = True
        self._result = answer

    def __enter__(self) -> Self:
        return self._entered(self._run.before_call(self._tool, self._args, **self._options))

    async def __aenter__(self) -> Self:
        return self._entered(await self._run.abefore_call(self._tool, self._args, **self._options))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self._error = error
        elif error is None and self._result is UNSET and self._error is UNSET and not self._vetoed:
            log.warning("a call of %s ended without call.result(...): no repeat of it will be seen", ascii(self._tool))
        note = self._run.after_call(self.decision, result=self._result, error=self._error, vetoed=self._vetoed)
        self.note = self.note or note

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _entered(self, decision: Decision) -> Self:
        self._decision = decision
        self.note = decision.note
        decision.raise_if_refused()
        return self
