"""Calls of a run that are under way, and the last ones that came back."""

from __future__ import annotations

import threading
from collections import OrderedDict

from msgspec import UNSET

from loopwarden_schemas.facts import Facts

__all__ = ["OpenCall", "OpenCalls"]

REMEMBERED = 1024
"""Calls of one run that are known again; a verdict may still meet one that came back."""


class OpenCall:
    """One call.

    Attributes:
        call_id: Its id.
        tool: Its tool.
        facts: What its arguments come to; None once it is closed.
        args: Its arguments, until it is closed: some rules about results look at them.
        batch_id: The model response that asked for it.
        met: A verdict met it, and was acknowledged.
        refused: It did not run.
        late_note: What a verdict said that came while it ran.
    """

    __slots__ = ("args", "batch_id", "call_id", "facts", "late_note", "met", "refused", "tool")

    def __init__(self, call_id: str, tool: str, facts: Facts | None, args: object, *, batch_id: str | None) -> None:
        self.call_id = call_id
        self.tool = tool
        self.facts = facts
        self.args = args
        self.batch_id = batch_id
        self.met = False
        self.refused = False
        self.late_note: str | None = None

    def close(self) -> None:
        """It came back, or will not run: what it held is let go."""
        self.facts = None
        self.args = UNSET


class OpenCalls:
    """The calls of one run. Thread-safe."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, OpenCall] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, call: OpenCall) -> None:
        """Remembers a call; the oldest one goes when there are many."""
        with self._lock:
            self._calls[call.call_id] = call
            self._calls.move_to_end(call.call_id)
            if len(self._calls) > REMEMBERED:
                self._calls.popitem(last=False)

    def get(self, call_id: str) -> OpenCall | None:
        """A call by its id."""
        with self._lock:
            return self._calls.get(call_id)

    def after_fork(self) -> None:
        """In a child process: whoever held the lock is not here."""
        self._lock = threading.Lock()
