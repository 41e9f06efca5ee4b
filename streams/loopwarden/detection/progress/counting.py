"""How often: the unbroken past calls that a verdict counts (progress, 7)."""

from __future__ import annotations

from loopwarden.detection.progress.body import CALL, MISSING, SEND, Body
from loopwarden.detection.progress.memory import entry_call, entry_class, entry_outcome, entry_target, newest
from loopwarden.detection.progress.reasons import Reason

__all__ = ["unbroken"]

_BY_TOOL = frozenset([Reason.THRASH, Reason.MISSING])
_WAITS = frozenset([Reason.WAITING, Reason.PAUSED])


def unbroken(body: Body, reason: Reason, tool: int, call: bytes, target: bytes, kind: int) -> int:
    """Past calls alike that ended as the newest of them did, from the newest back to the first that did not.

    Args:
        body: The run.
        reason: The expected reason; it says which calls are alike.
        tool: Place of the call's tool.
        call: Its fingerprint.
        target: Fingerprint of its target.
        kind: Its kind.
    """
    if reason in _BY_TOOL or (reason in _WAITS and newest(body.calls, CALL, call, len(body.tools)) < 0):
        return _failures(body, tool)
    if reason is Reason.REWORDED:
        return _to_target(body, tool, target, any_success=kind == SEND)
    if reason is Reason.UNANSWERED:
        waiting = sum(1 for pending in body.pending if pending.target == target and not pending.ended)
        return waiting + _to_target(body, tool, target, any_success=False)
    return _calls(body, call)


def _failures(body: Body, tool: int) -> int:
    count, class_ = 0, b""
    for place in range(len(body.tools) - 1, -1, -1):
        if body.tools[place] != tool:
            continue
        if not body.flags[place] & MISSING or (class_ and entry_class(body, place) != class_):
            break
        class_ = entry_class(body, place)
        count += 1
    return count


def _to_target(body: Body, tool: int, target: bytes, *, any_success: bool) -> int:
    count, outcome = 0, b""
    for place in range(len(body.tools) - 1, -1, -1):
        if body.tools[place] != tool or entry_target(body, place) != target:
            continue
        # Of a send only the target counts: one receipt is as good as another.
        ended = b"sent" if any_success and not body.flags[place] & MISSING else entry_outcome(body, place)
        if outcome and ended != outcome:
            break
        outcome = ended
        count += 1
    return count


def _calls(body: Body, call: bytes) -> int:
    count, outcome = 0, b""
    for place in range(len(body.tools) - 1, -1, -1):
        if entry_call(body, place) != call:
            continue
        if outcome and entry_outcome(body, place) != outcome:
            break
        outcome = entry_outcome(body, place)
        count += 1
    return count
