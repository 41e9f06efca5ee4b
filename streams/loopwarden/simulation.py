"""Runs that are played: a scripted agent, with a runner that obeys.

The agent stands for a model that does not notice its loop: it makes the script's calls one after the other, whatever
comes back. The runner is the real library: a call that is refused does not run, a run that is aborted ends.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from loopwarden.errors import CallRefusedError, RunAborted
from loopwarden.runner import LoopWarden, Run

__all__ = ["Outcome", "Play", "Script", "Step", "play", "recorded_scripts", "synthetic_scripts"]

Expected = Literal["aborted", "refused", "untouched"]
RECORDED_AGENT = "recorded"
"""Agent of the recorded runs: its configuration is one of its own."""
THINKING_S = 0.15
"""How long a model thinks before a call: short for a model, so that a demo does not take long."""
_RUNNING_S = 0.03


class Step(NamedTuple):
    """One step of a script.

    Attributes:
        tool: The tool; empty for a compaction of the context.
        args: Arguments.
        result: What comes back; None where ``error`` does.
        error: Error.
    """

    tool: str
    args: Any = None
    result: Any = None
    error: Any = None


@dataclass(frozen=True)
class Script:
    """A run to be played.

    Attributes:
        run_id: Its id.
        agent_id: Its agent.
        steps: What it does.
        origin: Where it is from, in a word or two.
        outcome: How it ends if it is let.
        expected: What must become of it; None where anything may.
        patience: Refused calls after which the agent gives up.
    """

    run_id: str
    agent_id: str
    steps: Sequence[Step]
    origin: str
    outcome: str = "success"
    expected: Expected | None = None
    patience: int = 3


@dataclass
class Play:
    """A run as it is played.

    Attributes:
        script: Its script.
        calls: Calls attempted so far, refused ones included.
        refused: Calls refused.
        warned: Calls that ran with a note for the model.
        detector: The rule that halted it, empty while none did.
        state: ``running``, ``refused`` (it goes on), ``aborted``, ``gave up`` or ``done``.
    """

    script: Script
    calls: int = 0
    refused: int = 0
    warned: int = 0
    detector: str = ""
    state: str = "waiting"

    @property
    def outcome(self) -> Expected:
        """What became of it."""
        return "aborted" if self.state == "aborted" else "refused" if self.refused else "untouched"

    @property
    def as_expected(self) -> bool:
        """Whether what must become of it did.

        On a slow machine a run may be aborted that was to be refused: verdicts then come after the calls that they are
        on, and the worker takes the runner for one that ignores them.
        """
        if self.script.expected == "refused":
            return self.outcome != "untouched"
        return self.script.expected in (None, self.outcome)


Outcome = Callable[[Play, str], None]
"""Told of what happens to a run: the play, and in words."""


@dataclass
class _Pace:
    speed: float
    turn: int = field(default=0)

    async def think(self) -> None:
        await asyncio.sleep(THINKING_S / self.speed)

    async def run(self) -> None:
        await asyncio.sleep(_RUNNING_S / self.speed)


async def play(warden: LoopWarden, script: Script, told: Outcome, *, speed: float = 1.0) -> Play:
    """Plays a run to its end.

    Args:
        warden: The runner library.
        script: The run.
        told: Told of what happens.
        speed: 2 is twice as fast.
    """
    played = Play(script)
    pace = _Pace(speed)
    run = warden.run(script.run_id, agent_id=script.agent_id, framework="loopwarden-demo")
    played.state = "running"
    told(played, "started")
    try:
        await _play(run, script, played, pace, told)
    except RunAborted as error:
        played.state, played.detector = "aborted", error.detector
        run.end("aborted")
        told(played, "aborted")
        return played
    played.state = "gave up" if played.refused >= script.patience else "done"
    run.end("failure" if played.state == "gave up" else script.outcome)
    told(played, "ended")
    return played


async def _play(run: Run, script: Script, played: Play, pace: _Pace, told: Outcome) -> None:
    for step in script.steps:
        await pace.think()
        run.check()
        if not step.tool:
            run.compacted(retry=True)
            told(played, "compacted")
            continue
        played.calls += 1
        try:
            async with run.call(step.tool, step.args) as call:
                if call.note:
                    played.warned += 1
                    told(played, "warned")
                await pace.run()
                if step.error is not None:
                    call.error(step.error)
                else:
                    call.result(step.result)
        except CallRefusedError as error:
            played.refused += 1
            played.detector = error.detector
            played.state = "refused"
            told(played, "refused")
            if played.refused >= script.patience:
                return


def synthetic_scripts() -> list[Script]:
    """A poller, a ping-pong, a loop that a compaction does not break, an unknown tool; and one that works."""
    waiting = {"status": "running", "exitCode": None, "output": ""}
    poll = Step("process", {"action": "poll", "sessionId": "build-7"}, waiting)
    ping = Step("read_file", {"path": "config.toml"}, "timeout = 30")
    pong = Step("run_tests", {"target": "unit"}, "1 failed: test_timeout")
    search = Step("search", {"query": "release notes"}, "no results")
    missing = Step("web_browse", {"url": "https://example.org"}, error="Tool web_browse not found")
    steps = [Step("read_file", {"path": f"src/module_{i}.py"}, f"def f{i}(): ...") for i in range(24)]
    return [
        Script("poller", "builder", [poll] * 40, "synthetic", expected="refused"),
        Script("ping-pong", "coder", [ping, pong] * 20, "synthetic", expected="refused"),
        Script(
            "after-compaction", "researcher", [*[search] * 6, Step(""), *[search] * 12], "synthetic", expected="aborted"
        ),
        Script("unknown-tool", "assistant", [missing] * 30, "synthetic", expected="refused"),
        Script("healthy", "coder", steps, "synthetic", expected="untouched"),
    ]


def recorded_scripts() -> list[Script]:
    """Recorded runs of real agents, shipped with the package (``data/README.md`` has their origin).

    Those that succeeded must be left alone.
    """
    packed = files("loopwarden").joinpath("data", "recorded-runs.jsonl.gz").read_bytes()
    scripts = []
    for number, line in enumerate(gzip.decompress(packed).splitlines(), 1):
        trace = json.loads(line)
        success = trace["outcome"] == "success"
        steps = [
            Step(event["tool"], event["params"], event.get("result"), event.get("error")) for event in trace["events"]
        ]
        scripts.append(
            Script(
                f"recorded-{number:02}",
                RECORDED_AGENT,
                steps,
                trace["source"].split()[0].split("/")[-1],
                outcome="success" if success else "failure",
                expected="untouched" if success else None,
            )
        )
    return scripts
