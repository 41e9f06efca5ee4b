"""Produce requests: whatever is handed over in one turn of the event loop goes out in one request per leader.

aiokafka's producer batches by time and owns its producer id; here each partition has an id of its own (``writer``), and
a batch is built whole by whoever sends it. A send ends with the acknowledgement, a refusal, or the delivery time-out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest

from loopwarden.errors import BrokerError
from loopwarden.processor.errors import DeliveryTimeout, Fenced

__all__ = ["Sender"]

log = logging.getLogger(__name__)

_BACKOFF_S = (0.05, 1.0)
_ACK_TIMEOUT_MS = 30_000
_FENCED_CODES = frozenset([47, 90])  # INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
_CONNECTION_ERRORS = (
    kafka.KafkaConnectionError,
    kafka.NodeNotReadyError,
    kafka.RequestTimedOutError,
    kafka.LeaderNotAvailableError,
    kafka.NotLeaderForPartitionError,
    kafka.UnknownTopicOrPartitionError,
    kafka.StaleMetadata,
    OSError,
    asyncio.TimeoutError,
)


@dataclass(eq=False, slots=True)
class _Write:
    topic: str
    partition: int
    data: bytes
    done: asyncio.Future[int]
    attempts: int = 0


class Sender:
    """Sends record batches and waits for ``acks=all``.

    Args:
        client: A client that is connected and closed by the caller.
        delivery_timeout_s: Seconds after which an unacknowledged batch fails, retries included.
    """

    def __init__(self, client: AIOKafkaClient, *, delivery_timeout_s: float) -> None:
        self._client = client
        self._delivery_timeout_s = delivery_timeout_s
        self._waiting: list[_Write] = []
        self._requests: set[asyncio.Task[None]] = set()

    async def send(self, topic: str, partition: int, data: bytes) -> int:
        """Sends one record batch.

        Args:
            topic: Topic.
            partition: Partition. One batch at a time per topic and partition: the caller waits for the one before.
            data: The record batch as it goes over the wire.

        Returns:
            Offset of its first record.

        Raises:
            Fenced: A newer epoch of the producer id has written there.
            DeliveryTimeout: Not acknowledged in time; whether it was written is not known.
            BrokerError: Refused for good.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()
        self._enqueue(_Write(topic, partition, data, done))
        try:
            async with asyncio.timeout(self._delivery_timeout_s):
                return await done
        except TimeoutError:
            raise DeliveryTimeout(
                f"no acknowledgement for {topic}/{partition} within {self._delivery_timeout_s:g} s",
                hint="is the broker there, and are enough replicas in sync?",
            ) from None

    async def close(self) -> None:
        """Gives up what is still on its way."""
        for task in self._requests:
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)

    def _enqueue(self, write: _Write) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(write)

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        by_leader: dict[Any, list[_Write]] = {}
        for write in waiting:
            leader = self._client.cluster.leader_for_partition(TopicPartition(write.topic, write.partition))
            by_leader.setdefault(leader, []).append(write)
        for leader, writes in by_leader.items():
            task = asyncio.get_running_loop().create_task(self._request(leader, writes))
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)

    async def _request(self, leader: int | None, writes: list[_Write]) -> None:
        if leader is None or leader == -1:
            await self._again(writes, "no leader")
            return
        topics: dict[str, list[tuple[int, bytes]]] = {}
        for write in writes:
            topics.setdefault(write.topic, []).append((write.partition, write.data))
        request = ProduceRequest(
            transactional_id=None, required_acks=-1, timeout=_ACK_TIMEOUT_MS, topics=list(topics.items())
        )
        try:
            response = await self._client.send(leader, request)
        except _CONNECTION_ERRORS as error:
            await self._again(writes, type(error).__name__)
            return
        except Exception as error:
            for write in writes:
                _fail(write, BrokerError(f"cannot write to {write.topic}/{write.partition}: {error}"))
            return
        answers = {(topic, row[0]): row for topic, rows in response.topics for row in rows}
        again: list[_Write] = []
        reason = ""
        for write in writes:
            row = answers.get((write.topic, write.partition))
            answer = kafka.UnknownError if row is None else kafka.for_code(row[1])
            if row is not None and answer is kafka.NoError:
                if not write.done.done():
                    write.done.set_result(row[2])
            elif row is not None and row[1] in _FENCED_CODES:
                _fail(
                    write,
                    Fenced(
                        f"{write.topic}/{write.partition} is written by another worker ({answer.__name__})",
                        hint="this worker was away too long; it comes back with a new epoch when started again",
                    ),
                )
            elif answer.retriable or issubclass(answer, _CONNECTION_ERRORS):
                again.append(write)
                reason = answer.__name__
            else:
                _fail(write, BrokerError(f"{write.topic}/{write.partition} refused a write: {answer.__name__}"))
        if again:
            await self._again(again, reason)

    async def _again(self, writes: list[_Write], reason: str) -> None:
        """Tries once more, after a while and with fresh metadata, unless the caller has given up."""
        for write in writes:
            write.attempts += 1
        log.warning("%d writes not acknowledged (%s), trying again", len(writes), reason)
        first, longest = _BACKOFF_S
        await asyncio.sleep(min(longest, first * 2.0 ** min(write.attempts for write in writes)))
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._client.force_metadata_update(), longest)
        for write in writes:
            if not write.done.done():
                self._enqueue(write)


def _fail(write: _Write, error: Exception) -> None:
    if not write.done.done():
        write.done.set_exception(error)
