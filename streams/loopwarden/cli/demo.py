"""``loopwarden demo``: see it work."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from loopwarden.cli.options import config_option
from loopwarden.cli.output import is_terminal, printable

if TYPE_CHECKING:
    from loopwarden.demonstration import Summary
    from loopwarden.simulation import Play
    from loopwarden_schemas.verdicts import Verdict

__all__ = ["command"]

_PARTITIONS = 4
_EMBEDDED_SESSION_S = 2.0
"""The embedded broker holds the first join of a group for half of it."""
_SESSION_S = 6.0
"""The least that Apache Kafka takes."""
_COLOURS = {"aborted": "red", "refused": "yellow", "gave up": "yellow", "done": "green"}
_WORDS = {"warned": "the model is told", "refused": "call refused", "aborted": "run aborted"}


@click.command("demo")
@config_option
@click.option("--broker", metavar="HOST:PORT", help="This cluster instead of the embedded broker. [LOOPWARDEN_BROKER]")
@click.option("--topic-prefix", default=None, metavar="PREFIX", help="[one of its own on --broker]")
@click.option(
    "--metrics-port", type=click.IntRange(1, 65535), help="Port of the worker's page and metrics. [a free one]"
)
@click.option("--speed", type=click.FloatRange(0.1, 5), default=1.0, show_default=True, help="2 is twice as fast.")
def command(
    config: str | None, broker: str | None, topic_prefix: str | None, metrics_port: int | None, speed: float
) -> int:
    """Play looping and healthy agent runs against a real broker and worker, and show what becomes of them.

    Recorded runs of real agents, and five synthetic ones: a poller, a ping-pong, a loop that a compaction does not
    break, an unknown tool, a healthy one. Each is played by a runner that obeys the verdicts. All numbers are measured.
    Ends by itself in under a minute; exit code 1 if a loop was not halted, or a run that succeeded was.
    """
    from loopwarden.broker.embedded import EmbeddedBroker
    from loopwarden.cli.options import connection_of
    from loopwarden.worker_child import WorkerChild
    from loopwarden_schemas.topics import Topics

    began = time.monotonic()
    broker = broker or os.environ.get("LOOPWARDEN_BROKER")
    with ExitStack() as stack:
        if broker is None:
            embedded = stack.enter_context(EmbeddedBroker())
            bootstrap, kind, prefix = embedded.bootstrap, "embedded broker", topic_prefix or ""
        else:
            bootstrap, kind = broker, "broker"
            prefix = f"demo-{os.getpid()}-{int(time.time())}." if topic_prefix is None else topic_prefix
        click.echo(f"Starting: {kind} {bootstrap}, a worker of its own process …")
        worker = stack.enter_context(
            WorkerChild(
                bootstrap,
                topic_prefix=prefix,
                config=config or str(files("loopwarden").joinpath("data", "demo.yaml")),
                partitions=_PARTITIONS,
                port=metrics_port,
                session_timeout_s=_EMBEDDED_SESSION_S if broker is None else _SESSION_S,
            )
        )
        from loopwarden.demonstration import demonstrate
        from loopwarden.simulation import recorded_scripts, synthetic_scripts

        scripts = [*synthetic_scripts(), *recorded_scripts()]
        worker.wait_ready()
        click.echo(f"Ready after {time.monotonic() - began:.1f} s. Page {worker.url}/, metrics {worker.url}/metrics")
        click.echo(f"{len(scripts)} runs, {len(scripts) - 5} of them recorded from real agents; each runner obeys.\n")
        with _Screen.opened() as screen:
            summary = asyncio.run(
                demonstrate(
                    connection_of(bootstrap),
                    Topics(prefix, _PARTITIONS),
                    scripts,
                    speed=speed,
                    told=screen.told,
                    on_verdict=screen.judged,
                )
            )
        worker.check()
    _summarise(summary)
    for played in summary.unexpected:
        click.echo(
            f"NOT AS EXPECTED: {played.script.run_id} should have been {played.script.expected}, "
            f"and was {played.outcome}",
            err=True,
        )
    return 1 if summary.unexpected or not summary.waits else 0


class _Screen:
    """Shows what happens: a line each, where nobody looks at a terminal."""

    def told(self, played: Play, what: str) -> None:
        """Something happened to a run."""
        if what == "ended" and played.refused:
            click.echo(f"{played.script.run_id:<18} ended: {played.state} after {played.calls} calls")
        elif what in _WORDS:
            by = f" by {played.detector}" if what != "warned" else ""
            click.echo(f"{played.script.run_id:<18} call {played.calls:>2}: {_WORDS[what]}{by}")

    def judged(self, verdict: Verdict) -> None:
        """A verdict arrived."""

    @staticmethod
    @contextmanager
    def opened() -> Iterator[_Screen]:
        """A screen for wherever standard output goes."""
        if not is_terminal():
            yield _Screen()
            return
        from rich.console import Console
        from rich.live import Live

        console = Console()
        screen = _Table(max(6, console.height - 16))
        with Live(get_renderable=screen.table, console=console, refresh_per_second=8):
            yield screen


class _Table(_Screen):
    """A table of the runs, the ones with the worst news first, and the last verdicts."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._plays: dict[str, Play] = {}
        self._verdicts: list[Verdict] = []
        self._began = time.monotonic()

    def told(self, played: Play, what: str) -> None:
        self._plays[played.script.run_id] = played

    def judged(self, verdict: Verdict) -> None:
        if verdict.stage == "final" and verdict.level != "none":
            self._verdicts = [*self._verdicts[-4:], verdict]

    def table(self) -> Any:
        """What is shown now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        order = {"aborted": 0, "gave up": 1, "refused": 2, "running": 3, "done": 4}
        plays = sorted(self._plays.values(), key=lambda p: (order.get(p.state, 5), -p.refused, -p.warned, -p.calls))
        table = Table(box=None, pad_edge=False, expand=False)
        for name in ("run", "from", "calls", "told", "refused", "state", "rule"):
            table.add_column(name, justify="right" if name in ("calls", "told", "refused") else "left", no_wrap=True)
        for played in plays[: self._rows]:
            table.add_row(
                played.script.run_id,
                played.script.origin[:12],
                str(played.calls),
                str(played.warned or ""),
                str(played.refused or ""),
                Text(played.state, style=_COLOURS.get(played.state, "")),
                played.detector,
            )
        states = [played.state for played in plays]
        line = (
            f"{time.monotonic() - self._began:4.0f} s  {states.count('running') + states.count('refused')} running, "
            f"{sum(p.calls for p in plays)} calls, {sum(p.refused for p in plays)} refused, "
            f"{states.count('aborted')} aborted"
        )
        news = [Text(_news(verdict), no_wrap=True, overflow="ellipsis", style="dim") for verdict in self._verdicts]
        return Group(table, Text(), *news, Text(line, style="bold"))


def _news(verdict: Verdict) -> str:
    return printable(f"{verdict.action:<5} {verdict.run_id:<16} {verdict.message or ''}")


def _summarise(summary: Summary) -> None:
    plays = summary.plays
    untouched = [played for played in plays if played.outcome == "untouched"]
    halted = len(plays) - len(untouched)
    p50, p99 = summary.wait(0.5), summary.wait(0.99)
    click.echo(
        f"\n{len(plays)} runs, {sum(played.calls for played in plays)} calls in {summary.seconds:.1f} s; "
        f"{summary.verdicts} verdicts, {summary.forecasts} forecasts"
    )
    click.echo(
        f"refused   {sum(played.refused for played in plays)} calls of "
        f"{sum(played.outcome == 'refused' for played in plays)} runs"
    )
    click.echo(f"aborted   {sum(played.outcome == 'aborted' for played in plays)} runs")
    click.echo(f"halted    {halted} runs; left alone {len(untouched)}")
    expected = [played for played in plays if played.script.expected == "untouched"]
    click.echo(
        f"unharmed  {sum(played.outcome == 'untouched' for played in expected)} of the {len(expected)} runs that "
        "succeed without a loop"
    )
    if p50 is not None and p99 is not None:
        click.echo(f"event to verdict, measured by the runner's clock: p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    if summary.dropped:
        click.echo(f"{summary.dropped} events could not be published")
