"""A run's verdicts on their way in: each taken once, kept as standing, handed to whoever waits for one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future

from loopwarden.runner.families import Families
from loopwarden.runner.outbox import now_ms
from loopwarden.runner.standing import Match, Standing
from loopwarden_schemas.facts import Facts
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Inbox"]

SEEN = 512
"""Verdict ids that are known again; a replaying worker sends what it had sent."""


class Inbox:
    """What is said of one run. Thread-safe; never calls out while it holds its lock.

    Args:
        key: Message key of the run.
        families: Aborts of whole families.
    """

    def __init__(self, key: str, families: Families) -> None:
        self._key = key
        self._families = families
        self._lock = threading.Lock()
        self._standing = Standing()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._waiting: dict[str, Future[Verdict]] = {}

    def take(self, verdict: Verdict) -> bool:
        """Takes a verdict.

        Returns:
            Whether nobody waited for it: a new final verdict that a call may have missed.
        """
        with self._lock:
            if verdict.shadow is not None or verdict.id in self._seen:
                return False
            self._seen[verdict.id] = None
            if len(self._seen) > SEEN:
                self._seen.popitem(last=False)
            self._standing.take(verdict, now_ms())
            if verdict.stage != "final" or verdict.call_id is None:
                return False
            waiting = self._waiting.pop(verdict.call_id, None)
        if waiting is None:
            return True
        waiting.set_result(verdict)
        return False

    def match(self, tool: str, facts: Facts) -> Match | None:
        """What is said of a call that is about to run."""
        family = self._families.abort(self._key)
        if family is not None:
            return family
        with self._lock:
            return self._standing.match(tool, facts)

    def abort(self) -> Match | None:
        """What ended the run, if something did."""
        family = self._families.abort(self._key)
        if family is not None:
            return family
        with self._lock:
            return self._standing.abort()

    def call_published(self, call_id: str, *, wait: bool) -> Future[Verdict] | None:
        """A call is about to be handed over.

        Args:
            call_id: The call.
            wait: Whether somebody will wait for its verdict.
        """
        with self._lock:
            self._standing.call_published()
            if not wait:
                return None
            waiting = self._waiting[call_id] = Future()
            waiting.set_running_or_notify_cancel()  # who gives up waiting must not cancel what is being set
            return waiting

    def call_acknowledged(self, offset: int | None) -> None:
        """A call stands in the log; None for one that was dropped."""
        with self._lock:
            self._standing.call_acknowledged(offset)

    def stop_waiting(self, call_id: str) -> None:
        """Nobody waits for the verdict on this call any more."""
        with self._lock:
            self._waiting.pop(call_id, None)

    def after_fork(self) -> None:
        """In a child process: whoever held the lock is not here."""
        self._lock = threading.Lock()
        self._waiting.clear()
