"""``loopwarden backtest``: the same log under several configurations."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopwarden.cli.options import broker_options, connection_of, json_option
from loopwarden.cli.output import fitted, note, printable

if TYPE_CHECKING:
    from loopwarden.backtest.reading import Unit
    from loopwarden.backtest.report import Report

__all__ = ["command"]

SHOWN = 20
"""Differing runs that are printed; all of them stand in --json and --html."""


@click.command("backtest")
@click.argument("source", metavar="FILE|TOPIC")
@click.option("--with", "configs", metavar="FILE", multiple=True, required=True, help="A configuration (repeatable).")
@click.option(
    "--agent", metavar="ID", help="Only this agent's runs; recorded runs, which name none, are judged as its."
)
@click.option("--html", metavar="FILE", type=click.Path(dir_okay=False), help="Write a report that opens from disk.")
@click.option("--processes", type=click.IntRange(1, 256), help="How many processes fold. [as many as there are cores]")
@broker_options
@json_option
def command(
    source: str,
    configs: tuple[str, ...],
    agent: str | None,
    html: str | None,
    processes: int | None,
    broker: str | None,
    topic_prefix: str,
    as_json: bool,
) -> int:
    """Fold the same log under each configuration, and compare what would have been warned, refused, aborted and saved.

    FILE is a log of events (as `loopwarden replay` reads it) or recorded runs: `{"trace_id", "outcome", "events"}` a
    line, or a JSON list of `{"id", "events"}`. A TOPIC is read up to its present end. Runs whose beginning retention
    has taken, and runs that a verdict had halted already, are counted apart.
    """
    from loopwarden.backtest.pages import html_report
    from loopwarden.backtest.parallel import judge_all
    from loopwarden.backtest.reading import read_units
    from loopwarden.backtest.report import Report
    from loopwarden_schemas.configuration import Configuration

    configurations = [Configuration.from_file(path) for path in configs]
    units = read_units(source, agent) if Path(source).exists() else asyncio.run(_topic_units(source, broker))
    report = Report.of(configs, agent)
    for unit in judge_all(units, configurations, processes=processes):
        report.add(unit)
        _progress(report)
    if sys.stderr.isatty():
        click.echo(err=True)
    if html is not None:
        Path(html).write_text(html_report(report, source), encoding="utf-8", errors="backslashreplace")
    if as_json:
        click.echo(json.dumps(report.as_data(), indent=2))
    else:
        _print(report)
    if html is not None:
        note(f"report: {html}")
    return 0


async def _topic_units(topic: str, broker: str | None) -> list[Unit]:
    from loopwarden.backtest.reading import units_of_log
    from loopwarden.errors import UsageError
    from loopwarden.topic_reading import open_reader

    if not broker and "/" in topic:
        raise UsageError(f"{topic}: there is no such file")
    log = []
    async with open_reader(connection_of(broker), topic) as reader:
        async for partition, records in reader.to_end():
            log += [(partition, record) for record in records]
    return list(units_of_log(log))


def _progress(report: Report) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{report.events} events", nl=False, err=True)


def _print(report: Report) -> None:
    from loopwarden.backtest.pages import reason
    from loopwarden.backtest.report import ASSUMED

    click.echo(
        f"{report.runs} runs, {report.calls} calls; {report.with_outcome} with an outcome, "
        f"{report.successful} of them successful"
    )
    if report.cut or report.halted_live:
        click.echo(f"counted apart: {report.cut} cut by retention, {report.halted_live} halted live already")
    if report.rejected:
        click.echo(f"{report.rejected} of {report.events} events cannot be taken")
    click.echo(f"\n{'':30}{'warned':>7}{'refused':>8}{'aborted':>8}{'success':>8} {'calls saved':>18}")
    for totals in report.totals:
        share = f" ({totals.saved_calls / report.calls:.1%})" if report.calls else ""
        click.echo(
            f"{fitted(totals.name, 29)} {totals.warned:7}{totals.refused:8}{totals.aborted:8}"
            f"{totals.successful_halted:8}{f' {totals.saved_calls}{share}':>19}"
        )
        if report.cost:
            click.echo(f"{'':30}cost saved: {totals.saved_cost} of {report.cost} micro-units")
    click.echo("(success: of the successful runs, those that would have been halted)")
    if report.differences:
        click.echo(f"\n{len(report.differences)} runs that they do not judge alike:")
    for difference in sorted(report.differences, key=lambda each: each.run.name)[:SHOWN]:
        click.echo(printable(f"  {difference.run.name} ({difference.run.outcome or 'no outcome'})"))
        for totals, judged in zip(report.totals, difference.judged, strict=True):
            click.echo(printable(f"    {totals.name}: {reason(judged)}"))
    if len(report.differences) > SHOWN:
        click.echo(f"  … and {len(report.differences) - SHOWN} more: --json or --html has them all")
    click.echo(f"\n{ASSUMED}")
