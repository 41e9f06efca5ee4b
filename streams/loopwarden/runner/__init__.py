"""For agent runners: publish what an agent does, follow the verdicts on it, decide before each call.

    warden = LoopWarden("kafka:9092", agent_id="researcher")
    with warden.run() as run:
        with run.call("search", {"q": "loops"}) as call:
            answer = call.result(search("loops"))

The same objects serve async code (``async with``). Nothing here holds an agent up longer than its stated bound, and
nothing but ``CallRefusedError`` and ``RunAborted`` is ever raised into it.
"""

from __future__ import annotations

from loopwarden.errors import CallRefusedError, CompactionLoopPersisted, RunAborted
from loopwarden.runner.call import Call
from loopwarden.runner.content import Content
from loopwarden.runner.decision import Decision, blocked_result
from loopwarden.runner.policy import Policy
from loopwarden.runner.run import Run
from loopwarden.runner.stats import RunnerStats
from loopwarden.runner.warden import LoopWarden
from loopwarden_schemas.verdicts import StandingEntry

__all__ = [
    "Call",
    "CallRefusedError",
    "CompactionLoopPersisted",
    "Content",
    "Decision",
    "LoopWarden",
    "Policy",
    "Run",
    "RunAborted",
    "RunnerStats",
    "StandingEntry",
    "blocked_result",
]
