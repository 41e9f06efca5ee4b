"""What the commands print: safe on a terminal, whatever a tool or a run is called."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from loopwarden_schemas.verdicts import Verdict

__all__ = ["clock", "fitted", "is_terminal", "note", "printable", "verdict_line"]

_COLOURS = {"warning": "yellow", "critical": "red"}
_WIDTH = 15
"""Columns of a name, so that a verdict fits into 80."""


def printable(text: str) -> str:
    """The text with everything escaped that is not a visible character: terminal escapes, bidi marks, surrogates."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def fitted(text: str, width: int) -> str:
    """Printable text in exactly so many columns; a longer one loses its middle: ids often differ at the end."""
    text = printable(text)
    if len(text) > width:
        tail = (width - 1) // 2
        text = f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
    return text.ljust(width)


def clock(milliseconds: float) -> str:
    """Time of day, UTC, of an epoch time in milliseconds; dashes where it is none."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def is_terminal() -> bool:
    """Whether a person looks at standard output."""
    return sys.stdout.isatty()


def note(text: str) -> None:
    """Says something beside the result: on standard error."""
    click.echo(printable(text), err=True)


def verdict_line(verdict: Verdict, *, clipped: bool) -> str:
    """A verdict in a line: time, action, run, tool, rule, how often.

    ``~`` marks a forecast, ``(observe)`` what nobody obeys.

    Args:
        verdict: The verdict.
        clipped: At most 80 columns, coloured by level; otherwise nothing is cut and nothing coloured.
    """
    action = verdict.action + ("~" if verdict.stage == "forecast" else "")
    names = [verdict.run_id, verdict.tool or "-"]
    shown = [fitted(name, _WIDTH) if clipped else printable(name) for name in names]
    rule = printable(verdict.detector or "-") + (f" ×{verdict.count}" if verdict.count else "")
    rule += " (observe)" if verdict.mode == "observe" else ""
    line = f"{clock(verdict.ts)} {action:<6} {' '.join(shown)} {rule}"
    if not clipped:
        return line
    return click.style(line[:80], fg=_COLOURS.get(verdict.level))
