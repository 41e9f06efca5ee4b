"""``loopwarden top``: the busiest runs, live."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from typing import TYPE_CHECKING

import click

from loopwarden.cli.options import broker_options, config_option, connection_of, read_configuration
from loopwarden.cli.output import fitted, is_terminal, note

if TYPE_CHECKING:
    from loopwarden.fleet import Fleet

__all__ = ["command"]

_CLEAR = "\x1b[H\x1b[J"
_PLAIN_ROWS = 20


@click.command("top")
@config_option
@broker_options
@click.option("--from-start", is_flag=True, help="Fold all retained events first; otherwise only what comes.")
@click.option("--once", is_flag=True, help="Fold what is there, print the table once, and end.")
@click.option("--interval", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, metavar="SECONDS")
def command(
    config: str | None, broker: str | None, topic_prefix: str, from_start: bool, once: bool, interval: float
) -> int:
    """Show the live runs with the most calls: their streak, the verdicts on them, and the last one.

    Needs no worker: the events are folded here, under the configurations that the workers fold them under, or --config.
    The streak is how often the newest call gave the same outcome. Where nobody looks at a terminal, a plain table every
    --interval seconds.
    """
    asyncio.run(_top(config, broker, topic_prefix, from_start or once, once, interval))
    return 0


async def _top(
    config: str | None, broker: str | None, prefix: str, from_start: bool, once: bool, interval: float
) -> None:
    from loopwarden.broker.capabilities import probe_capabilities
    from loopwarden.configuration_log import read_spans
    from loopwarden.fleet import Fleet
    from loopwarden.replay import Span
    from loopwarden.topic_reading import open_reader
    from loopwarden_schemas.topics import Topics

    connection, topics, given = connection_of(broker), Topics(prefix), read_configuration(config)
    expiry = (await probe_capabilities(connection)).append_time
    async with open_reader(connection, topics.events) as reader:
        if given is not None:
            spans = {partition: [Span(0, given)] for partition in reader.partitions}
        else:
            spans = await read_spans(connection, topics)
            if not spans:
                note("no worker has folded these events yet, and no --config is given: the detectors are OFF")
        fleet = Fleet(topics.events, spans, expiry=expiry)
        shown = time.monotonic()
        chunks = reader.to_end() if once else reader.follow(from_start=from_start)
        async for partition, records in chunks:
            if records:
                fleet.take(partition, records)
            if not once and time.monotonic() - shown >= interval:
                _show(fleet)
                shown = time.monotonic()
    if once:
        _show(fleet)


def _show(fleet: Fleet) -> None:
    terminal = is_terminal() and not _is_dumb()
    rows = max(3, shutil.get_terminal_size().lines - 4) if terminal else _PLAIN_ROWS
    actions = ", ".join(f"{fleet.actions[action]} {action}" for action in ("warn", "block", "abort"))
    lines = [
        f"{fleet.live} live runs, {fleet.events} events; verdicts: {actions}",
        f"{'RUN':<18} {'AGENT':<12} {'CALLS':>6} {'STREAK':>6} {'VERD':>5} LAST",
    ]
    for line in fleet.top(rows):
        last = line.last
        said = "" if last is None else f"{'ABORTED' if line.aborted else last.action} {last.detector or ''}"
        marks = "compacted " if line.armed and not line.aborted else ""
        lines.append(
            f"{fitted(line.run_id, 18)} {fitted(line.agent_id or '-', 12)} {line.calls:>6} {line.streak:>6} "
            f"{line.verdicts:>5} {fitted(marks + said, 28).rstrip()}"
        )
    click.echo((_CLEAR if terminal else "") + "\n".join(line[:80] for line in lines))
    if not terminal:
        click.echo()


def _is_dumb() -> bool:
    return os.environ.get("TERM", "dumb") == "dumb"
