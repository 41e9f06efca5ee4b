"""The Kafka fixtures themselves: what the fault tests rely on."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden_schemas.topics import TopicSpec
from tests.brokers.kafka import KafkaCluster
from tests.brokers.under_test import BrokerUnderTest


async def produce(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, request_timeout_ms=4000, retry_backoff_ms=50
    )
    await producer.start()
    try:
        for i in range(first, first + count):
            await producer.send_and_wait(topic, str(i).encode(), partition=0)
    finally:
        await producer.stop()


async def consume(bootstrap: str, topic: str, count: int) -> list[int]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", request_timeout_ms=4000)
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        async with asyncio.timeout(30):
            return [int((await consumer.getone()).value or b"") for _ in range(count)]
    finally:
        await consumer.stop()


def test_idempotent_writes_work_where_the_broker_is_said_to_fence(broker: BrokerUnderTest, topic_prefix: str) -> None:
    if not broker.fenced:
        pytest.skip("this broker has no producer ids")
    topic = f"{topic_prefix}idempotent"

    async def main() -> None:
        await ensure_topics(Connection(broker.bootstrap), [TopicSpec(topic, 1)])
        await produce(broker.bootstrap, topic, 3)
        assert await consume(broker.bootstrap, topic, 3) == [0, 1, 2]

    asyncio.run(main())


def test_the_brokers_clock_stamps_where_it_is_said_to(broker: BrokerUnderTest, topic_prefix: str) -> None:
    topic = f"{topic_prefix}stamped"

    async def main() -> int:
        await ensure_topics(
            Connection(broker.bootstrap), [TopicSpec(topic, 1, {"message.timestamp.type": "LogAppendTime"})]
        )
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        try:
            await producer.send_and_wait(topic, b"x", partition=0, timestamp_ms=1_000)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            record = await asyncio.wait_for(consumer.getone(), 10)
            return int(record.timestamp)
        finally:
            await consumer.stop()

    stamp = asyncio.run(main())
    if broker.append_time:
        assert abs(stamp - time.time() * 1000) < 60_000
    else:
        assert stamp == 1_000


@pytest.mark.faults
def test_a_killed_broker_costs_no_acknowledged_record(three_brokers: KafkaCluster) -> None:
    topic = "survivor"
    bootstrap = three_brokers.bootstrap

    async def main() -> None:
        await ensure_topics(Connection(bootstrap), [TopicSpec(topic, 1)], replication_factor=3)
        await produce(bootstrap, topic, 50)
        for number, node in enumerate(three_brokers.nodes):
            writing = asyncio.create_task(produce(bootstrap, topic, 50, first=50 + 50 * number))
            await asyncio.to_thread(node.kill)
            await writing
            await asyncio.to_thread(node.start)
            await asyncio.to_thread(three_brokers.wait)
            await asyncio.to_thread(three_brokers.wait_in_sync)
        assert await consume(bootstrap, topic, 200) == list(range(200))

    asyncio.run(main())


@pytest.mark.faults
def test_one_broker_keeps_its_data_and_port_over_a_kill(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--broker") != "kafka":
        pytest.skip("needs --broker kafka")
    with KafkaCluster() as cluster:
        (node,) = cluster.nodes
        bootstrap, pid, folder = cluster.bootstrap, node.pid, cluster.folder

        async def before() -> None:
            await ensure_topics(Connection(bootstrap), [TopicSpec("kept", 1)])
            await produce(bootstrap, "kept", 5)

        asyncio.run(before())
        node.kill()
        assert node.pid is None
        with pytest.raises(RuntimeError, match="ended with code -9"):
            node.check()
        node.start()
        cluster.wait()
        assert node.pid != pid
        assert asyncio.run(consume(bootstrap, "kept", 5)) == [0, 1, 2, 3, 4]
        last = node.pid
    assert last is not None
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)
    assert not folder.exists()


@pytest.mark.faults
def test_a_broker_that_ends_while_starting_fails_at_once(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--broker") != "kafka":
        pytest.skip("needs --broker kafka")
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?s)Kafka node 1 ended with code 1; it said:\n.*no\.such\.Authorizer"):
        KafkaCluster(properties={"authorizer.class.name": "no.such.Authorizer"}, start_timeout=120).start()
    assert time.monotonic() - began < 60
