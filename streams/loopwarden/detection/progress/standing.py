"""What would happen to the calls that may come next (design: verdicts ahead of the call).

The calls of the last five steps are judged as if they came now. So are, for each of their tools and of the tools that
were refused, a call that the run never made, and for each of their targets a call in other words: what that comes to
stands under the tool and the target. A known call that comes off better than its tool or target is exempted.
"""

from __future__ import annotations

import msgspec

from loopwarden.detection.progress import memory
from loopwarden.detection.progress.body import BATCHED, FIRST, KIND, MISSING, TRAITS, WAIT, Body, Pending
from loopwarden.detection.progress.judging import Finding, is_quiet, judge
from loopwarden.detection.progress.steps import close_batch
from loopwarden_schemas.progress_settings import ProgressSettings
from loopwarden_schemas.verdicts import Scope, StandingEntry

__all__ = ["standing"]

STEPS = 5
_NEVER_MADE = b"\xff" * 8
"""Stands for a call that is not in memory."""


def standing(body: Body, settings: ProgressSettings, time: int) -> list[StandingEntry]:
    """The standing of a run. A warning that was told already is left out.

    Args:
        body: The run; not changed.
        settings: Parameters.
        time: When the next call is taken to come, epoch milliseconds.
    """
    if not body.batch and is_quiet(body, settings):
        return []
    body = _with_batch_closed(body, settings)
    if is_quiet(body, settings):
        return []
    return _Standing(body, settings, time).entries()


def _with_batch_closed(body: Body, settings: ProgressSettings) -> Body:
    """The run as the next decision finds it: a batch that is answered in full counts as closed."""
    if not body.batch or any(call.traits & BATCHED and not call.ended for call in body.pending):
        return body
    body = msgspec.structs.replace(body, tally=list(body.tally))
    close_batch(body, settings)
    return body


class _Standing:
    def __init__(self, body: Body, settings: ProgressSettings, time: int) -> None:
        self.body, self.settings, self.time = body, settings, time
        self.tools: dict[int, Finding | None] = {}
        self.targets: dict[bytes, Finding | None] = {}
        self.found: list[StandingEntry] = []

    def entries(self) -> list[StandingEntry]:
        """The entries: tools, targets, calls."""
        calls = self._coming()
        for tool in self.body.refused_tools:
            self._add_tool(tool)
        for call in calls:
            if call.tool not in self.tools:
                self._add_tool(call.tool)
            wider = self.tools[call.tool]
            if call.target != call.call:
                if call.target not in self.targets:
                    self._add_target(call, wider)
                wider = self.targets[call.target] or wider
            self._add("call", call.call, self._judge(call), wider)
        return self.found

    def _coming(self) -> list[Pending]:
        """The calls of the last steps, as if they came again, newest first."""
        body, steps = self.body, STEPS
        calls: dict[bytes, Pending] = {}
        for place in range(len(body.flags) - 1, -1, -1):
            call, flags = memory.entry_call(body, place), body.flags[place]
            if call not in calls:
                traits = flags >> TRAITS & (KIND | WAIT)
                target = memory.entry_target(body, place)
                calls[call] = Pending(call, target, body.tools[place], traits, b"", self.time)
            if flags & FIRST:
                steps -= 1
                if not steps:
                    break
        return list(calls.values())

    def _judge(self, call: Pending) -> Finding | None:
        name = self.body.names.get(call.tool)
        # A tool that is known by its key alone cannot be named to a runner.
        return None if name is None else judge(self.body, self.settings, name, call, untold=True)

    def _add_tool(self, tool: int) -> None:
        """A call of the tool that the run never made: nothing, unless its last one failed or it was refused."""
        newest = memory.newest_of_tool(self.body, tool)
        finding = None
        if tool in self.body.refused_tools or (newest >= 0 and self.body.flags[newest] & MISSING):
            finding = self._judge(Pending(_NEVER_MADE, _NEVER_MADE, tool, 0, b"", self.time))
        self.tools[tool] = finding
        if finding is not None:
            self.found.append(_entry("tool", self.body.names[tool], finding))

    def _add_target(self, call: Pending, wider: Finding | None) -> None:
        """A call to the same target in words that the run never used."""
        finding = self._judge(Pending(_NEVER_MADE, call.target, call.tool, call.traits, b"", self.time))
        self.targets[call.target] = finding
        self._add("target", call.target, finding, wider)

    def _add(self, scope: Scope, key: bytes, finding: Finding | None, wider: Finding | None) -> None:
        if finding is not None:
            self.found.append(_entry(scope, key.hex(), finding))
        elif wider is not None:
            # What comes off better than its tool or target is exempted.
            self.found.append(
                StandingEntry(scope=scope, key=key.hex(), level="none", action="allow", detector=wider.rule, message="")
            )


def _entry(scope: Scope, key: str, finding: Finding) -> StandingEntry:
    return StandingEntry(
        scope=scope,
        key=key,
        level=finding.level,
        action=finding.action,
        detector=finding.rule,
        message=finding.message,
        count=finding.count,
    )
