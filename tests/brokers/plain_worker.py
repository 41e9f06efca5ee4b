"""A worker in fifty lines: consumes events, folds them, produces verdicts. Nothing durable, no group.

What runner tests judge by, and what the Faust worker can be compared with.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden.detection.partition import Batch, fold_batch
from loopwarden_schemas.codec import decode_event
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.events import Event
from loopwarden_schemas.topics import Topics
from tests.loads.records import MemoryRows

__all__ = ["PlainWorker", "plain_worker"]

STRICT = {"enabled": True, "warningThreshold": 2, "criticalThreshold": 3, "globalCircuitBreakerThreshold": 4}
"""Thresholds low enough for short tests: the third repeat is warned of, the fourth refused."""


class PlainWorker:
    """Folds every partition of the events topic from its beginning, until it is stopped.

    Attributes:
        batches: What was folded, in order.
        events: Every event read, in the order of their partitions.
        dead: Keys and reasons of what could not be taken.
    """

    def __init__(self, bootstrap: str, topics: Topics, configuration: Configuration, fetch_wait_ms: int) -> None:
        self.topics = topics
        self.configuration = configuration
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.dead: list[str] = []
        self._bootstrap = bootstrap
        self._fetch_wait_ms = fetch_wait_ms
        self._rows = {partition: MemoryRows() for partition in range(topics.partitions)}
        self._watermarks = dict.fromkeys(range(topics.partitions), -1)

    def of_run(self, run_id: str, kind: type[Event] | None = None) -> list[Any]:
        """Events of a run, of one kind if given."""
        return [event for event in self.events if event.run_id == run_id and (kind is None or isinstance(event, kind))]

    async def run(self, ready: threading.Event) -> None:
        """Works until it is cancelled."""
        connection = Connection(self._bootstrap)
        await ensure_topics(connection, self.topics.specs())
        consumer = AIOKafkaConsumer(
            **connection.aiokafka(), auto_offset_reset="earliest", fetch_max_wait_ms=self._fetch_wait_ms
        )
        producer = AIOKafkaProducer(**connection.aiokafka(), acks="all")
        await consumer.start()
        await producer.start()
        try:
            consumer.assign([TopicPartition(self.topics.events, partition) for partition in self._rows])
            await consumer.seek_to_beginning()
            ready.set()
            while True:
                for tp, records in (await consumer.getmany(timeout_ms=200)).items():
                    for key, value in self._fold(tp.partition, records):
                        await producer.send(self.topics.verdicts, value, key=key, partition=tp.partition)
        finally:
            await producer.stop()
            await consumer.stop()

    def _fold(self, partition: int, records: list[Any]) -> list[tuple[bytes, bytes]]:
        rows, watermark = self._rows[partition], self._watermarks[partition]
        batch = fold_batch(
            rows, self.topics.events, partition, records, self.configuration, watermark=watermark, expiry=False
        )
        rows.apply(batch)
        self._watermarks[partition] = batch.next_offset - 1
        self.batches.append(batch)
        self.dead += [f"{letter.field}: {letter.reason}" for letter in batch.dead_letters]
        refused = {letter.record.offset for letter in batch.dead_letters}
        self.events += [decode_event(record.value) for record in records if record.offset not in refused]
        return batch.encoded_verdicts()


@contextmanager
def plain_worker(
    bootstrap: str,
    topic_prefix: str,
    configuration: Configuration | None = None,
    *,
    partitions: int = 4,
    fetch_wait_ms: int = 10,
) -> Iterator[PlainWorker]:
    """Runs a worker in a thread, its topics created.

    Args:
        bootstrap: The broker.
        topic_prefix: Of its topics.
        configuration: What counts as a loop; low thresholds by default.
        partitions: Of each topic.
        fetch_wait_ms: How long a fetch waits.
    """
    configuration = configuration or Configuration.from_block(STRICT)
    worker = PlainWorker(bootstrap, Topics(topic_prefix, partitions), configuration, fetch_wait_ms)
    ready, loop = threading.Event(), asyncio.new_event_loop()
    failed: list[BaseException] = []

    async def main() -> None:
        work = loop.create_task(worker.run(ready))
        stop.append(work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            pass

    def target() -> None:
        try:
            loop.run_until_complete(main())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()
            loop.close()

    stop: list[Any] = []
    thread = threading.Thread(target=target, name="plain-worker", daemon=True)
    thread.start()
    assert ready.wait(20), "the worker did not start"
    try:
        if failed:
            raise failed[0]
        yield worker
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(stop[0])
        thread.join(10)
    if failed:
        raise failed[0]
