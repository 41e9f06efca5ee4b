"""``loopwarden tail``: verdicts as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from loopwarden.cli.options import broker_options, connection_of, json_option
from loopwarden.cli.output import is_terminal, note, verdict_line

if TYPE_CHECKING:
    from loopwarden.connection import Connection
    from loopwarden_schemas.verdicts import Verdict

__all__ = ["command"]

_LEVELS = ("none", "warning", "critical")


@click.command("tail")
@broker_options
@click.option("--run", metavar="ID", help="Only verdicts on this run.")
@click.option("--agent", metavar="ID", help="Only verdicts on this agent's runs.")
@click.option("--level", type=click.Choice(_LEVELS), default="none", help="Only verdicts of this level or worse.")
@click.option("--from-start", is_flag=True, help="Begin with the oldest verdict that is kept.")
@click.option("--shadow", is_flag=True, help="The verdicts of shadow judges instead.")
@click.option("--follow/--no-follow", default=True, help="Wait for more; otherwise end at the present end.")
@json_option
def command(
    broker: str | None,
    topic_prefix: str,
    run: str | None,
    agent: str | None,
    level: str,
    from_start: bool,
    shadow: bool,
    follow: bool,
    as_json: bool,
) -> int:
    """Print verdicts as they come: time (UTC), action, run, tool, rule, how often.

    `~` after the action marks a forecast: what the next such call would meet. `(observe)` marks what nobody obeys.
    """
    from loopwarden_schemas.topics import Topics

    topics = Topics(topic_prefix)
    topic = topics.shadow_verdicts if shadow else topics.verdicts

    def wanted(verdict: Verdict) -> bool:
        return (
            run in (None, verdict.run_id)
            and agent in (None, verdict.agent_id)
            and _LEVELS.index(verdict.level) >= _LEVELS.index(level)
        )

    asyncio.run(_tail(connection_of(broker), topic, wanted, from_start or not follow, follow, as_json))
    return 0


async def _tail(
    connection: Connection,
    topic: str,
    wanted: Callable[[Verdict], bool],
    from_start: bool,
    follow: bool,
    as_json: bool,
) -> None:
    from loopwarden.topic_reading import open_reader
    from loopwarden.verdict_stream import VerdictReader
    from loopwarden_schemas.codec import encode_verdict

    verdicts = VerdictReader()
    clipped = is_terminal()
    async with open_reader(connection, topic) as reader:
        chunks = reader.follow(from_start=from_start) if follow else reader.to_end()
        async for _, records in chunks:
            for verdict in verdicts.take(records):
                if wanted(verdict):
                    text = encode_verdict(verdict).decode() if as_json else verdict_line(verdict, clipped=clipped)
                    click.echo(text)
    if verdicts.unreadable:
        note(f"{verdicts.unreadable} records of {topic} were no verdicts")
