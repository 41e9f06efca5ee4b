"""Compactions: what a run did about its loop when its context was compacted (progress, 8)."""

from __future__ import annotations

from loopwarden.detection.progress import memory, messages
from loopwarden.detection.progress.body import CALL, MIXED, WAIT, Body, Pending
from loopwarden.detection.progress.judging import Finding
from loopwarden.detection.progress.steps import Closed, close_all
from loopwarden_schemas.progress_settings import QUARTERS, ProgressSettings

__all__ = ["compact", "watch"]


def compact(body: Body, settings: ProgressSettings) -> tuple[Finding | None, list[Closed]]:
    """Takes note of a compaction.

    Returns:
        What it showed (an abort, or a warning that was not told yet or was), and the steps that it closed.
    """
    closed = close_all(body, settings)
    body.age += 1
    body.recent = 0
    body.guard = settings.guard
    body.guard_first = b""
    body.idle += 1
    body.marks.append(body.made)
    del body.marks[: -settings.churn_compactions]
    points = body.points / QUARTERS
    if body.idle >= settings.guard:
        message = messages.idling(body.idle)
        return Finding("critical", "abort", "compaction_idle", "run", message, body.idle, 0, points), closed
    within = body.marks[-1] - body.marks[0]
    if len(body.marks) >= settings.churn_compactions and within <= settings.churn_calls:
        count = len(body.marks)
        message = messages.churning(count, within)
        return Finding("warning", "warn", "compaction_churn", "run", message, count, 0, points), closed
    return None, closed


def watch(body: Body, settings: ProgressSettings, name: str, call: Pending) -> Finding | None:
    """Shows an outcome to the guard: it stops a run whose first outcomes after a compaction are all one known triple.

    Args:
        body: The run, before the step is closed.
        settings: Parameters.
        name: Stored name of the tool.
        call: The call, ended; a wait that succeeded is not noted.
    """
    if not body.guard or (call.traits & WAIT and not call.failed):
        return None
    triple = call.call + call.outcome
    body.guard -= 1
    if not body.guard_first:
        body.guard_first = triple
    elif body.guard_first != triple:
        body.guard_first = MIXED
    if body.guard or body.guard_first == MIXED or not _was_known(body, call.call, call.outcome):
        return None
    message = messages.guarded(name, settings.guard)
    points = body.points / QUARTERS
    return Finding("critical", "abort", "compaction_loop", "run", message, settings.guard, 1, points)


def _was_known(body: Body, call: bytes, outcome: bytes) -> bool:
    """Whether memory has the triple from before the compaction."""
    place = memory.newest(body.calls, CALL, call, max(0, len(body.tools) - body.recent))
    while place >= 0:
        if memory.entry_outcome(body, place) == outcome:
            return True
        place = memory.newest(body.calls, CALL, call, place)
    return False
