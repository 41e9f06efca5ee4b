"""The report as one HTML file that opens from disk: no script, nothing from outside, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from loopwarden.backtest.judging import JudgedRun
from loopwarden.backtest.report import ASSUMED, Report

__all__ = ["html_report", "reason"]

DIFFERENCES_SHOWN = 2000
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c1c1c }
table { border-collapse: collapse; margin: 1rem 0; width: 100% } th, td { padding: .3rem .7rem; text-align: left;
border-bottom: 1px solid #ddd; vertical-align: top } td.n, th.n { text-align: right;
font-variant-numeric: tabular-nums }
small { color: #666 } h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
@media (prefers-color-scheme: dark) { body { background: #161616; color: #ddd } th, td { border-color: #333 } }
"""


def html_report(report: Report, source: str) -> str:
    """The page.

    Args:
        report: What came of it.
        source: What was read.
    """
    head = ["configuration", "warned", "refused", "aborted", "of successful", "calls saved", "cost saved"]
    rows = [
        [
            totals.name,
            totals.warned,
            totals.refused,
            totals.aborted,
            totals.successful_halted,
            f"{totals.saved_calls} ({_share(totals.saved_calls, report.calls)})",
            f"{totals.saved_cost} ({_share(totals.saved_cost, report.cost)})" if report.cost else "-",
        ]
        for totals in report.totals
    ]
    differing = report.differences[:DIFFERENCES_SHOWN]
    names = [totals.name for totals in report.totals]
    differences = [
        [difference.run.name, difference.run.outcome or "-", difference.run.calls, *map(reason, difference.judged)]
        for difference in sorted(differing, key=lambda difference: difference.run.name)
    ]
    more = len(report.differences) - len(differing)
    return "\n".join(
        [
            "<!doctype html><html lang=en><meta charset=utf-8><title>Back-test</title>",
            f"<style>{_STYLE}</style><h1>Back-test of {escape(source)}</h1>",
            f"<p>{report.runs} runs with {report.calls} calls; {report.with_outcome} with an outcome, "
            f"{report.successful} of them successful. Counted apart: {report.cut} runs whose beginning is missing, "
            f"{report.halted_live} that a verdict had halted already. {report.events} events, "
            f"{report.rejected} of them rejected.</p><p><small>{escape(ASSUMED)}</small></p>",
            _table(head, rows, numbers=range(1, 7)),
            f"<h2>Runs that they do not judge alike: {len(report.differences)}</h2>",
            _table(["run", "outcome", "calls", *names], differences, numbers=[2]),
            f"<p>… and {more} more</p>" if more else "",
            "</html>",
        ]
    )


def reason(judged: JudgedRun) -> str:
    """What a configuration makes of a run, in words."""
    if not judged.action:
        return "warned only" if judged.warned else "left alone"
    what = "aborted" if judged.action == "abort" else "refused"
    return f"{what} before call {judged.at_call}: {judged.detector}. {judged.message}"


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _table(head: list[str], rows: Iterable[list[object]], numbers: Iterable[int]) -> str:
    right = set(numbers)

    def cells(row: Iterable[object], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in right else ''}>{escape(str(cell))}</{tag}>" for i, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(head, 'th')}</tr>{body}</table>"
