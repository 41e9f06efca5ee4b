"""Reads topics as people's tools do: without a group, up to the present end or on and on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from loopwarden.connection import Connection
from loopwarden.diagnosis import check_connection
from loopwarden.errors import BrokerError, TopicMismatch

__all__ = ["Bounds", "TopicReader", "broker_errors", "open_reader"]

START_S = 15.0
POLL_MS = 500
FETCH_RECORDS = 4000


class Bounds(NamedTuple):
    """What a partition holds.

    Attributes:
        begin: First offset that is still there.
        end: Offset after the last one.
    """

    begin: int
    end: int


@contextmanager
def broker_errors(connection: Connection) -> Iterator[None]:
    """Turns what Kafka's client raises into a ``BrokerError`` that names the cluster."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise BrokerError(
            f"{connection}: {text}", hint="is the broker running, and is this its address (--broker)?"
        ) from error


class TopicReader:
    """Reads one topic.

    Args:
        consumer: A started consumer.
        connection: The cluster.
        topic: The topic.
        partitions: Its partitions.
    """

    def __init__(
        self, consumer: AIOKafkaConsumer, connection: Connection, topic: str, partitions: Sequence[int]
    ) -> None:
        self._consumer = consumer
        self._connection = connection
        self._topic = topic
        self.partitions = list(partitions)

    async def bounds(self) -> dict[int, Bounds]:
        """What each partition holds now."""
        tps = self._tps(self.partitions)
        with broker_errors(self._connection):
            async with asyncio.timeout(START_S):
                begins = await self._consumer.beginning_offsets(tps)
                ends = await self._consumer.end_offsets(tps)
        return {tp.partition: Bounds(begins[tp], ends[tp]) for tp in tps}

    async def to_end(self, partitions: Sequence[int] | None = None) -> AsyncIterator[tuple[int, list[Any]]]:
        """Everything that the partitions hold by now, a fetched chunk at a time, in order within each.

        Args:
            partitions: Partitions; all by default.
        """
        tps = self._tps(self.partitions if partitions is None else partitions)
        self._consumer.assign(tps)
        bounds = await self.bounds()
        left = {tp: bounds[tp.partition].end for tp in tps if bounds[tp.partition].end > bounds[tp.partition].begin}
        first = set(left)
        with broker_errors(self._connection):
            for tp in tps:
                self._consumer.seek(tp, bounds[tp.partition].begin)
            while left:
                for tp, records in (await self._fetch(*left)).items():
                    if tp in first:
                        # Asked for its end, the embedded broker names the offset after the *first* record of the last
                        # batch; what comes with a fetch is right.
                        first.discard(tp)
                        left[tp] = max(left[tp], self._consumer.highwater(tp) or 0)
                    kept = [record for record in records if record.offset < left[tp]]
                    if kept:
                        yield tp.partition, kept
                # By position: the last records may be control records, or compacted away.
                left = {tp: end for tp, end in left.items() if await self._consumer.position(tp) < end}

    async def follow(self, *, from_start: bool = False) -> AsyncIterator[tuple[int, list[Any]]]:
        """What comes, for ever; an empty chunk of partition -1 now and then.

        Args:
            from_start: Also what is there.
        """
        tps = self._tps(self.partitions)
        self._consumer.assign(tps)
        bounds = await self.bounds()
        for tp in tps:
            self._consumer.seek(tp, bounds[tp.partition].begin if from_start else bounds[tp.partition].end)
        with broker_errors(self._connection):
            while True:
                fetched = await self._fetch(*tps)
                for tp, records in fetched.items():
                    yield tp.partition, records
                if not fetched:
                    yield -1, []

    async def _fetch(self, *tps: TopicPartition) -> dict[TopicPartition, list[Any]]:
        fetched: dict[TopicPartition, list[Any]] = await self._consumer.getmany(
            *tps, timeout_ms=POLL_MS, max_records=FETCH_RECORDS
        )
        return fetched

    def _tps(self, partitions: Sequence[int]) -> list[TopicPartition]:
        return [TopicPartition(self._topic, partition) for partition in partitions]


@asynccontextmanager
async def open_reader(connection: Connection, topic: str) -> AsyncIterator[TopicReader]:
    """Opens a topic.

    Raises:
        TopicMismatch: There is no such topic.
        BrokerError: The cluster cannot be reached.
    """
    # Whatever is wrong with TLS or log-in, aiokafka's own error does not name it.
    await check_connection(connection)
    consumer = AIOKafkaConsumer(
        **connection.aiokafka(),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        # The embedded broker wakes no fetch that waits.
        fetch_max_wait_ms=20,
        max_partition_fetch_bytes=4 * 1_048_576,
    )
    try:
        with broker_errors(connection):
            async with asyncio.timeout(START_S):
                await consumer.start()
                # All topics, not this one by name: a broker that creates topics by itself would create it.
                known = await consumer.topics()
        if topic not in known:
            raise TopicMismatch(
                f"{connection} has no topic {topic}, or hides it from us",
                hint="`loopwarden topics create` creates what is missing; is the topic prefix right?",
            )
        consumer.assign([TopicPartition(topic, 0)])
        with broker_errors(connection):
            partitions = await _partitions(consumer, topic)
        yield TopicReader(consumer, connection, topic, partitions)
    finally:
        await consumer.stop()


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> list[int]:
    async with asyncio.timeout(START_S):
        while True:
            partitions = consumer.partitions_for_topic(topic)
            if partitions:
                return sorted(partitions)
            await asyncio.sleep(0.02)
