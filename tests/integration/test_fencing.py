"""The older epoch is refused after the barrier, and heard before it: on one broker, on three, over a broker's death."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient

from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden.fencing import Fencing, check_fencing
from loopwarden.processor.errors import Fenced
from loopwarden.processor.sender import Sender
from loopwarden.processor.writer import PartitionWriter, init_producer_id
from loopwarden_schemas.topics import TopicSpec
from tests.brokers.kafka import KafkaCluster
from tests.brokers.under_test import BrokerUnderTest

AS_NEEDED = Fencing(
    same_producer=True, epoch_rose=True, heard_before_barrier=True, refused_after_barrier=True, newer_goes_on=True
)


def test_one_broker_fences_from_the_barrier_on(broker: BrokerUnderTest, topic_prefix: str) -> None:
    if not broker.fenced:
        pytest.skip("this broker has no producer ids")
    connection, topic = Connection(broker.bootstrap), TopicSpec(f"{topic_prefix}fenced", 1)

    async def main() -> Fencing:
        await ensure_topics(connection, [topic])
        return await check_fencing(connection, topic.name, topic.name)

    assert asyncio.run(main()) == AS_NEEDED


@pytest.mark.faults
def test_three_brokers_fence_and_go_on_fencing_when_the_leader_dies(three_brokers: KafkaCluster) -> None:
    connection, topic = Connection(three_brokers.bootstrap), TopicSpec("fenced", 1)

    async def main() -> list[bytes]:
        await ensure_topics(connection, [topic], replication_factor=3)
        assert await check_fencing(connection, topic.name, "check") == AS_NEEDED
        await asyncio.to_thread(three_brokers.wait_in_sync)
        client = AIOKafkaClient(**connection.aiokafka(), request_timeout_ms=4000, metadata_max_age_ms=1000)
        await client.bootstrap()
        sender = Sender(client, delivery_timeout_s=30)
        try:
            await client.set_topics([topic.name])
            old, new = [
                PartitionWriter(sender, 0, await init_producer_id(client, "writer", timeout_s=30)) for _ in range(2)
            ]
            await old.write(topic.name, [(b"run", b"old, before the barrier")], 1 << 16)
            await new.barrier(topic.name, b"new")
            leader = client.cluster.leader_for_partition(TopicPartition(topic.name, 0))
            (dead,) = [node for node in three_brokers.nodes if node.number == leader]
            await asyncio.to_thread(dead.kill)
            # The next leader knows the epochs from the log.
            with pytest.raises(Fenced):
                await old.write(topic.name, [(b"run", b"old, after it")], 1 << 16)
            await new.write(topic.name, [(b"run", b"new")], 1 << 16)
            await asyncio.to_thread(dead.start)
            await asyncio.to_thread(three_brokers.wait)
            await asyncio.to_thread(three_brokers.wait_in_sync)
        finally:
            await sender.close()
            await client.close()
        return await values(connection, topic.name)

    assert asyncio.run(main())[-3:] == [b"old, before the barrier", b"new", b"new"]


async def values(connection: Connection, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(**connection.aiokafka(), auto_offset_reset="earliest")
    await consumer.start()
    try:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        end = (await consumer.end_offsets([tp]))[tp]
        read: list[bytes] = []
        async with asyncio.timeout(30):
            while len(read) < end:
                read.append((await consumer.getone()).value)
        return read
    finally:
        await consumer.stop()
