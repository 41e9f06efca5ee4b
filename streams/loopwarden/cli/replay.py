"""``loopwarden replay``: the same fold offline."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from loopwarden.cli.options import broker_options, config_option, connection_of, json_option, read_configuration
from loopwarden.cli.output import is_terminal, note, printable, verdict_line

if TYPE_CHECKING:
    from loopwarden.detection.partition import Batch

__all__ = ["command"]

OFF = (
    "no configuration: the detectors are OFF, as documented. --config FILE names one; "
    "`tools.loopDetection.enabled: true` switches them on."
)


@click.command("replay")
@click.argument("source", metavar="FILE|TOPIC")
@config_option
@broker_options
@click.option("--out", metavar="FILE", type=click.Path(dir_okay=False), help="Write the verdicts there, as JSON lines.")
@click.option("--expiry/--no-expiry", default=None, help="Whether idle runs end. By default as the worker does it.")
@json_option
def command(
    source: str,
    config: str | None,
    broker: str | None,
    topic_prefix: str,
    out: str | None,
    expiry: bool | None,
    as_json: bool,
) -> int:
    """Fold a log of events again and print its verdicts: the same ones.

    FILE holds one JSON object a line (plain, or gzip; `-` is standard input): events as they stand in the topic, each
    perhaps with `partition`, `offset` and `timestamp`, or records around them, with these fields and `key` beside
    `value`. Without a partition all are in partition 0, without offset each follows the one before, without a time the
    event's `ts` counts.

    A TOPIC is read partition by partition up to its present end, under the configurations that the workers folded it
    under, unless --config names another.
    """
    configuration = read_configuration(config)
    tally = _Tally()
    with ExitStack() as stack:
        file = stack.enter_context(Path(out).open("w", encoding="utf-8")) if out else None
        printer = _Printer(as_json, file)
        if source == "-" or Path(source).exists():
            from loopwarden.event_log import read_event_log
            from loopwarden.replay import replay_log
            from loopwarden_schemas.configuration import Configuration
            from loopwarden_schemas.topics import Topics

            if configuration is None:
                note(OFF)
                configuration = Configuration()
            topic = Topics(topic_prefix).events
            batches = replay_log(read_event_log(source), topic, configuration, expiry=expiry is not False)
            for _, batch in batches:
                tally.add(batch)
                printer.show(batch)
        else:
            asyncio.run(_topic(source, topic_prefix, broker, config, expiry, tally, printer))
    note(str(tally))
    return 0


async def _topic(
    topic: str,
    prefix: str,
    broker: str | None,
    config: str | None,
    expiry: bool | None,
    tally: _Tally,
    printer: _Printer,
) -> None:
    async for batch in _replayed(topic, prefix, broker, config, expiry):
        tally.add(batch)
        printer.show(batch)


async def _replayed(
    topic: str, prefix: str, broker: str | None, config: str | None, expiry: bool | None
) -> AsyncIterator[Batch]:
    from loopwarden.broker.capabilities import probe_capabilities
    from loopwarden.configuration_log import read_spans
    from loopwarden.errors import UsageError
    from loopwarden.replay import PartitionReplay, Span
    from loopwarden.topic_reading import open_reader
    from loopwarden_schemas.configuration import Configuration
    from loopwarden_schemas.topics import Topics

    if not broker and "/" in topic:
        raise UsageError(f"{topic}: there is no such file")
    connection = connection_of(broker)
    topics = Topics(prefix)
    if expiry is None:
        expiry = (await probe_capabilities(connection)).append_time
    given = read_configuration(config)
    async with open_reader(connection, topic) as reader:
        bounds = await reader.bounds()
        spans = {} if given is not None else await read_spans(connection, topics)
        for partition in reader.partitions:
            if bounds[partition].begin == bounds[partition].end:
                continue
            if bounds[partition].begin > 0:
                note(
                    f"partition {partition}: events before offset {bounds[partition].begin} are gone (retention): "
                    "runs that began before them may be judged otherwise"
                )
            held = [Span(0, given)] if given is not None else spans.get(partition, [])
            if not held:
                note(f"partition {partition}: {OFF}")
                held = [Span(0, Configuration())]
            replay = PartitionReplay(topic, partition, held, expiry=expiry)
            async for _, records in reader.to_end([partition]):
                for batch in replay.fold(records):
                    yield batch


class _Printer:
    """Prints the verdicts of a batch."""

    def __init__(self, as_json: bool, file: IO[str] | None) -> None:
        self._json = as_json
        self._file = file
        self._clipped = is_terminal()

    def show(self, batch: Batch) -> None:
        if self._file is not None:
            self._file.writelines(f"{text}\n" for text in _json_lines(batch))
        if self._json:
            for text in _json_lines(batch):
                click.echo(text)
        elif self._file is None:
            for _, verdict in batch.verdicts:
                click.echo(verdict_line(verdict, clipped=self._clipped))
        for letter in batch.dead_letters:
            got = f", got {letter.value}" if letter.value else ""
            note(f"rejected: offset {letter.record.offset}: {letter.field} {letter.reason}{got}")


def _json_lines(batch: Batch) -> Iterable[str]:
    return (value.decode() for _, value in batch.encoded_verdicts())


class _Tally:
    """Counts what came of it."""

    def __init__(self) -> None:
        self._events = 0
        self._rejected = 0
        self._verdicts: Counter[str] = Counter()

    def add(self, batch: Batch) -> None:
        self._events += sum(batch.events.values())
        self._rejected += len(batch.dead_letters)
        for _, verdict in batch.verdicts:
            kind = "forecasts" if verdict.stage == "forecast" else f"{verdict.action} by {verdict.detector or '-'}"
            self._verdicts[kind] += 1

    def __str__(self) -> str:
        verdicts = ", ".join(f"{count} {printable(kind)}" for kind, count in sorted(self._verdicts.items()))
        return f"{self._events} events, {self._rejected} rejected; {verdicts or 'no verdicts'}"
