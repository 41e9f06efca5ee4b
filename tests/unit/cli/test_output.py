from __future__ import annotations

import click
import pytest

from loopwarden.cli.output import clock, fitted, printable, verdict_line
from loopwarden_schemas.verdicts import Cause, Verdict


def _verdict(run_id: str = "run-1", tool: str = "search") -> Verdict:
    return Verdict(
        id="v",
        run_id=run_id,
        level="critical",
        action="abort",
        scope="run",
        stage="forecast",
        mode="observe",
        profile="documented",
        cause=Cause("agent-events", 0, 1),
        config_version="c",
        ts=1_700_000_000_000,
        detector="compaction_loop_persisted",
        tool=tool,
        count=3,
    )


@pytest.mark.parametrize(
    "hostile", ["\x1b[2J\x1b]0;title\x07", "a\rb\nc", "\u202egnp.exe", "\ud800", "\x9b31m", "\x7f"]
)
def test_nothing_hostile_reaches_a_terminal(hostile: str) -> None:
    line = verdict_line(_verdict(hostile, hostile), clipped=False)
    assert line.isprintable()
    assert click.unstyle(verdict_line(_verdict(hostile, hostile), clipped=True)).isprintable()


def test_other_alphabets_stay_readable() -> None:
    assert printable("поиск 検索") == "поиск 検索"


@pytest.mark.parametrize("name", ["r", "a-very-long-run-id-that-ends-in-4711", "\x1b" * 50])
def test_a_verdict_fits_into_80_columns(name: str) -> None:
    assert len(click.unstyle(verdict_line(_verdict(name, name), clipped=True))) <= 80


def test_a_clipped_name_keeps_both_ends() -> None:
    assert fitted("research-agent-run-4711", 15) == "researc…un-4711"


def test_piped_lines_are_whole_and_plain() -> None:
    name = "a-very-long-run-id-that-ends-in-4711"
    line = verdict_line(_verdict(name), clipped=False)
    assert name in line
    assert "\x1b" not in line
    assert line.startswith("22:13:20 abort~ ")
    assert line.endswith("compaction_loop_persisted ×3 (observe)")


@pytest.mark.parametrize("time", [float("inf"), 10.0**30, -(10.0**30)])
def test_an_absurd_time_is_shown_as_none(time: float) -> None:
    assert clock(time) == "--:--:--"
