"""A run's standing as its runner has it: what would happen to the calls that may come next. Pure.

A forecast carries the complete standing and replaces the one before. Publishing another call drops what was said of
single calls and targets: they hold only if they were forecast *after* the last published call, by the offsets of the
log (design: verdicts ahead of the call). What covers a tool, the run or the family stays until the next forecast.
"""

from __future__ import annotations

from typing import NamedTuple

from loopwarden_schemas.facts import Facts, signature
from loopwarden_schemas.fingerprint import stored_name
from loopwarden_schemas.verdicts import Mode, StandingEntry, Verdict

__all__ = ["Match", "Standing", "final_match"]

_NARROW = frozenset(["call", "target"])
_WIDTH = {"call": 0, "target": 1, "tool": 2, "run": 3, "root": 4}
_WHOLE = frozenset(["run", "root"])


class Match(NamedTuple):
    """What is said of a call.

    Attributes:
        entry: The entry of the standing.
        verdict_id: The verdict that it came with.
        mode: Mode of that verdict.
        received_ms: When it came, epoch milliseconds.
    """

    entry: StandingEntry
    verdict_id: str
    mode: Mode
    received_ms: int


class Standing:
    """The standing of one run. Not thread-safe: its owner holds a lock."""

    __slots__ = ("_abort", "_call_offset", "_forecast", "_forecast_offset", "_received_ms", "_unacknowledged")

    def __init__(self) -> None:
        self._forecast: Verdict | None = None
        self._forecast_offset = -1
        self._received_ms = 0
        self._abort: tuple[int, Match] | None = None
        self._call_offset = -1
        self._unacknowledged = 0

    # What the runner does.

    def call_published(self) -> None:
        """A call was handed over: until its offset is known, nothing said of single calls holds."""
        self._unacknowledged += 1
        if self._abort is not None and self._abort[1].mode == "observe":
            self._abort = None  # it ended nothing, and was told once

    def call_acknowledged(self, offset: int | None) -> None:
        """A call that was handed over stands in the log.

        Args:
            offset: Where; None for one that was dropped.
        """
        self._unacknowledged -= 1
        if offset is None:
            return
        if offset < self._call_offset:
            # Offsets of a partition only grow: the topic was made anew, and what was known belongs to the old one.
            self._forecast, self._forecast_offset, self._abort = None, -1, None
        self._call_offset = offset

    # What the worker says.

    def take(self, verdict: Verdict, now_ms: int) -> None:
        """Takes a verdict on this run; of a final one only an abort of the run concerns the standing.

        Args:
            verdict: The verdict.
            now_ms: Epoch milliseconds.
        """
        offset = verdict.cause.offset
        if offset < self._forecast_offset:
            return
        if verdict.stage == "forecast":
            self._forecast, self._forecast_offset, self._received_ms = verdict, offset, now_ms
            if self._abort is not None and offset > self._abort[0] and self._abort[1].mode == "enforce":
                self._abort = None  # a complete standing: it repeats the abort, or the run was released
        elif verdict.action == "abort" and (verdict.scope != "root" or verdict.mode == "observe"):
            self._abort = (offset, final_match(verdict, verdict.run_id, now_ms))

    # What comes of it.

    def match(self, tool: str, facts: Facts) -> Match | None:
        """What is said of a call: an abort of run or family, else the narrowest entry.

        An abort holds for every call until the run has ended or is released, whatever else is said of single calls.

        Args:
            tool: Exact tool name.
            facts: What the arguments come to.
        """
        if (abort := self.abort()) is not None:
            return abort
        forecast = self._forecast
        if forecast is None or not forecast.standing:
            return None
        narrow = self._unacknowledged == 0 and self._forecast_offset > self._call_offset
        keys: dict[str, str | None] | None = None
        best: StandingEntry | None = None
        for entry in forecast.standing:
            if entry.scope in _NARROW and not narrow:
                continue
            if entry.scope not in _WHOLE:  # a standing is of one run, so these cover all its calls
                keys = keys or _keys(forecast.profile, tool, facts)
                if keys[entry.scope] != entry.key:
                    continue
            if best is None or _WIDTH[entry.scope] < _WIDTH[best.scope]:
                best = entry
        return None if best is None else Match(best, forecast.id, forecast.mode, self._received_ms)

    def abort(self) -> Match | None:
        """What ended the run, if something did."""
        if self._abort is not None:
            return self._abort[1]
        forecast = self._forecast
        if forecast is None:
            return None
        for entry in forecast.standing or ():
            if entry.action == "abort" and entry.scope in _WHOLE:
                return Match(entry, forecast.id, forecast.mode, self._received_ms)
        return None


def final_match(verdict: Verdict, key: str, now_ms: int) -> Match:
    """A final verdict in the form of an entry of the standing.

    Args:
        verdict: The verdict.
        key: Key of the entry.
        now_ms: Epoch milliseconds.
    """
    entry = StandingEntry(
        scope=verdict.scope,
        key=key,
        level=verdict.level,
        action=verdict.action,
        detector=verdict.detector or "",
        message=verdict.message or "",
        count=verdict.count or 0,
    )
    return Match(entry, verdict.id, verdict.mode, now_ms)


def _keys(profile: str, tool: str, facts: Facts) -> dict[str, str | None]:
    """What a call is known by, per scope."""
    call = facts.call
    if profile == "documented":
        call = signature(tool, facts.args_fp).hex() if facts.args_fp else None
    return {"call": call, "target": facts.target, "tool": stored_name(tool)}
