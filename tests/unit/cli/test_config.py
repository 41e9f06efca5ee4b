from __future__ import annotations

import json
from pathlib import Path

import pytest

from loopwarden.cli.main import main

_FILE = """
// JSON5
{
  tools: { loopDetection: { enabled: true, warningThreshold: 25 } },
  agents: { list: [{ id: "coder", tools: { loopDetection: { historySize: 50 } } }] },
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "openclaw.json"
    path.write_text(_FILE)
    return str(path)


def test_every_agent_and_every_raised_threshold_is_shown(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", file, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["off"] is False
    assert document["agents"]["coder"]["documented"]["history_size"] == 50
    assert document["agents"]["(every other agent)"]["documented"]["history_size"] == 30
    assert {"agent": None, "field": "criticalThreshold", "old": 20, "new": 26} in document["raised"]


def test_for_people_old_and_new_values_are_named(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", file]) == 0
    shown = capsys.readouterr().out
    assert "criticalThreshold 20 → 26" in shown
    assert "\ncoder\n" in shown
    assert "documented.history_size          50" in shown


def test_one_agent(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "check", file, "--agent", "coder", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["agents"]) == ["coder"]


def test_mistakes_name_file_path_and_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("tools: {loopDetection: {enabled: maybe, historysize: 3}}\nloopwarden: {mode: loud}\n")
    assert main(["config", "check", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.startswith(f"error: {path}: ") for line in lines)
    assert any("tools.loopDetection.enabled" in line and "maybe" in line for line in lines)
    assert any("loopwarden.mode" in line and "loud" in line for line in lines)


def test_an_empty_configuration_says_that_it_is_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.json"
    path.write_text("{}")
    assert main(["config", "check", str(path)]) == 0
    assert "OFF" in capsys.readouterr().out
