from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loopwarden.cli.main import COMMANDS, main

_HEAVY = ("faust", "aiokafka", "loopwarden.detection", "prometheus_client", "rich")


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)])
def test_help_explains_and_ends_with_0(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--help"]) == 0
    assert "Usage: loopwarden" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    program = f"""
import sys
from loopwarden.cli.main import main
for name in {[[], *([name] for name in COMMANDS)]!r}:
    assert main([*name, "--help"]) == 0
print([name for name in {_HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = capsys.readouterr().out
    for code in ("0", "1", "2", "3", "4", "130"):
        assert any(line.split()[:1] == [code] for line in shown.splitlines())


def test_an_unknown_command_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["frobnicate"]) == 2
    assert "No such command" in capsys.readouterr().err


def test_no_broker_is_one_line_and_a_hint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOOPWARDEN_BROKER", raising=False)
    assert main(["tail"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"]


def test_an_unexpected_error_is_one_line_unless_debugging(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopwarden_schemas.configuration.Configuration.from_file", lambda path: 1 / 0)
    assert main(["config", "check", "x"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: unexpected ZeroDivisionError")
    assert "Traceback" not in error
    assert main(["--debug", "config", "check", "x"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    line = '{"type":"tool_call","run_id":"r","tool":"t","args":{},"want_verdict":true}\n'
    log.write_text(line * 20_000)
    program = "import sys; from loopwarden.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", program, "replay", str(log), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        assert process.wait(60) == 0
    assert "Traceback" not in errors
    assert "error" not in errors
