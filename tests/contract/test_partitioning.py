"""Everybody puts a key into the same partition: us, aiokafka, librdkafka as we ask for it, the Java client."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.partitioner import DefaultPartitioner, murmur2
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from loopwarden_schemas import partitioning
from loopwarden_schemas.examples import partitioning as vectors
from tests.brokers.under_test import BrokerUnderTest

# From the tests of the Java client (org.apache.kafka.common.utils.UtilsTest, testMurmur2), signed as Java has it.
JAVA = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: ascii(vector["key"])[:20])
def test_vector(vector: dict[str, Any]) -> None:
    key = vector["key"].encode()
    assert partitioning.murmur2(key) == vector["murmur2"] == murmur2(key) & 0xFFFFFFFF
    for count, partition in vector["partitions"].items():
        everywhere = list(range(int(count)))
        assert partitioning.partition_of(key, int(count)) == partition == DefaultPartitioner()(key, everywhere, [])


def test_vectors_hold_what_the_java_client_is_tested_with() -> None:
    ours = {vector["key"]: vector["murmur2"] for vector in vectors()}
    assert {key: ours.get(key) for key in JAVA} == {key: value & 0xFFFFFFFF for key, value in JAVA.items()}


def test_librdkafka_agrees_with_the_partitioner_that_we_ask_for(broker: BrokerUnderTest, topic_prefix: str) -> None:
    """Its default is another one; ``murmur2_random`` is ours, for every key that is not empty."""
    topic, count = f"{topic_prefix}keys", 12
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, count, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"})
    got: dict[str, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None
        got[message.key().decode()] = message.partition()

    wanted = {vector["key"]: vector["partitions"][str(count)] for vector in vectors() if vector["key"]}
    for key in wanted:
        producer.produce(topic, b"x", key.encode(), on_delivery=delivered)
    assert producer.flush(10) == 0
    assert got == wanted
