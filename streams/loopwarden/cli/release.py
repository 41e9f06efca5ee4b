"""``loopwarden release``: an operator's hand."""

from __future__ import annotations

import asyncio
import getpass
import time
import uuid

import click

from loopwarden.cli.options import broker_options, connection_of
from loopwarden.cli.output import printable

__all__ = ["command"]


@click.command("release")
@click.argument("run_id")
@broker_options
@click.option("--reason", metavar="TEXT", help="Why; stands in the log.")
@click.option("--by", metavar="NAME", help="Who; the name of the user unless given.")
def command(run_id: str, broker: str | None, topic_prefix: str, reason: str | None, by: str | None) -> int:
    """Let RUN_ID start clean: what it did is forgotten, refused calls are allowed again, its runner is told.

    A run that has ended cannot be released.
    """
    asyncio.run(_release(run_id, broker, topic_prefix, reason, by or _user()))
    return 0


async def _release(run_id: str, broker: str | None, topic_prefix: str, reason: str | None, by: str) -> None:
    from loopwarden.errors import UsageError
    from loopwarden.past_runs import find_events
    from loopwarden.publishing import publish_one
    from loopwarden.topic_reading import open_reader
    from loopwarden_schemas.codec import encode_event
    from loopwarden_schemas.events import RunEnded, RunReleased
    from loopwarden_schemas.topics import Topics

    connection, topics = connection_of(broker), Topics(topic_prefix)
    async with open_reader(connection, topics.events) as reader:
        found = await find_events(reader, run_id)
    if found is None:
        raise UsageError(
            f"run {run_id!r} does not stand in {topics.events}", hint="is the id right, and the topic prefix?"
        )
    last = found.events[-1][0]
    if isinstance(last, RunEnded):
        raise UsageError(f"run {run_id!r} has ended: there is nothing to release")
    released = RunReleased(
        run_id=run_id,
        event_id=uuid.uuid4().hex,
        ts=int(time.time() * 1000),
        agent_id=last.agent_id,
        parent_run_id=last.parent_run_id,
        root_run_id=last.root_run_id,
        session_id=last.session_id,
        by=by[:256],
        reason=None if reason is None else reason[:256],
    )
    await publish_one(connection, topics.events, found.key, encode_event(released), found.partition)
    click.echo(printable(f"run {run_id}: released (partition {found.partition})"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return "unknown"
