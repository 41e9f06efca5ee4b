"""Judges a call before it runs: how will it end, and what would that cost? (progress, 7)."""

from __future__ import annotations

from msgspec import Struct

from loopwarden.detection.progress import messages
from loopwarden.detection.progress.body import CALL, CLASS, MISSING, OUTCOME, Body, Pending
from loopwarden.detection.progress.counting import unbroken
from loopwarden.detection.progress.laps import Lap, lap
from loopwarden.detection.progress.memory import entry_outcome, newest, newest_of_tool
from loopwarden.detection.progress.prices import NEWS, Price, price
from loopwarden.detection.progress.reasons import LAST_NEUTRAL, Reason
from loopwarden_schemas.progress_settings import QUARTERS, ProgressSettings
from loopwarden_schemas.verdicts import Action, Level, Scope

__all__ = ["GROUPS", "Finding", "is_quiet", "judge"]

GROUPS = {
    "repeat": 1,
    "lap": 1,
    "stale": 1,
    "failing": 2,
    "missing_tool": 2,
    "waiting": 4,
    "unanswered": 4,
    "reworded": 8,
    "compaction_churn": 16,
}
"""A warning is emitted once per group until the points are zero again; a bit each in ``Body.told``."""
_GROUP_OF = tuple(
    {
        Reason.REPEAT: 1,
        Reason.FAILED: 1,
        Reason.REWRITTEN: 1,
        Reason.THRASH: 2,
        Reason.MISSING: 2,
        Reason.WAITING: 4,
        Reason.PAUSED: 4,
        Reason.UNANSWERED: 4,
        Reason.REWORDED: 8,
    }.get(reason, 0)
    for reason in Reason
)
_SAME_CALL = tuple(
    reason is Reason.RE_READ or (reason > LAST_NEUTRAL and reason is not Reason.THRASH) for reason in Reason
)
"""Reasons that show a known call or target again: compactions without news, and still the same."""
_IN_LAPS = tuple(reason not in (Reason.MISSING, Reason.THRASH, Reason.REWORDED, Reason.UNANSWERED) for reason in Reason)


class Finding(Struct, frozen=True):
    """A loop.

    Attributes:
        level: warning or critical.
        action: warn, block or abort.
        rule: The rule.
        scope: What the action covers.
        message: For the model.
        count: How often.
        period: Steps a lap, 0 for none.
        points: What the run had with this call, in points.
        tools: Tools of a lap, in order.
    """

    level: Level
    action: Action
    rule: str
    scope: Scope
    message: str
    count: int
    period: int
    points: float
    tools: list[str] | None = None

    def is_told(self, told: int) -> bool:
        """Whether a warning of this group was emitted since the points were zero; never true of anything worse."""
        return self.level == "warning" and bool(told & GROUPS[self.rule])


def is_quiet(body: Body, settings: ProgressSettings) -> bool:
    """Whether no check can apply, whatever a call costs: nearly always."""
    return (
        not body.refused
        and body.points + settings.dearest < settings.warning
        and body.age - body.news_age < settings.guard
    )


def judge(body: Body, settings: ProgressSettings, name: str, call: Pending, *, untold: bool = False) -> Finding | None:
    """Judges a call. Changes nothing.

    Args:
        body: The run; the call is not in it.
        settings: Parameters.
        name: Stored name of its tool.
        call: The call; how it ends is not looked at.
        untold: Leave out a warning whose group was told already.
    """
    if is_quiet(body, settings):
        return None
    like, (points, reason) = _expect(body, settings, call)
    total = body.points + points
    barren = body.age - body.news_age
    if barren >= settings.guard and _SAME_CALL[reason]:
        return _stop("compaction_no_news", messages.no_news(name, barren), barren, total)
    if body.refused:
        refused = body.refused_tools.get(call.tool, 0)
        if body.refused >= settings.abort_after and (points or refused):
            return _stop("refused", messages.heedless(body.refused), body.refused, total)
        if refused >= settings.widen_after:
            message = messages.refused_tool(name, settings.widen_after)
            return Finding("critical", "block", "refused", "tool", message, refused, 1, total / QUARTERS)
    if total < settings.warning or reason <= LAST_NEUTRAL:
        return None
    limit = settings.most if reason is Reason.PAUSED else settings.critical
    if total >= limit:
        return _worded(body, "critical", name, call, like, reason, total)
    if untold and body.told & _GROUP_OF[reason]:
        return None
    return _worded(body, "warning", name, call, like, reason, total)


def _stop(rule: str, message: str, count: int, total: int) -> Finding:
    return Finding("critical", "abort", rule, "run", message, count, 1, total / QUARTERS)


def _expect(body: Body, settings: ProgressSettings, call: Pending) -> tuple[int, Price]:
    """The entry that a call is expected to end like, and what that would cost; -1 and news for none."""
    tools = body.tools
    like = newest(body.calls, CALL, call.call, len(tools))
    while like >= 0 and tools[like] != call.tool:
        like = newest(body.calls, CALL, call.call, like)
    if like >= 0:
        if _was_new(body, call.call, like):
            return -1, NEWS
    else:
        if call.target != call.call:
            like = newest(body.targets, CALL, call.target, len(tools))
            while like >= 0 and tools[like] != call.tool:
                like = newest(body.targets, CALL, call.target, like)
        if like < 0:
            like = newest_of_tool(body, call.tool)
            if like < 0 or not body.flags[like] & MISSING:
                return -1, NEWS
    ended = Pending(
        call.call,
        call.target,
        call.tool,
        call.traits,
        call.call_id,
        call.time,
        True,
        body.outcomes[like * OUTCOME : like * OUTCOME + OUTCOME],
        body.classes[like * CLASS : like * CLASS + CLASS],
        body.flags[like] & MISSING,
    )
    return like, price(body, settings, ended)


def _was_new(body: Body, call: bytes, last: int) -> bool:
    """Whether the last outcome of a call was one that it had not had: it may bring news again."""
    outcome = entry_outcome(body, last)
    earlier = newest(body.calls, CALL, call, last)
    if earlier < 0:
        return False
    while earlier >= 0:
        if entry_outcome(body, earlier) == outcome:
            return False
        earlier = newest(body.calls, CALL, call, earlier)
    return True


def _worded(
    body: Body,
    level: Level,
    name: str,
    call: Pending,
    like: int,
    reason: Reason,
    total: int,
) -> Finding:
    found: Lap | None = lap(body, call.call) if _IN_LAPS[reason] else None
    waits = reason is Reason.WAITING or reason is Reason.PAUSED
    scope: Scope = "call"
    period, tools = 1, None
    if found is not None and not waits:
        count, period = found.laps, found.period
        if period == 1:
            rule = "repeat"
            message = messages.repeated(body, name, count, failed=bool(body.flags[like] & MISSING))
        else:
            rule = "lap"
            tools = [body.names.get(body.tools[place], "another tool") for place in found.places]
            message = messages.lapped(body, tools, count)
    else:
        count = unbroken(body, reason, call)
        if waits:
            rule, message = "waiting", messages.waiting(name, count)
            period = found.period if found is not None else 1
        elif reason is Reason.MISSING:
            rule, scope, message = "missing_tool", "tool", messages.missing(name, count)
        elif reason is Reason.THRASH:
            rule, scope, message = "failing", "tool", messages.failing(body, name, count)
        elif reason is Reason.REWORDED:
            rule, scope, message = "reworded", "target", messages.reworded(name, count)
        elif reason is Reason.UNANSWERED:
            rule, message = "unanswered", messages.unanswered(name, count)
        else:
            rule, message = "stale", messages.stale(body, name, count, total)
            period = 0
    action: Action = "block" if level == "critical" else "warn"
    return Finding(level, action, rule, scope, message, count, period, total / QUARTERS, tools)
