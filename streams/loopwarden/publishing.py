"""Events of a file into the topic, each with the right key in the right partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaProducer

from loopwarden.connection import Connection
from loopwarden.event_log import Line, read_lines
from loopwarden.topic_reading import broker_errors, open_reader
from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.errors import WireError
from loopwarden_schemas.partitioning import partition_of
from loopwarden_schemas.topics import EVENT_BYTES

__all__ = ["BadLine", "check_line", "check_lines", "publish_lines", "publish_one"]

IN_FLIGHT = 5000
"""Events that may wait for the broker's acknowledgement."""
_RECORD_OVERHEAD = 1024


class BadLine(NamedTuple):
    """A line that is no event.

    Attributes:
        number: Its number, from 1.
        problem: Field, reason and value.
    """

    number: int
    problem: str


def check_line(line: Line) -> BadLine | None:
    """What is wrong with a line; None if it can be published."""
    try:
        event = decode_event(line.value)
    except WireError as error:
        return BadLine(line.number, str(error))
    if line.key != event.key.encode("utf-8", "surrogatepass"):
        return BadLine(line.number, "key: is not the root run's or the run's id")
    if len(line.value) + _RECORD_OVERHEAD > EVENT_BYTES:
        return BadLine(line.number, f"message: has {len(line.value)} bytes, {EVENT_BYTES - _RECORD_OVERHEAD} may be")
    return None


def check_lines(path: str | Path) -> Iterator[BadLine]:
    """What is wrong with the lines of a file."""
    for line in read_lines(path):
        if (bad := check_line(line)) is not None:
            yield bad


async def publish_lines(
    connection: Connection,
    topic: str,
    path: str | Path,
    *,
    on_bad: Callable[[BadLine], None],
    on_published: Callable[[int], None],
) -> int:
    """Publishes the events of a file in order, and waits until the broker has them.

    Args:
        connection: The cluster.
        topic: Events topic.
        path: The file.
        on_bad: Told of each line that is no event; the others are published.
        on_published: Told how many are acknowledged so far.

    Returns:
        How many were published.

    Raises:
        BrokerError: The cluster cannot be reached, refuses, or has no such topic.
        UsageError: The file cannot be read.
    """
    async with open_reader(connection, topic) as reader:
        partitions = len(reader.partitions)
    published = 0
    # Without producer ids, which the embedded broker has not, one request at a time keeps the order.
    producer = AIOKafkaProducer(
        **connection.aiokafka(), acks="all", linger_ms=5, max_batch_size=131_072, max_request_size=EVENT_BYTES
    )
    with broker_errors(connection):
        await producer.start()
        try:
            waiting: list[asyncio.Future[object]] = []
            for line in read_lines(path):
                if (bad := check_line(line)) is not None:
                    on_bad(bad)
                    continue
                assert line.key is not None
                partition = partition_of(line.key, partitions)
                waiting.append(await producer.send(topic, line.value, key=line.key, partition=partition))
                if len(waiting) >= IN_FLIGHT:
                    await asyncio.gather(*waiting)
                    published += len(waiting)
                    waiting.clear()
                    on_published(published)
            await asyncio.gather(*waiting)
            published += len(waiting)
            on_published(published)
        finally:
            await producer.stop()
    return published


async def publish_one(connection: Connection, topic: str, key: bytes, value: bytes, partition: int) -> None:
    """Publishes one event and waits until the broker has it.

    Raises:
        BrokerError: The cluster cannot be reached, or refuses.
    """
    producer = AIOKafkaProducer(**connection.aiokafka(), acks="all")
    with broker_errors(connection):
        await producer.start()
        try:
            await producer.send_and_wait(topic, value, key=key, partition=partition)
        finally:
            await producer.stop()
