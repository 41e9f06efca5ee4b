"""``loopwarden topics``: the topics as they must be."""

from __future__ import annotations

import asyncio

import click

from loopwarden.cli.options import broker_options, connection_of
from loopwarden.cli.output import note

__all__ = ["command"]

_partitions = click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    default=8,
    show_default=True,
    envvar="LOOPWARDEN_PARTITIONS",
    help="Partitions of every topic: fixed for life.",
)


@click.group("topics")
def command() -> None:
    """Create or check the topics."""


@command.command("create")
@broker_options
@_partitions
@click.option(
    "--replication-factor",
    type=click.IntRange(-1, 100),
    default=-1,
    envvar="LOOPWARDEN_REPLICATION_FACTOR",
    help="Copies of each partition; the broker's default unless given. 3 in production.",
)
def create(broker: str | None, topic_prefix: str, partitions: int, replication_factor: int) -> int:
    """Create the topics that are missing, and check the others."""
    from loopwarden.broker.topics_admin import ensure_topics
    from loopwarden_schemas.topics import Topics

    specs = Topics(topic_prefix, partitions).specs()
    created = asyncio.run(ensure_topics(connection_of(broker), specs, replication_factor=replication_factor))
    for spec in specs:
        click.echo(f"{spec.name}: {'created' if spec.name in created else 'was there'}")
    return 0


@command.command("check")
@broker_options
@_partitions
def check(broker: str | None, topic_prefix: str, partitions: int) -> int:
    """Compare the topics with what they must be; change nothing. Exit code 3 if a worker would not start on them."""
    from loopwarden.broker.topics_admin import check_topics
    from loopwarden.errors import TopicMismatch
    from loopwarden_schemas.topics import Topics

    specs = Topics(topic_prefix, partitions).specs()
    found = asyncio.run(check_topics(connection_of(broker), specs))
    wrong = {problem.topic for problem in found.problems} | {spec.name for spec in found.missing}
    for spec in specs:
        state = "wrong" if spec.name in wrong else "settings not reported" if spec.name in found.unchecked else "good"
        click.echo(f"{spec.name}: {'missing' if spec in found.missing else state}")
    for problem in found.problems:
        note(str(problem))
    for text in found.notes:
        note(text)
    if found.missing:
        note("`loopwarden topics create` creates what is missing")
    return TopicMismatch.exit_code if wrong else 0
