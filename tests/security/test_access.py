"""The access rules on a Kafka with an authorizer: each role can do its work, and nothing beside it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.metadata import MetadataRequest

from loopwarden.broker.access import Role, access_rules, acl_commands
from loopwarden.broker.topics_admin import check_topics, ensure_topics
from loopwarden.connection import Connection
from loopwarden.errors import BrokerError
from loopwarden.processor.sender import Sender
from loopwarden.processor.writer import PartitionWriter, init_producer_id
from loopwarden_schemas.topics import Topics
from tests.brokers.secure import SecureKafka

TOPICS = Topics("acl.", 2)
Attempt = Callable[[Connection], Awaitable[object]]


async def write(connection: Connection, topic: str, **options: object) -> None:
    producer = AIOKafkaProducer(**connection.aiokafka(), acks="all", request_timeout_ms=5000, **options)
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"value", key=b"run", partition=0)
    finally:
        await producer.stop()


async def see(connection: Connection, topic: str) -> None:
    """Asks for a topic's partitions: a consumer that may not see them waits for ever."""
    client = AIOKafkaClient(**connection.aiokafka())
    await client.bootstrap()
    try:
        answer = await client.send(client.get_random_node(), MetadataRequest([topic], False))
    finally:
        await client.close()
    ((code, *_),) = answer.topics
    if code:
        raise kafka.for_code(code)(topic)


async def read(connection: Connection, topic: str, group: str | None = None) -> bytes:
    await see(connection, topic)
    consumer = AIOKafkaConsumer(
        **connection.aiokafka(), group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        if group is None:
            consumer.assign([TopicPartition(topic, 0)])
        else:
            consumer.subscribe([topic])
        async with asyncio.timeout(15):
            record = await consumer.getone()
        if group is not None:
            await consumer.commit()
        return bytes(record.value)
    finally:
        await consumer.stop()


async def write_fenced(connection: Connection, topic: str, transactional_id: str) -> None:
    client = AIOKafkaClient(**connection.aiokafka())
    await client.bootstrap()
    sender = Sender(client, delivery_timeout_s=10)
    try:
        await client.set_topics([topic])
        writer = PartitionWriter(sender, 0, await init_producer_id(client, transactional_id, timeout_s=10))
        await writer.barrier(topic, b"test")
        await writer.write(topic, [(b"run", b"value")], 1 << 20)
    finally:
        await sender.close()
        await client.close()


@pytest.fixture(scope="module")
def deployment(secured: SecureKafka) -> SecureKafka:
    """The topics, with a record in each, and the rules of every role. User ``stranger`` has none."""
    plain = Connection(secured.bootstrap)

    async def prepare() -> None:
        await ensure_topics(plain, TOPICS.specs())
        for spec in TOPICS.specs():
            await write(plain, spec.name)

    asyncio.run(prepare())
    roles: tuple[tuple[Role, str], ...] = (("runner", "runner"), ("worker", "worker"), ("reader", "reader"))
    for role, user in roles:
        secured.allow(access_rules(TOPICS, role, f"User:{user}"))
    return secured


EVERYTHING = tuple(spec.name for spec in TOPICS.specs())
CHANGELOGS = (TOPICS.history_ring, TOPICS.post_compaction_window)

ALLOWED: dict[str, tuple[str, Attempt]] = {
    "runner publishes events": ("runner", lambda c: write(c, TOPICS.events)),
    "runner publishes events, idempotent": ("runner", lambda c: write(c, TOPICS.events, enable_idempotence=True)),
    "runner follows verdicts without a group": ("runner", lambda c: read(c, TOPICS.verdicts)),
    "worker reads events in its group": ("worker", lambda c: read(c, TOPICS.events, TOPICS.app_id)),
    "worker recovers a table": ("worker", lambda c: read(c, TOPICS.history_ring)),
    **{
        f"worker writes {name}, fenced": (
            "worker",
            lambda c, name=name: write_fenced(c, name, f"{TOPICS.app_id}-0"),
        )
        for name in (TOPICS.verdicts, TOPICS.shadow_verdicts, TOPICS.dead_letters, *CHANGELOGS)
    },
    **{f"reader reads {name}": ("reader", lambda c, name=name: read(c, name)) for name in EVERYTHING},
}
FORBIDDEN: dict[str, tuple[str, Attempt]] = {
    **{
        f"runner forges into {name}": ("runner", lambda c, name=name: write(c, name))
        for name in EVERYTHING
        if name != TOPICS.events
    },
    **{
        f"runner reads {name}": ("runner", lambda c, name=name: read(c, name))
        for name in EVERYTHING
        if name != TOPICS.verdicts
    },
    "runner joins the workers' group": ("runner", lambda c: read(c, TOPICS.verdicts, TOPICS.app_id)),
    "runner takes a group of its own": ("runner", lambda c: read(c, TOPICS.verdicts, "runner")),
    "runner fences a worker out": ("runner", lambda c: write_fenced(c, TOPICS.events, f"{TOPICS.app_id}-0")),
    "worker publishes events": ("worker", lambda c: write(c, TOPICS.events)),
    "worker takes another application's id": ("worker", lambda c: write_fenced(c, TOPICS.verdicts, "other-0")),
    "worker joins another group": ("worker", lambda c: read(c, TOPICS.events, "other")),
    **{f"reader writes {name}": ("reader", lambda c, name=name: write(c, name)) for name in EVERYTHING},
    **{f"stranger reads {name}": ("stranger", lambda c, name=name: read(c, name)) for name in EVERYTHING},
    "stranger publishes events": ("stranger", lambda c: write(c, TOPICS.events)),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_each_role_can_do_its_work(deployment: SecureKafka, case: str) -> None:
    user, attempt = ALLOWED[case]
    asyncio.run(attempt(deployment.login(user)))


@pytest.mark.parametrize("case", FORBIDDEN)
def test_the_broker_refuses_what_is_not_a_roles_work(deployment: SecureKafka, case: str) -> None:
    user, attempt = FORBIDDEN[case]
    with pytest.raises((kafka.KafkaError, BrokerError)) as refused:
        asyncio.run(attempt(deployment.login(user)))
    assert "AuthorizationFailed" in f"{type(refused.value).__name__}: {refused.value}"


def test_the_workers_check_of_topics_needs_no_more(deployment: SecureKafka) -> None:
    found = asyncio.run(check_topics(deployment.login("worker"), TOPICS.specs()))
    assert (found.missing, found.problems, found.notes, found.unchecked) == ([], [], [], [])


def test_a_worker_creates_topics_only_where_it_may(deployment: SecureKafka) -> None:
    other = Topics("acl-created.", 1)
    worker = deployment.login("worker")
    with pytest.raises(BrokerError, match="may not create it"):
        asyncio.run(ensure_topics(worker, other.specs()))
    deployment.allow(access_rules(other, "worker", "User:worker", create_topics=True))
    assert len(asyncio.run(ensure_topics(worker, other.specs()))) == len(other.specs())


def test_the_commands_are_what_kafkas_own_tool_takes(deployment: SecureKafka) -> None:
    """A runner's rule by the tool: afterwards the stranger may publish events."""
    rules = [rule for rule in access_rules(TOPICS, "runner", "User:stranger") if "Write" in rule.operations]
    (line,) = acl_commands(deployment.bootstrap, rules)
    command = deployment.runtime.command("org.apache.kafka.tools.AclCommand", *line.split()[1:])
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    asyncio.run(write(deployment.login("stranger"), TOPICS.events))
