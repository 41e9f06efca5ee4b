"""What the topics still say of one run: for ``explain``, ``release`` and the page. Needs no worker.

A run's id does not give its partition, for its key may be its root run's; so its own partition is read first, and the
others only if it is not there. Implements ``processor.web.Records``.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from loopwarden.broker.capabilities import probe_capabilities
from loopwarden.configuration_log import read_spans
from loopwarden.connection import Connection
from loopwarden.processor.web.inspection import Deed, PastRun
from loopwarden.replay import PartitionReplay, Span
from loopwarden.topic_reading import TopicReader, open_reader
from loopwarden.verdict_stream import VerdictReader
from loopwarden_schemas.codec import decode_event, event_time
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.errors import WireError
from loopwarden_schemas.events import CallRefused, Event, RunEnded, RunReleased, RunStarted, VerdictAck
from loopwarden_schemas.partitioning import partition_of
from loopwarden_schemas.topics import Topics
from loopwarden_schemas.verdicts import Verdict

__all__ = ["FoundEvents", "PastRuns", "find_events"]


class FoundEvents(NamedTuple):
    """A run's retained events.

    Attributes:
        partition: Their partition.
        key: Their message key.
        events: Each with its record, oldest first.
        begin: First offset that the partition still has.
    """

    partition: int
    key: bytes
    events: list[tuple[Event, Any]]
    begin: int


async def find_events(reader: TopicReader, run_id: str, partition: int | None = None) -> FoundEvents | None:
    """Looks a run's events up.

    Args:
        reader: The events topic.
        run_id: The run.
        partition: Its partition; None where nobody knows it.

    Returns:
        Its events; None if there are none.

    Raises:
        BrokerError: The broker cannot be read.
    """
    own = partition_of(run_id.encode("utf-8", "surrogatepass"), len(reader.partitions))
    order = [own, *(other for other in reader.partitions if other != own)] if partition is None else [partition]
    bounds = await reader.bounds()
    for number in order:
        found = [
            (event, record)
            async for record in _records(reader, number)
            if (event := _event_of(record, run_id)) is not None
        ]
        if found:
            return FoundEvents(number, found[-1][1].key, found, bounds[number].begin)
    return None


async def _records(reader: TopicReader, partition: int) -> AsyncIterator[Any]:
    async for _, records in reader.to_end([partition]):
        for record in records:
            yield record


def _event_of(record: Any, run_id: str) -> Event | None:
    value = record.value or b""
    # Decoding all of a partition would take a hundred times as long.
    if not any(spelled in value for spelled in _spellings(run_id)):
        return None
    try:
        event = decode_event(value)
    except WireError:
        return None
    right_key = record.key == event.key.encode("utf-8", "surrogatepass")
    return event if event.run_id == run_id and right_key else None


def _spellings(run_id: str) -> set[bytes]:
    """How a run's id may stand in JSON; of one with escapes in it, its plainest stretch."""
    if run_id.isascii() and run_id.isprintable() and not set('"\\/<>&') & set(run_id):
        return {run_id.encode()}
    return {json.dumps(run_id)[1:-1].encode(), run_id.encode("utf-8", "surrogatepass"), b"\\"}


class PastRuns:
    """Reads runs up in the topics.

    Args:
        connection: The cluster.
        topics: The deployment's topics.
        configuration: What to fold under, instead of what the workers folded under.
    """

    def __init__(self, connection: Connection, topics: Topics, configuration: Configuration | None = None) -> None:
        self._connection = connection
        self._topics = topics
        self._configuration = configuration
        self.used: Configuration | None = None
        """The newest configuration that the last run was folded under."""

    async def __call__(self, run_id: str, partition: int | None) -> PastRun | None:
        """Reads up on a run; None if the topics do not know it.

        Args:
            run_id: The run.
            partition: Its partition, None where nobody knows it: then all are read.

        Raises:
            BrokerError: The broker cannot be asked.
        """
        async with open_reader(self._connection, self._topics.events) as reader:
            found = await find_events(reader, run_id, partition)
            family = await self._family(reader, found)
        verdicts = await self._verdicts(run_id, found.partition if found else partition)
        if found is None:
            if not verdicts:
                return None
            self.used = self._configuration or Configuration()
            return PastRun(run_id, verdicts[0].cause.partition, None, None, verdicts, [], False, False)
        history, window = await self._fold(run_id, found, family)
        first, last = found.events[0][0], found.events[-1][0]
        return PastRun(
            run_id,
            found.partition,
            history,
            window,
            verdicts,
            [deed for event, record in found.events if (deed := _deed(event, record)) is not None],
            isinstance(last, RunEnded),
            found.begin == 0 or isinstance(first, RunStarted),
        )

    async def _family(self, reader: TopicReader, found: FoundEvents | None) -> list[Any]:
        """All records under the run's key: a family shares state, and runs of one session may."""
        if found is None:
            return []
        return [record async for record in _records(reader, found.partition) if record.key == found.key]

    async def _verdicts(self, run_id: str, partition: int | None) -> list[Verdict]:
        taking = VerdictReader()
        found = []
        async with open_reader(self._connection, self._topics.verdicts) as reader:
            async for _, records in reader.to_end(None if partition is None else [partition]):
                near = [
                    record for record in records if any(text in (record.value or b"") for text in _spellings(run_id))
                ]
                found += [verdict for verdict in taking.take(near) if verdict.run_id == run_id]
        return found

    async def _fold(self, run_id: str, found: FoundEvents, family: Sequence[Any]) -> tuple[bytes | None, bytes | None]:
        """Rows of the run after its last retained event, before the end if it ended."""
        expiry = (await probe_capabilities(self._connection)).append_time
        spans = await self._spans(found.partition)
        self.used = spans[-1].configuration
        replay = PartitionReplay(self._topics.events, found.partition, spans, expiry=expiry)
        key = run_id.encode("utf-8", "surrogatepass")
        ends = {record.offset for event, record in found.events if isinstance(event, RunEnded)}
        rows: tuple[bytes | None, bytes | None] = (None, None)
        for record in family:
            if record.offset in ends:
                rows = (replay.rows.history(key), replay.rows.window(key))
            for _ in replay.fold([record]):
                pass
        history = replay.rows.history(key)
        return rows if history is None else (history, replay.rows.window(key))

    async def _spans(self, partition: int) -> list[Span]:
        if self._configuration is not None:
            return [Span(0, self._configuration)]
        spans = await read_spans(self._connection, self._topics)
        return spans.get(partition) or [Span(0, Configuration())]


def _deed(event: Event, record: Any) -> Deed | None:
    at = event_time(event, record.timestamp)
    match event:
        case CallRefused():
            return Deed(at, event.type_, event.tool, event.verdict_id or "")
        case VerdictAck():
            return Deed(at, event.type_, event.result, event.verdict_id)
        case RunReleased():
            return Deed(at, event.type_, " ".join(filter(None, (event.by, event.reason))))
        case RunEnded():
            return Deed(at, event.type_, event.outcome or "")
    return None
