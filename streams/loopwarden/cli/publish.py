"""``loopwarden publish``: a file of events into the topic."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from loopwarden.cli.options import broker_options, connection_of
from loopwarden.cli.output import note

if TYPE_CHECKING:
    from loopwarden.publishing import BadLine

__all__ = ["command"]

SHOWN = 20
"""Bad lines that are named; of more, their number."""


@click.command("publish")
@click.argument("file")
@broker_options
@click.option("--skip-bad", is_flag=True, help="Publish what can be taken and leave the other lines out.")
def command(file: str, broker: str | None, topic_prefix: str, skip_bad: bool) -> int:
    """Publish the events of FILE: one JSON object a line, plain or gzip, as `loopwarden replay` reads it.

    Each event gets its key, and with it its partition (murmur2). A line that is no event is named with line number,
    field and value; then nothing at all is published (exit code 2), unless --skip-bad leaves such lines out.
    """
    from loopwarden.errors import UsageError
    from loopwarden.publishing import check_lines, publish_lines
    from loopwarden_schemas.topics import Topics

    if file == "-" and not skip_bad:
        raise UsageError("standard input cannot be checked beforehand", hint="add --skip-bad, or publish a file")
    connection = connection_of(broker)
    bad = _Bad(file)
    if not skip_bad:
        for line in check_lines(file):
            bad(line)
        if bad.count:
            bad.say_rest()
            raise UsageError(
                f"{file}: {bad.count} lines are no events; nothing was published", hint="--skip-bad leaves them out"
            )
    topic = Topics(topic_prefix).events
    published = asyncio.run(publish_lines(connection, topic, file, on_bad=bad, on_published=_progress))
    if sys.stderr.isatty():
        click.echo(err=True)
    bad.say_rest()
    left_out = f", {bad.count} lines left out" if bad.count else ""
    click.echo(f"{published} events published to {topic}{left_out}")
    return 0


class _Bad:
    """Names lines that are no events."""

    def __init__(self, file: str) -> None:
        self._file = file
        self.count = 0

    def __call__(self, line: BadLine) -> None:
        self.count += 1
        if self.count <= SHOWN:
            note(f"{self._file}:{line.number}: {line.problem}")

    def say_rest(self) -> None:
        if self.count > SHOWN:
            note(f"… and {self.count - SHOWN} more")


def _progress(published: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{published} events published", nl=False, err=True)
