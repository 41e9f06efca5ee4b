"""Aborts of whole families: a verdict of scope root stops every run under that root, in whatever process."""

from __future__ import annotations

import threading
from typing import NamedTuple

from loopwarden.runner.outbox import now_ms
from loopwarden.runner.standing import Match, final_match
from loopwarden_schemas.verdicts import StandingEntry, Verdict

__all__ = ["Families"]


class _Held(NamedTuple):
    run_id: str
    offset: int
    match: Match


class Families:
    """The aborts that hold, by message key: a family shares its root run's id as key, and so one order of verdicts."""

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    def take(self, key: str, verdict: Verdict) -> None:
        """Takes any verdict of the family: the abort itself, a standing that repeats it, or one that no longer does.

        Args:
            key: Message key of the verdict.
            verdict: The verdict.
        """
        if verdict.mode != "enforce":
            return
        offset = verdict.cause.offset
        if verdict.stage == "final":
            if verdict.action == "abort" and verdict.scope == "root":
                with self._lock:
                    self._held[key] = _Held(verdict.run_id, offset, final_match(verdict, key, now_ms()))
            return
        entry = _root_abort(verdict)
        with self._lock:
            held = self._held.get(key)
            if entry is not None:
                if held is None:
                    match = Match(entry, verdict.id, verdict.mode, now_ms())
                    self._held[key] = _Held(verdict.run_id, offset, match)
            elif held is not None and verdict.run_id == held.run_id and offset > held.offset:
                del self._held[key]  # the run that raised it was released

    def abort(self, key: str) -> Match | None:
        """The abort that holds for a key."""
        held = self._held.get(key)
        return None if held is None else held.match

    def forget(self, key: str) -> None:
        """No run of the family is left in this process."""
        with self._lock:
            self._held.pop(key, None)

    def after_fork(self) -> None:
        """In a child process: whoever held the lock is not here."""
        self._lock = threading.Lock()


def _root_abort(verdict: Verdict) -> StandingEntry | None:
    for entry in verdict.standing or ():
        if entry.scope == "root" and entry.action == "abort":
            return entry
    return None
