"""The one writer of a partition: its verdicts, dead letters and changelogs, under one producer id and epoch.

Fencing without transactions (design: delivery, 4): ``InitProducerId`` with the partition's transactional id bumps the
epoch; all writes are idempotent batches of that id and epoch, *not* transactional. From the first batch of a newer
epoch on a topic partition the broker refuses every older one there. Before it, it does not: hence the barrier.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from loopwarden.errors import BrokerError
from loopwarden.processor.errors import PartitionLost
from loopwarden.processor.sender import Sender
from loopwarden_schemas.topics import BARRIER_KEY

__all__ = ["PartitionWriter", "ProducerIdentity", "Written", "init_producer_id"]

log = logging.getLogger(__name__)

Header = tuple[str, bytes]
Row = tuple[bytes | None, bytes | None]
_SEQUENCES = 0x7FFFFFFF
_RETRY_S = 0.1
_TRANSIENT = (
    kafka.KafkaConnectionError,
    kafka.NodeNotReadyError,
    kafka.RequestTimedOutError,
    kafka.GroupCoordinatorNotAvailableError,
    kafka.CoordinatorNotAvailableError,
    kafka.CoordinatorLoadInProgressError,
    kafka.NotCoordinatorError,
    kafka.ConcurrentTransactions,
    OSError,
    asyncio.TimeoutError,
)


class ProducerIdentity(NamedTuple):
    """What the broker knows a writer by. Id -1: a broker without producer ids, nothing is fenced."""

    producer_id: int
    epoch: int


class Written(NamedTuple):
    """Where a write went.

    Attributes:
        next_offset: Offset after its last record.
        size: Bytes on the wire.
    """

    next_offset: int
    size: int


UNFENCED = ProducerIdentity(-1, -1)


async def init_producer_id(client: AIOKafkaClient, transactional_id: str, *, timeout_s: float) -> ProducerIdentity:
    """Takes a producer id and bumps its epoch.

    Args:
        client: A connected client.
        transactional_id: Same id, same producer id, next epoch.
        timeout_s: Seconds to keep trying while the coordinator is not there.

    Raises:
        BrokerError: Refused, or no coordinator in time.
    """
    group = ConnectionGroup.COORDINATION
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                node = await client.coordinator_lookup(CoordinationType.TRANSACTION, transactional_id)
                if not await client.ready(node, group=group):
                    raise kafka.NodeNotReadyError(f"node {node}")
                response = await client.send(node, request, group=group)
            error = kafka.for_code(response.error_code)
            if error is kafka.NoError:
                return ProducerIdentity(response.producer_id, response.producer_epoch)
            if not (error.retriable or issubclass(error, _TRANSIENT)):
                raise error
            reason = error.__name__
        except _TRANSIENT as transient:
            reason = type(transient).__name__
        except kafka.KafkaError as refusal:
            # From the look-up of the coordinator, too.
            raise BrokerError(
                f"transactional id {transactional_id}: {type(refusal).__name__}",
                hint="the worker needs Write on this transactional id",
            ) from refusal
        if loop.time() + _RETRY_S > deadline:
            raise BrokerError(f"transactional id {transactional_id}: {reason} for {timeout_s:g} s")
        await asyncio.sleep(_RETRY_S)


class PartitionWriter:
    """Writes to one partition number of several topics, in order and acknowledged.

    A writer that failed is never used again: whether its last batch was written is not known, and a restarted sequence
    under the same epoch would be acknowledged and not written.

    Args:
        sender: Sends the batches.
        partition: Partition number.
        identity: Producer id and epoch, ``UNFENCED`` where the broker has none.
    """

    def __init__(self, sender: Sender, partition: int, identity: ProducerIdentity = UNFENCED) -> None:
        self._sender = sender
        self._identity = identity
        self._sequence: dict[str, int] = {}
        self.partition = partition
        self.lost = False

    @property
    def identity(self) -> ProducerIdentity:
        """Producer id and epoch."""
        return self._identity

    async def write(
        self, topic: str, rows: Iterable[Row], limit: int, headers: Sequence[Sequence[Header]] | None = None
    ) -> Written:
        """Writes rows, in as few batches as the topic takes, and waits for the acknowledgement of each.

        Args:
            topic: Topic.
            rows: Keys and values; at least one. None as value is a tombstone.
            limit: Largest record batch that the topic takes, in bytes.
            headers: Headers of each row.

        Raises:
            PartitionLost: The partition went to another worker meanwhile.
            Fenced: Another worker has written.
            DeliveryTimeout: No acknowledgement in time.
            BrokerError: Refused.
        """
        next_offset = size = 0
        for data, count in self._build(topic, rows, limit, headers):
            next_offset = await self._send(topic, data) + count
            size += len(data)
        return Written(next_offset, size)

    async def write_whole(self, topic: str, rows: Sequence[Row], limit: int) -> Written:
        """Writes rows as one record batch, which the broker appends whole or not at all.

        Raises:
            BrokerError: They do not fit into ``limit`` bytes; or as ``write``.
        """
        batches = self._build(topic, rows, limit, None)
        if len(batches) != 1:
            self.lost = True
            raise BrokerError(f"{len(rows)} rows do not fit into one record batch of {limit} bytes for {topic}")
        data, count = batches[0]
        return Written(await self._send(topic, data) + count, len(data))

    async def barrier(self, topic: str, note: bytes) -> Written:
        """Writes the record from which on the broker refuses every older epoch.

        Args:
            topic: Topic.
            note: Whose barrier it is, for whoever reads the log.
        """
        return await self.write(topic, [(BARRIER_KEY, note)], 1 << 16)

    async def _send(self, topic: str, data: bytes) -> int:
        if self.lost:
            raise PartitionLost
        try:
            offset = await self._sender.send(topic, self.partition, data)
        except BaseException:
            self.lost = True
            raise
        if self.lost:
            raise PartitionLost
        return offset

    def _build(
        self, topic: str, rows: Iterable[Row], limit: int, headers: Sequence[Sequence[Header]] | None
    ) -> list[tuple[bytes, int]]:
        built: list[tuple[bytes, int]] = []
        builder, count = self._builder(topic, limit), 0
        for index, (key, value) in enumerate(rows):
            row_headers = list(headers[index]) if headers else []
            if builder.append(count, None, key, value, row_headers) is None:
                built.append((bytes(builder.build()), count))
                self._advance(topic, count)
                builder, count = self._builder(topic, limit), 0
                # The first record of a batch is always taken, however large.
                builder.append(0, None, key, value, row_headers)
            count += 1
        built.append((bytes(builder.build()), count))
        self._advance(topic, count)
        return built

    def _builder(self, topic: str, limit: int) -> DefaultRecordBatchBuilder:
        fenced = self._identity.producer_id >= 0
        return DefaultRecordBatchBuilder(
            magic=2,
            compression_type=0,
            is_transactional=0,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequence.get(topic, 0) if fenced else -1,
            batch_size=limit,
        )

    def _advance(self, topic: str, count: int) -> None:
        self._sequence[topic] = (self._sequence.get(topic, 0) + count) & _SEQUENCES
