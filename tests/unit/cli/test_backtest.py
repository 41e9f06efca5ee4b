from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopwarden.cli.main import main
from tests.loads.worker import looping

_DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def configs(tmp_path: Path) -> list[str]:
    documented, progress = tmp_path / "documented.yaml", tmp_path / "progress.yaml"
    documented.write_text("tools: {loopDetection: {enabled: true}}\n")
    progress.write_text("loopwarden: {profile: progress, agents: {coder: {mode: enforce}}}\n")
    return ["--with", str(documented), "--with", str(progress)]


def _report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["backtest", *arguments, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert isinstance(report, dict)
    return report


def test_the_recorded_runs_are_judged_as_the_scoreboard_says(
    configs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    report = _report(capsys, str(_DATA / "traces" / "agent-runs.jsonl"), *configs)
    assert (report["runs"], report["calls"], report["successful"]) == (224, 1750, 95)
    documented, progress = report["totals"]
    assert documented["refused"] + documented["aborted"] == 0
    assert progress["refused"] + progress["aborted"] == 51
    assert progress["successful_halted"] == 0
    assert round(progress["saved_calls"] / report["calls"], 3) == 0.106
    assert len(report["differences"]) == 51


def test_one_process_and_several_agree(configs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cases = str(_DATA / "cases" / "public-reports.json")
    one = _report(capsys, cases, *configs, "--processes", "1")
    assert one["differences"]
    assert one == _report(capsys, cases, *configs, "--processes", "3")


def test_an_event_log_with_outcomes_costs_and_runs_that_do_not_count(
    configs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looped = [*looping("looped", 30), {"run_id": "looped", "type": "run_ended", "outcome": "success"}]
    for event in looped:
        if event["type"] == "tool_call":
            event["usage"] = {"cost": 10}
    halted = [*looping("halted", 3), {"run_id": "halted", "type": "run_ended", "outcome": "aborted"}]
    cut = looping("cut", 3)[1:]
    other = looping("other", 3, agent="writer")
    path = tmp_path / "log.jsonl"
    lines = [{**event, "offset": 100 + number} for number, event in enumerate([*cut, *looped, *halted, *other])]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"type": "tool_call"}]))
    report = _report(capsys, str(path), *configs)
    assert (report["runs"], report["cut"], report["halted_live"], report["rejected"]) == (2, 1, 1, 1)
    documented = report["totals"][0]
    # Twenty equal outcomes: the 21st call would have been refused, so ten are saved.
    assert (documented["refused"], documented["successful_halted"]) == (1, 1)
    assert (documented["saved_calls"], documented["saved_cost"], report["cost"]) == (10, 100, 300)
    (difference,) = report["differences"]
    assert difference["judged"][0]["detector"] == "generic_repeat"
    assert difference["judged"][0]["at_call"] == 21
    assert _report(capsys, str(path), *configs, "--agent", "writer")["runs"] == 1


def test_the_page_opens_from_disk_and_executes_nothing(
    configs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page = tmp_path / "log.jsonl", tmp_path / "report.html"
    hostile = looping("<script>alert(1)</script>", 30, tool="<img src=x onerror=alert(1)>")
    path.write_text("".join(json.dumps(event) + "\n" for event in hostile))
    assert main(["backtest", str(path), *configs, "--html", str(page)]) == 0
    shown = page.read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script" not in shown
    assert "<img" not in shown
    assert "http" not in shown
    assert "assumed, not known" in shown
    assert "assumed, not known" in capsys.readouterr().out


def test_a_configuration_that_cannot_be_taken_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("loopwarden: {mode: loud}\n")
    assert main(["backtest", str(_DATA / "traces" / "agent-runs.jsonl"), "--with", str(bad)]) == 2
    assert "loopwarden.mode" in capsys.readouterr().err
