from __future__ import annotations

import asyncio
import shlex
from dataclasses import replace

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from loopwarden.broker.embedded import free_port
from loopwarden.broker.topics_admin import check_topics, creation_command, ensure_topics
from loopwarden.connection import Connection
from loopwarden.errors import BrokerError, TopicMismatch
from loopwarden_schemas.topics import Topics, TopicSpec
from tests.brokers.under_test import BrokerUnderTest


@pytest.fixture
def connection(broker: BrokerUnderTest) -> Connection:
    return Connection(broker.bootstrap)


async def describe(broker: BrokerUnderTest, prefix: str) -> dict[str, int]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        topics = await admin.describe_topics(None)
        return {topic["topic"]: len(topic["partitions"]) for topic in topics if topic["topic"].startswith(prefix)}
    finally:
        await admin.close()


def test_all_our_topics_are_created_as_they_must_be(
    broker: BrokerUnderTest, connection: Connection, topic_prefix: str
) -> None:
    topics = Topics(prefix=topic_prefix, partitions=3)

    async def main() -> None:
        specs = topics.specs()
        assert await ensure_topics(connection, specs) == [spec.name for spec in specs]
        assert await describe(broker, topic_prefix) == dict.fromkeys([spec.name for spec in specs], 3)
        check = await check_topics(connection, specs)
        assert (check.missing, check.problems, check.notes, check.unchecked) == ([], [], [], [])

    asyncio.run(main())


def test_it_is_idempotent_and_creates_only_what_is_missing(connection: Connection, topic_prefix: str) -> None:
    specs = Topics(prefix=topic_prefix, partitions=2).specs()

    async def main() -> None:
        assert await ensure_topics(connection, specs[:2]) == [spec.name for spec in specs[:2]]
        assert await ensure_topics(connection, specs) == [spec.name for spec in specs[2:]]
        assert await ensure_topics(connection, specs) == []

    asyncio.run(main())


def test_several_workers_may_create_at_once(broker: BrokerUnderTest, connection: Connection, topic_prefix: str) -> None:
    specs = Topics(prefix=topic_prefix, partitions=2).specs()

    async def main() -> None:
        created = await asyncio.gather(*[ensure_topics(connection, specs) for _ in range(4)])
        assert sorted(name for names in created for name in names) == sorted(spec.name for spec in specs)
        assert await describe(broker, topic_prefix) == dict.fromkeys([spec.name for spec in specs], 2)

    asyncio.run(main())


def test_another_partition_count_is_refused_before_anything_is_created(
    broker: BrokerUnderTest, connection: Connection, topic_prefix: str
) -> None:
    specs = Topics(prefix=topic_prefix, partitions=2).specs()

    async def main() -> None:
        await ensure_topics(connection, [replace(specs[1], partitions=5)])
        with pytest.raises(TopicMismatch) as error:
            await ensure_topics(connection, specs)
        assert f"topic {specs[1].name} has 5 partitions, 2 are needed: run with 5 partitions" in str(error.value)
        assert "is missing" in str(error.value)
        assert error.value.exit_code == 3
        assert list(await describe(broker, topic_prefix)) == [specs[1].name]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("has", "needs", "complaint"),
    [
        ({"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}, "has cleanup.policy=delete, compact is needed"),
        ({"cleanup.policy": "compact,delete"}, {"cleanup.policy": "compact"}, "has cleanup.policy=compact,delete,"),
        (
            {"message.timestamp.type": "CreateTime"},
            {"message.timestamp.type": "LogAppendTime"},
            "has message.timestamp.type=CreateTime, LogAppendTime is needed",
        ),
        (
            {"max.message.bytes": "1000"},
            {"max.message.bytes": "2000"},
            "max.message.bytes=1000, at least 2000",
        ),
    ],
)
def test_settings_that_lose_data_are_refused(
    connection: Connection, topic_prefix: str, has: dict[str, str], needs: dict[str, str], complaint: str
) -> None:
    name = f"{topic_prefix}odd"

    async def main() -> None:
        await ensure_topics(connection, [TopicSpec(name, 1, has)])
        with pytest.raises(TopicMismatch) as error:
            await ensure_topics(connection, [TopicSpec(name, 1, needs)])
        assert complaint in str(error.value)
        ((setting, value),) = needs.items()
        assert f"--alter --entity-type topics --entity-name {name} --add-config {setting}={value}" in str(error.value)

    asyncio.run(main())


def test_settings_that_an_operator_may_choose_are_only_noted(connection: Connection, topic_prefix: str) -> None:
    name = f"{topic_prefix}long"

    async def main() -> None:
        await ensure_topics(connection, [TopicSpec(name, 1, {"retention.ms": "99000", "max.message.bytes": "5000"})])
        spec = TopicSpec(name, 1, {"retention.ms": "1000", "max.message.bytes": "4000"})
        assert await ensure_topics(connection, [spec]) == []
        check = await check_topics(connection, [spec])
        assert check.problems == []
        assert check.notes == [f"topic {name} has retention.ms=99000, we would give it 1000"]

    asyncio.run(main())


def test_without_creation_a_missing_topic_is_a_mismatch_with_the_command_that_creates_it(
    broker: BrokerUnderTest, connection: Connection, topic_prefix: str
) -> None:
    spec = TopicSpec(f"{topic_prefix}absent", 4, {"cleanup.policy": "compact", "retention.ms": "-1"})

    async def main() -> None:
        with pytest.raises(TopicMismatch, match=r"is missing: create it: kafka-topics\.sh") as error:
            await ensure_topics(connection, [spec], create=False, replication_factor=1)
        assert creation_command(connection, spec, 1) in str(error.value)
        assert await describe(broker, topic_prefix) == {}

    asyncio.run(main())


def test_the_command_is_quoted_for_a_shell() -> None:
    spec = TopicSpec("a; rm -rf /", 4, {"cleanup.policy": "compact,delete"})
    assert shlex.split(creation_command(Connection("k:9"), spec, 3)) == [
        *("kafka-topics.sh", "--bootstrap-server", "k:9", "--create", "--topic", "a; rm -rf /"),
        *("--partitions", "4", "--replication-factor", "3", "--config", "cleanup.policy=compact,delete"),
        # Three copies are worth nothing if one alone may acknowledge.
        *("--config", "min.insync.replicas=2"),
    ]


def test_what_the_broker_refuses_is_named(broker: BrokerUnderTest, connection: Connection, topic_prefix: str) -> None:
    if broker.kind == "embedded":
        pytest.skip("the embedded broker takes any name")
    with pytest.raises(
        BrokerError, match=r"topic .*no spaces please cannot be created: Topic name is invalid"
    ) as error:
        asyncio.run(ensure_topics(connection, [TopicSpec(f"{topic_prefix}no spaces please", 1)]))
    assert not isinstance(error.value, TopicMismatch)
    with pytest.raises(BrokerError, match=r"topic .*copies cannot be created: .*replicat"):
        asyncio.run(ensure_topics(connection, [TopicSpec(f"{topic_prefix}copies", 1)], replication_factor=9))


def test_topics_that_were_made_by_others_are_checked_by_what_is_reported(
    broker: BrokerUnderTest, connection: Connection, topic_prefix: str
) -> None:
    """The embedded broker reports only settings that were given; what it does not report is not a mismatch."""
    spec = TopicSpec(f"{topic_prefix}plain", 1, {"cleanup.policy": "compact"})

    async def main() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(spec.name, 1, 1)])
        await admin.close()
        check = await check_topics(connection, [spec])
        if broker.kind == "embedded":
            assert check.unchecked == [spec.name]
            assert await ensure_topics(connection, [spec]) == []
        else:
            assert check.unchecked == []
            assert "cleanup.policy=delete" in str(check.problems[0])

    asyncio.run(main())


def test_a_broker_that_is_not_there_is_named() -> None:
    bootstrap = f"127.0.0.1:{free_port()}"
    with pytest.raises(BrokerError, match=bootstrap):
        asyncio.run(ensure_topics(Connection(bootstrap), [TopicSpec("a", 1)], timeout=5))
