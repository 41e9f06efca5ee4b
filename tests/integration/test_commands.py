"""The commands against a broker: publish, replay of a topic, tail, topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopwarden.cli.main import main
from tests.brokers.under_test import BrokerUnderTest
from tests.loads.worker import looping


class Cluster:
    """The commands, on the broker under test."""

    def __init__(self, broker: BrokerUnderTest, prefix: str) -> None:
        self._options = ["--broker", broker.bootstrap, "--topic-prefix", prefix]
        self.events = f"{prefix}agent-events"

    def __call__(self, *arguments: str, code: int = 0) -> None:
        assert main([*arguments, *self._options]) == code


@pytest.fixture
def on_cluster(broker: BrokerUnderTest, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.delenv("LOOPWARDEN_CONFIG", raising=False)
    return Cluster(broker, topic_prefix)


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    path = tmp_path / "on.yaml"
    path.write_text("tools: {loopDetection: {enabled: true}}\n")
    return str(path)


def _log(path: Path, *more: str) -> str:
    events = looping("r1", 25) + looping("r2", 12) + looping("child", 12, root="r1")
    path.write_text("\n".join([*map(json.dumps, events), *more]))
    return str(path)


def test_a_published_log_is_judged_as_the_file_is(
    on_cluster: Cluster, configuration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _log(tmp_path / "log.jsonl")
    on_cluster("topics", "create", "--partitions", "4")
    on_cluster("publish", file)
    assert "101 events published" in capsys.readouterr().out

    def judged(*arguments: str) -> list[tuple[str, str, str, int]]:
        assert main(["replay", *arguments, "--config", configuration, "--json"]) == 0
        verdicts = map(json.loads, capsys.readouterr().out.splitlines())
        return sorted((v["run_id"], v["stage"], v["action"], v.get("count", 0)) for v in verdicts)

    broker = on_cluster._options[:2]
    from_topic = judged(on_cluster.events, *broker)
    assert {run for run, *_ in from_topic} == {"r1", "r2", "child"}
    assert from_topic == judged(file)


def test_a_file_with_bad_lines_is_not_published_at_all(
    on_cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _log(tmp_path / "log.jsonl", '{"type":"tool_call","run_id":"r9","tool":5}', "{}")
    on_cluster("topics", "create")
    on_cluster("publish", file, code=2)
    error = capsys.readouterr().err
    assert f"{file}:102: tool: " in error
    assert "got 5" in error
    assert "nothing was published" in error
    on_cluster("publish", file, "--skip-bad")
    assert "101 events published" in capsys.readouterr().out


def test_topics_are_checked(on_cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    on_cluster("topics", "check", code=3)
    assert "missing" in capsys.readouterr().out
    on_cluster("topics", "create", "--partitions", "2")
    on_cluster("topics", "check", "--partitions", "2")
    assert "missing" not in capsys.readouterr().out
    on_cluster("topics", "check", "--partitions", "3", code=3)
    assert "has 2 partitions, 3 are needed" in capsys.readouterr().err


def test_a_missing_topic_and_a_missing_broker_are_one_line(
    on_cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    on_cluster("tail", code=3)
    assert capsys.readouterr().err.startswith("error: ")
    assert main(["tail", "--broker", "127.0.0.1:1"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"]


def test_top_shows_the_busiest_runs_with_streak_and_verdicts(
    on_cluster: Cluster, configuration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_cluster("topics", "create", "--partitions", "4")
    path = tmp_path / "log.jsonl"
    ended = [*looping("over", 30), {"run_id": "over", "type": "run_ended"}]
    hostile = looping("\x1b[2J", 3, tool="t")
    events = [*looping("r1", 25), *looping("r2", 12), *ended, *hostile]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    on_cluster("publish", str(path))
    capsys.readouterr()
    on_cluster("top", "--once", "--config", configuration)
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    first, _, *runs = shown.splitlines()
    assert first.startswith(f"3 live runs, {len(events)} events")
    assert [line.split()[0] for line in runs if line] == ["r1", "r2", "\\x1b[2J"]
    # Calls, streak, verdicts, the last of them. From the twentieth on the calls were critical: no outcome counts.
    assert runs[0].split()[2:4] == ["25", "20"]
    # Nobody obeyed, so the run was aborted in the end.
    assert runs[0].split()[5:] == ["ABORTED", "generic_repeat"]
    assert runs[1].split()[2:4] == ["12", "12"]
