"""What would happen to the calls that may come next (design: verdicts ahead of the call).

The calls of the last five steps are judged as if they came now. So are, for each of their tools and of the tools that
were refused, a call that the run never made, and for each of their targets a call in other words: what that comes to
stands under the tool and the target. A known call that comes off better than its tool or target is exempted.
"""

from __future__ import annotations

import msgspec

from loopwarden.detection.progress import memory
from loopwarden.detection.progress.body import BATCHED, KIND, TRAITS, WAIT, Body
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

    def entries(self) -> list[StandingEntry]:
        """The entries: tools, targets, calls."""
        body = self.body
        calls: dict[bytes, tuple[int, bytes, int]] = {}
        for place in range(len(body.tools) - 1, memory.last_steps(body, STEPS) - 1, -1):
            traits = body.flags[place] >> TRAITS & (KIND | WAIT)
            calls.setdefault(
                memory.entry_call(body, place), (body.tools[place], memory.entry_target(body, place), traits)
            )
        for tool in [*body.refused_tools, *(tool for tool, _, _ in calls.values())]:
            if tool not in self.tools:
                self.tools[tool] = self._judge(tool, _NEVER_MADE, _NEVER_MADE, 0)
        for call, (tool, target, traits) in calls.items():
            if target != call and target not in self.targets:
                self.targets[target] = self._judge(tool, _NEVER_MADE, target, traits)
        found: list[StandingEntry] = []
        for tool, finding in self.tools.items():
            if finding is not None:
                found.append(_entry("tool", body.names[tool], finding))
        tool_of = {target: tool for tool, target, _ in calls.values()}
        for target, finding in self.targets.items():
            found += self._narrow("target", target, finding, self.tools[tool_of[target]])
        for call, (tool, target, traits) in calls.items():
            finding = self._judge(tool, call, target, traits)
            wider = (self.targets.get(target) if target != call else None) or self.tools[tool]
            found += self._narrow("call", call, finding, wider)
        return found

    def _judge(self, tool: int, call: bytes, target: bytes, traits: int) -> Finding | None:
        name = self.body.names.get(tool)
        if name is None:
            return None  # a tool that is known by its key alone cannot be named to a runner
        finding = judge(
            self.body,
            self.settings,
            name=name,
            tool=tool,
            call=call,
            target=target,
            traits=traits,
            time=self.time,
        )
        return None if finding is None or finding.is_told(self.body.told) else finding

    @staticmethod
    def _narrow(scope: Scope, key: bytes, finding: Finding | None, wider: Finding | None) -> list[StandingEntry]:
        if finding is not None:
            return [_entry(scope, key.hex(), finding)]
        if wider is None:
            return []
        return [
            StandingEntry(scope=scope, key=key.hex(), level="none", action="allow", detector=wider.rule, message="")
        ]


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
