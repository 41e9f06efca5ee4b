"""Doctor on the broker under test, and on one that demands log-ins."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from loopwarden.broker.access import access_rules
from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.cli.main import main
from loopwarden.connection import Connection
from loopwarden.doctor import Finding, examine
from loopwarden_schemas.partitioning import partition_of
from loopwarden_schemas.topics import Topics, TopicSpec
from tests.brokers.secure import SecureKafka
from tests.brokers.under_test import BrokerUnderTest


def findings(connection: Connection, topics: Topics) -> dict[str, Finding]:
    async def collect() -> dict[str, Finding]:
        # Of several of one check the first: the worst come first.
        found: dict[str, Finding] = {}
        async for finding in examine(connection, topics):
            found.setdefault(finding.check, finding)
        return found

    return asyncio.run(collect())


async def publish(connection: Connection, topics: Topics, key: bytes, partition: int) -> None:
    producer = AIOKafkaProducer(**connection.aiokafka())
    await producer.start()
    try:
        await producer.send_and_wait(topics.events, b"{}", key=key, partition=partition)
    finally:
        await producer.stop()


def test_a_deployment_as_it_should_be(broker: BrokerUnderTest, topic_prefix: str) -> None:
    connection, topics = Connection(broker.bootstrap), Topics(topic_prefix, 2)
    asyncio.run(ensure_topics(connection, topics.specs()))
    asyncio.run(publish(connection, topics, b"run-1", partition_of(b"run-1", 2)))
    found = findings(connection, topics)
    # One broker: nobody can promise that nothing is lost with it.
    expected = dict.fromkeys(("versions", "broker", "credentials", "topics", "partitioner"), "ok")
    expected |= {"durability": "warn"} | dict.fromkeys(("clock", "fencing"), "ok" if broker.fenced else "warn")
    assert {check: finding.status for check, finding in found.items()} == expected
    assert found["partitioner"].text == "murmur2; the last 1 events are where their keys belong"

    async def names() -> list[str]:
        admin = AIOKafkaAdminClient(**connection.aiokafka())
        await admin.start()
        try:
            return [name for name in await admin.list_topics() if name.startswith(f"{topics.app_id}-doctor")]
        finally:
            await admin.close()

    assert asyncio.run(names()) == []


def test_events_of_a_publisher_with_another_partitioner(broker: BrokerUnderTest, topic_prefix: str) -> None:
    connection, topics = Connection(broker.bootstrap), Topics(topic_prefix, 4)
    asyncio.run(ensure_topics(connection, topics.specs()))
    # librdkafka's default: CRC32.
    keys = [key for i in range(99) if partition_of(key := b"run-%d" % i, 4) != zlib.crc32(key) % 4]
    asyncio.run(publish(connection, topics, keys[0], zlib.crc32(keys[0]) % 4))
    finding = findings(connection, topics)["partitioner"]
    assert finding.status == "fail"
    assert f"1 of the last 1 events are in another partition than their key has: run {keys[0].decode()}" in finding.text
    assert "murmur2_random" in finding.remedy


def test_topics_that_are_wrong_fail_with_the_command_that_helps(broker: BrokerUnderTest, topic_prefix: str) -> None:
    connection, topics = Connection(broker.bootstrap), Topics(topic_prefix, 2)

    asyncio.run(ensure_topics(connection, [TopicSpec(topics.events, 3)]))
    finding = findings(connection, topics)["topics"]
    assert (finding.status, finding.text) == ("fail", f"topic {topics.verdicts} is missing, or hidden from us")
    assert finding.remedy.startswith("kafka-topics.sh ")


def test_the_command_says_a_line_a_check(
    broker: BrokerUnderTest, topic_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["doctor", "--broker", broker.bootstrap, "--topic-prefix", topic_prefix, "--partitions", "2"]
    assert main([*arguments, "--json"]) == 3
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"versions", "broker", "topics"} <= {document["check"] for document in documents}
    asyncio.run(ensure_topics(Connection(broker.bootstrap), Topics(topic_prefix, 2).specs()))
    assert main(arguments) == 0
    said = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok    broker ") for line in said)


def test_nobody_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--broker", "127.0.0.1:1"]) == 3
    assert "fail  broker      nothing listens on 127.0.0.1:1" in capsys.readouterr().out


def test_an_operator_needs_no_more_than_the_rules(secured: SecureKafka) -> None:
    topics = Topics("doctor.", 1)
    asyncio.run(ensure_topics(Connection(secured.bootstrap), topics.specs()))
    secured.allow(access_rules(topics, "operator", "User:operator"))
    found = findings(secured.login("operator"), topics)
    assert {check for check, finding in found.items() if finding.status != "ok"} == {"durability"}
    assert found["credentials"].text == "the broker takes us as operator by SCRAM-SHA-512, SASL_SSL"


def test_who_may_not_try_is_told_so(secured: SecureKafka) -> None:
    topics = Topics("doctor-reader.", 1)
    asyncio.run(ensure_topics(Connection(secured.bootstrap), topics.specs()))
    secured.allow(access_rules(topics, "reader", "User:reader"))
    found = findings(secured.login("reader"), topics)
    assert (found["fencing"].status, found["clock"].status) == ("warn", "warn")
    assert "allow Create" in found["fencing"].remedy


def test_a_wrong_password_is_one_line_and_no_secret(
    secured: SecureKafka, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOOPWARDEN_BROKER", secured.address("LOGIN"))
    monkeypatch.setenv("LOOPWARDEN_SSL_CA_FILE", secured.certificates.path("ca"))
    monkeypatch.setenv("LOOPWARDEN_SASL_USERNAME", "operator")
    monkeypatch.setenv("LOOPWARDEN_SASL_PASSWORD", "wr0ng-secret")
    assert main(["doctor"]) == 3
    assert main(["topics", "check"]) == 3
    said = capfd.readouterr()
    assert said.out.count("refuses user 'operator': wrong user name or password") == 1
    assert said.err.count("refuses user 'operator': wrong user name or password") == 1
    assert "wr0ng-secret" not in said.out + said.err
