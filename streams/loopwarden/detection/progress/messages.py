"""What the model is told: one plain sentence, with the numbers in it (progress, 7 and 8).

While a call is refused its run's points stand still, so the sentence stays the same from one attempt to the next.
"""

from __future__ import annotations

from loopwarden.detection.progress.body import Body
from loopwarden.detection.progress.reasons import WORDS
from loopwarden_schemas.progress_settings import QUARTERS

__all__ = [
    "abort_name",
    "churning",
    "failing",
    "guarded",
    "heedless",
    "idling",
    "lapped",
    "missing",
    "no_news",
    "refused_tool",
    "repeated",
    "reworded",
    "stale",
    "times",
    "unanswered",
    "waiting",
]

_ABORT_NAME_BYTES = 40


def times(count: int) -> str:
    """How often, in words."""
    return f"{count} time" if count == 1 else f"{count} times"


def nothing_new(body: Body) -> str:
    """What the steps since the last news were."""
    tally = body.tally
    told = ", ".join([f"{tally[reason]} {word}" for reason, word in WORDS if tally[reason]]) if tally else ""
    return f"nothing new in the last {sum(tally)} steps ({told})"


def missing(tool: str, count: int) -> str:
    """A tool that does not exist."""
    return f"the tool {tool} does not exist and was called {times(count)}; answer without it"


def failing(body: Body, tool: str, count: int) -> str:
    """The same failure with other arguments."""
    said = f"{tool} failed the same way {times(count)}, with other arguments"
    return f"{said}; {nothing_new(body)}" if body.tally else said


def reworded(tool: str, count: int) -> str:
    """The same target in other words."""
    return f"{tool} went to the same target {times(count)} in other words and brought the same answer"


def waiting(tool: str, count: int) -> str:
    """An answer that does not change."""
    return f"{tool} was asked {times(count)} and the answer never changed; wait longer between tries or give up"


def unanswered(tool: str, count: int) -> str:
    """Calls whose results nobody recorded."""
    return f"{tool} was called {times(count)} like this and no result was recorded"


def repeated(body: Body, tool: str, laps: int, *, failed: bool) -> str:
    """One call in a row."""
    ended = "failed the same way" if failed else "gave the same answer"
    return f"the same {tool} call ran {times(laps)} in a row and {ended} every time{_beyond(body, laps)}"


def lapped(body: Body, tools: list[str], laps: int) -> str:
    """Several calls in turn."""
    period = len(tools)
    said = f"the same {period}-call lap ({', '.join(tools)}) ran {times(laps)} with the same results"
    return said + _beyond(body, period * laps)


def _beyond(body: Body, steps: int) -> str:
    return f"; {nothing_new(body)}" if sum(body.tally) > steps else ""


def stale(body: Body, tool: str, count: int, points: int) -> str:
    """A known call, in no order."""
    why = nothing_new(body)
    if sum(body.tally) < 2:
        why = f"too little was new before ({points / QUARTERS:g} points)"
    return f"the same {tool} call already had the same outcome {times(count)}; {why}"


def refused_tool(tool: str, count: int) -> str:
    """The whole tool is refused."""
    return (
        f"{tool} was refused {times(count)} and nothing new came since: the whole tool is refused until another call "
        "brings news"
    )


def heedless(count: int) -> str:
    """Refusals change nothing: the run is stopped."""
    return f"{count} refused calls and nothing new since: the run does not heed the refusals"


def no_news(tool: str, compactions: int) -> str:
    """Compactions change nothing: the run is stopped."""
    return f"{compactions} compactions passed without one new result; the run still repeats {abort_name(tool)}"


def guarded(tool: str, count: int) -> str:
    """A compaction changed nothing: the run is stopped."""
    return (
        f"after a compaction the run did the same {abort_name(tool)} call {times(count)} with the result it had "
        "before: the compaction did not break the loop"
    )


def idling(compactions: int) -> str:
    """Compactions without work: the run is stopped."""
    return f"{compactions} compactions in a row with no tool call in between"


def churning(compactions: int, calls: int) -> str:
    """Compactions with little work."""
    return f"{compactions} compactions within {calls} calls: the context fills faster than work gets done"


def abort_name(tool: str) -> str:
    """A tool's name as it is kept with an abort: a row has room for no long one."""
    raw = tool.encode("utf-8", "surrogatepass")
    return tool if len(raw) <= _ABORT_NAME_BYTES else raw[: _ABORT_NAME_BYTES - 1].decode("utf-8", "ignore") + "…"
