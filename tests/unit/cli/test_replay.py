from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from loopwarden.cli.main import main
from tests.loads.worker import looping


@pytest.fixture
def on(tmp_path: Path) -> str:
    path = tmp_path / "on.yaml"
    path.write_text("tools: {loopDetection: {enabled: true}}\n")
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in looping("r1", 25)))
    return path


def test_a_loop_in_a_file_is_found(log: Path, on: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(log), "--config", on, "--json"]) == 0
    captured = capsys.readouterr()
    verdicts = [json.loads(line) for line in captured.out.splitlines()]
    finals = [(v["action"], v["detector"]) for v in verdicts if v["stage"] == "final"]
    assert ("warn", "generic_repeat") in finals
    assert ("block", "generic_repeat") in finals
    assert captured.err.startswith("51 events, 0 rejected; ")


def test_without_a_configuration_it_says_loudly_that_nothing_is_judged(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOOPWARDEN_CONFIG", raising=False)
    assert main(["replay", str(log)]) == 0
    captured = capsys.readouterr()
    assert "OFF" in captured.err
    assert captured.out == ""


def test_out_holds_what_json_prints(log: Path, on: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "verdicts.jsonl"
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(log.read_bytes()))
    assert main(["replay", str(packed), "--config", on, "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert main(["replay", str(log), "--config", on, "--json"]) == 0
    assert out.read_text() == capsys.readouterr().out


def test_a_bad_event_is_named_and_stops_no_neighbour(log: Path, on: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = log.read_text().splitlines()
    log.write_text("\n".join(['{"type": "tool_call", "run_id": 7, "tool": "t"}', "not json", *lines]))
    assert main(["replay", str(log), "--config", on]) == 0
    errors = capsys.readouterr().err.splitlines()
    assert "run_id" in errors[0]
    assert "7" in errors[0]
    assert "offset 1: message" in errors[1]
    assert errors[-1].startswith("51 events, 2 rejected")


@pytest.mark.parametrize("content", ["missing", "offset", "partition"])
def test_what_cannot_be_read_exits_with_2(
    content: str, tmp_path: Path, on: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.jsonl"
    if content == "offset":
        path.write_text(
            '{"type":"run_started","run_id":"r","offset":4}\n{"type":"run_started","run_id":"r","offset":4}'
        )
    elif content == "partition":
        path.write_text('{"type":"run_started","run_id":"r","partition":-1}\n')
    assert main(["replay", str(path), "--config", on]) == 2
    assert "error: " in capsys.readouterr().err
