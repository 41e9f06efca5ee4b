"""``loopwarden doctor``: what keeps a deployment from working."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from loopwarden.cli.options import broker_options, connection_of, json_option
from loopwarden.cli.output import printable

if TYPE_CHECKING:
    from loopwarden.connection import Connection
    from loopwarden_schemas.topics import Topics

__all__ = ["command"]

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command("doctor")
@broker_options
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    default=8,
    show_default=True,
    envvar="LOOPWARDEN_PARTITIONS",
    help="Partitions of every topic.",
)
@json_option
def command(broker: str | None, topic_prefix: str, partitions: int, as_json: bool) -> int:
    """Check broker, credentials, topics, durability, partitioner, clock, versions and fencing.

    Creates a topic of its own for clock and fencing, and deletes it. Exit code 3 if a check fails.
    """
    from loopwarden.errors import BrokerError
    from loopwarden_schemas.topics import Topics

    failed = asyncio.run(_print(connection_of(broker), Topics(topic_prefix, partitions), as_json))
    return BrokerError.exit_code if failed else 0


async def _print(connection: Connection, topics: Topics, as_json: bool) -> bool:
    from loopwarden.doctor import examine

    failed = False
    async for finding in examine(connection, topics):
        failed = failed or finding.status == "fail"
        if as_json:
            click.echo(json.dumps(asdict(finding)))
            continue
        status = click.style(f"{finding.status:<4}", fg=_COLOURS[finding.status])
        click.echo(f"{status}  {finding.check:<11} {printable(finding.text)}")
        if finding.remedy:
            click.echo(f"{'':<17} → {printable(finding.remedy)}")
    return failed
