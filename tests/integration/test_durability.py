"""The production settings on three brokers: applied, and holding when one is lost. Only with --broker kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient

from loopwarden.broker.topics_admin import Durability, durability
from loopwarden.cli.main import main
from loopwarden.connection import Connection
from loopwarden.doctor import examine
from loopwarden.processor.errors import DeliveryTimeout
from loopwarden.processor.sender import Sender
from loopwarden.processor.writer import PartitionWriter, init_producer_id
from loopwarden_schemas.topics import Topics
from tests.brokers.kafka import KafkaCluster

TOPICS = Topics("durable.", 2)


@pytest.fixture(scope="module")
def careless_brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three brokers whose defaults promise little: what holds is what LoopWarden asks for."""
    if request.config.getoption("--broker") != "kafka":
        pytest.skip("needs --broker kafka")
    with KafkaCluster(3, properties={"min.insync.replicas": "1", "default.replication.factor": "1"}) as cluster:
        yield cluster


@pytest.mark.integration
@pytest.mark.faults
def test_one_of_three_brokers_may_be_lost(careless_brokers: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = careless_brokers
    connection = Connection(cluster.bootstrap)
    names = [spec.name for spec in TOPICS.specs()]
    create = ["topics", "create", "--broker", cluster.bootstrap, "--topic-prefix", TOPICS.prefix, "--partitions", "2"]
    assert main([*create, "--replication-factor", "3"]) == 0
    cluster.wait_in_sync()
    brokers, found = asyncio.run(durability(connection, names))
    assert brokers == 3
    assert found == dict.fromkeys(names, Durability(partitions=2, replicas=3, in_sync=3, min_in_sync=2))

    async def main_() -> None:
        statuses = {finding.check: finding.status async for finding in examine(connection, TOPICS)}
        assert set(statuses.values()) == {"ok"}, statuses
        client = AIOKafkaClient(**connection.aiokafka(), request_timeout_ms=4000, metadata_max_age_ms=1000)
        await client.bootstrap()
        sender = Sender(client, delivery_timeout_s=30)
        try:
            await client.set_topics(names)
            writer = PartitionWriter(sender, 0, await init_producer_id(client, "durable-0", timeout_s=30))
            await write(writer, range(50))
            first, second, _ = cluster.nodes
            writing = asyncio.create_task(write(writer, range(50, 150)))
            await asyncio.to_thread(first.kill)
            await writing
            weak = {finding.check: finding async for finding in examine(connection, TOPICS)}["durability"]
            assert (weak.status, "2 of 3 copies in sync" in weak.text) == ("warn", True)
            # With two of three gone nothing is acknowledged that one broker alone would hold.
            await asyncio.to_thread(second.kill)
            impatient = Sender(client, delivery_timeout_s=4)
            alone = PartitionWriter(impatient, 1, writer.identity)
            with pytest.raises(DeliveryTimeout):
                await alone.write(TOPICS.verdicts, [(b"lost", b"")], 1 << 16)
            await impatient.close()
            for node in (first, second):
                await asyncio.to_thread(node.start)
            await asyncio.to_thread(cluster.wait)
            await asyncio.to_thread(cluster.wait_in_sync)
            await write(writer, range(150, 200))
        finally:
            await sender.close()
            await client.close()
        assert await read(connection, 200) == list(range(200))

    asyncio.run(main_())


async def write(writer: PartitionWriter, numbers: range) -> None:
    for number in numbers:
        await writer.write(TOPICS.verdicts, [(b"run", str(number).encode())], 1 << 16)


async def read(connection: Connection, count: int) -> list[int]:
    consumer = AIOKafkaConsumer(**connection.aiokafka(), auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(TOPICS.verdicts, 0)])
        async with asyncio.timeout(30):
            return [int((await consumer.getone()).value) for _ in range(count)]
    finally:
        await consumer.stop()
