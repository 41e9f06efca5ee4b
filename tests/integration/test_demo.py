"""``demo``, ``up`` and ``worker`` as a user starts them: real processes, the embedded broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from urllib.request import urlopen

import pytest

from loopwarden.broker.embedded import EmbeddedBroker
from loopwarden.cli.main import main
from loopwarden.runner import LoopWarden
from loopwarden.simulation import Play, play, synthetic_scripts
from loopwarden.worker_child import WorkerChild
from tests.loads.worker import looping

_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("LOOPWARDEN_")}
_COMMAND = [sys.executable, "-m", "loopwarden.cli"]


@pytest.mark.integration
def test_the_demo_halts_the_loops_and_nothing_else() -> None:
    done = subprocess.run([*_COMMAND, "demo"], capture_output=True, text=True, timeout=110, env=_ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = done.stdout
    assert re.search(r"after-compaction +call +\d+: run aborted by compaction_loop_persisted", shown)
    for run in ("poller", "ping-pong", "unknown-tool"):
        assert re.search(rf"{run} +call +\d+: (call refused|run aborted) by ", shown)
    unharmed = re.search(r"unharmed  (\d+) of the (\d+) runs", shown)
    assert unharmed is not None
    assert unharmed[1] == unharmed[2]
    assert re.search(r"p50 \d+ ms, p99 \d+ ms", shown)


@pytest.fixture
def up() -> Iterator[str]:
    """``loopwarden up``; its broker's address."""
    with subprocess.Popen(
        [*_COMMAND, "up", "--partitions", "2"], stdout=subprocess.PIPE, text=True, env=_ENVIRONMENT
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "Ctrl-C" in line:
                    break
            assert "Ctrl-C" in lines[-1], lines
            yield lines[0].split()[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


@pytest.mark.integration
def test_up_judges_what_is_published(up: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in looping("r1", 25)))
    assert main(["publish", str(file), "--broker", up]) == 0
    capsys.readouterr()

    def told() -> str:
        assert main(["tail", "--broker", up, "--no-follow", "--level", "critical", "--json"]) == 0
        return capsys.readouterr().out

    deadline = time.monotonic() + 30
    while "generic_repeat" not in (live := told()) and time.monotonic() < deadline:
        time.sleep(0.2)
    while (more := told()) != live and time.monotonic() < deadline:
        live = more
    # The configuration comes from the workers' log: none is named here.
    assert main(["replay", "agent-events", "--broker", up, "--json"]) == 0
    replayed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    critical = [verdict for verdict in replayed if verdict["level"] == "critical"]
    assert critical
    assert [json.loads(line) for line in live.splitlines()] == critical


def _eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return held


@pytest.mark.integration
def test_a_run_that_was_aborted_and_ended_is_explained(up: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = next(script for script in synthetic_scripts() if script.run_id == "after-compaction")

    async def played() -> Play:
        async with LoopWarden(up) as warden:
            return await play(warden, script, lambda *_: None)

    assert asyncio.run(played()).state == "aborted"
    capsys.readouterr()
    assert main(["explain", "after-compaction", "--broker", up, "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert (view["state"], view["retained"], view["agent_id"]) == ("ended", True, "researcher")
    assert {item["tool"] for item in view["ring"]} == {"search"}
    assert len(view["ring"]) == view["calls"] >= 8
    (aborted,) = [
        verdict for verdict in view["verdicts"] if verdict["stage"] == "final" and verdict["action"] == "abort"
    ]
    assert aborted["detector"] == "compaction_loop_persisted"
    assert aborted["same_configuration"]
    assert aborted["evidence"]
    assert [deed["what"] for deed in view["deeds"]][-1] == "aborted"
    assert main(["explain", "after-compaction", "--broker", up]) == 0
    shown = capsys.readouterr().out
    assert "it ended" in shown
    assert "After the context was compacted, the first 3 results were all of the same call" in shown
    assert main(["release", "after-compaction", "--broker", up]) == 2
    assert main(["explain", "nobody", "--broker", up]) == 2


@pytest.mark.integration
def test_a_released_run_may_call_again_and_a_child_is_found_by_its_own_id(
    up: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"query": "x"}
    with LoopWarden(up, agent_id="researcher") as warden:
        run = warden.run("child", parent="root")
        for _ in range(22):
            decision = run.before_call("search", arguments)
            if decision.refused:
                break
            run.after_call(decision, result="nothing")
            time.sleep(0.1)
        assert decision.refused
        assert warden.flush()
        assert main(["release", "child", "--broker", up, "--reason", "false alarm", "--by", "ops"]) == 0
        assert _eventually(lambda: not run.before_call("search", arguments).refused)
    capsys.readouterr()
    assert main(["explain", "child", "--broker", up, "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["state"] == "open"
    assert view["root_run_id"] == "root"
    assert "ops false alarm" in [deed["what"] for deed in view["deeds"] if deed["kind"] == "run_released"]


@pytest.mark.integration
def test_the_page_knows_a_run_that_has_ended(tmp_path: Path) -> None:
    events = [*looping("gone", 25), {"run_id": "gone", "type": "run_ended", "outcome": "failure"}]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    with EmbeddedBroker() as broker:
        config = files("loopwarden").joinpath("data", "on.yaml")
        with WorkerChild(broker.bootstrap, config=str(config), partitions=2, session_timeout_s=2) as worker:
            worker.wait_ready()
            assert main(["publish", str(file), "--broker", broker.bootstrap]) == 0

            def answered() -> bool:
                with contextlib.suppress(OSError), urlopen(f"{worker.url}/api/run/gone", timeout=10) as answer:
                    view = json.load(answer)
                    return view["state"] == "ended" and any(v["level"] == "critical" for v in view["verdicts"])
                return False

            assert _eventually(answered)


@pytest.mark.integration
def test_a_worker_comes_back_to_what_it_left_on_the_embedded_broker(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in looping("r1", 25)))
    config = str(files("loopwarden").joinpath("data", "on.yaml"))
    with EmbeddedBroker() as broker:
        for start in range(2):
            with WorkerChild(broker.bootstrap, config=config, partitions=2, session_timeout_s=2) as worker:
                worker.wait_ready()
                if start == 0:
                    # Many records in one batch: that is where this broker's word for the end of the log is wrong.
                    assert main(["publish", str(file), "--broker", broker.bootstrap]) == 0

                    def folded(url: str = worker.url) -> bool:
                        with contextlib.suppress(OSError), urlopen(f"{url}/api/fleet", timeout=10) as answer:
                            return bool(json.load(answer)["runs"])
                        return False

                    assert _eventually(folded)
