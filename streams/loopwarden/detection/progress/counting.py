"""How often: the unbroken past calls that a verdict counts (progress, 7)."""

from __future__ import annotations

from loopwarden.detection.progress.body import CALL, CLASS, KIND, MISSING, SEND, Body, Pending
from loopwarden.detection.progress.memory import entry_outcome, newest
from loopwarden.detection.progress.reasons import Reason

__all__ = ["unbroken"]


def unbroken(body: Body, reason: Reason, call: Pending) -> int:
    """Past calls alike that ended as the newest of them did, from the newest back to the first that did not.

    Args:
        body: The run.
        reason: The expected reason; it says which calls are alike.
        call: The call.
    """
    if reason is Reason.THRASH or reason is Reason.MISSING:
        return _failures(body, call.tool)
    waits = reason is Reason.WAITING or reason is Reason.PAUSED
    if waits and newest(body.calls, CALL, call.call, len(body.tools)) < 0:
        return _failures(body, call.tool)
    if reason is Reason.REWORDED:
        return _to_target(body, call, any_success=call.traits & KIND == SEND)
    if reason is Reason.UNANSWERED:
        waiting = sum(1 for pending in body.pending if pending.target == call.target and not pending.ended)
        return waiting + _to_target(body, call, any_success=False)
    return _calls(body, call.call)


def _failures(body: Body, tool: int) -> int:
    tools, flags, classes = body.tools, body.flags, body.classes
    count, class_ = 0, b""
    for place in range(len(tools) - 1, -1, -1):
        if tools[place] != tool:
            continue
        this = classes[place * CLASS : place * CLASS + CLASS]
        if not flags[place] & MISSING or (count and this != class_):
            break
        class_ = this
        count += 1
    return count


def _to_target(body: Body, call: Pending, *, any_success: bool) -> int:
    place = newest(body.targets, CALL, call.target, len(body.tools))
    count, outcome = 0, b""
    while place >= 0:
        if body.tools[place] == call.tool:
            # Of a send only the target counts: one receipt is as good as another.
            ended = b"sent" if any_success and not body.flags[place] & MISSING else entry_outcome(body, place)
            if count and ended != outcome:
                break
            outcome = ended
            count += 1
        place = newest(body.targets, CALL, call.target, place)
    return count


def _calls(body: Body, call: bytes) -> int:
    place = newest(body.calls, CALL, call, len(body.tools))
    count, outcome = 0, entry_outcome(body, place)
    while place >= 0 and entry_outcome(body, place) == outcome:
        count += 1
        place = newest(body.calls, CALL, call, place)
    return count
