"""Topics as they must be: created where missing, checked where they exist.

A topic with other settings than ours loses data quietly: with another partition count a run's events, rows and verdicts
part; a changelog that is not compacted forgets runs. So a mismatch is an error before anything is read or written.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    NoError,
    PolicyViolationError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from loopwarden.connection import Connection
from loopwarden.diagnosis import check_connection, explained
from loopwarden.errors import BrokerError, TopicMismatch
from loopwarden_schemas.topics import TopicSpec

__all__ = [
    "Durability",
    "TopicCheck",
    "TopicProblem",
    "check_topics",
    "creation_command",
    "delete_topics",
    "durability",
    "ensure_topics",
]

log = logging.getLogger(__name__)

BROKER_DEFAULT = -1
"""As replication factor: the broker's ``default.replication.factor``."""
REPLICATED = 3
"""From so many copies on, a write has to be acknowledged by ``MIN_IN_SYNC`` of them: one broker may be lost."""
MIN_IN_SYNC = 2
# Other settings may differ: how long to keep records is the operator's decision.
_EXACT = frozenset({"cleanup.policy", "message.timestamp.type"})
_AT_LEAST = frozenset({"max.message.bytes"})
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class TopicProblem:
    """What is wrong with one topic.

    Attributes:
        topic: Its name.
        problem: What is wrong.
        remedy: What to do about it.
    """

    topic: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"topic {self.topic} {self.problem}: {self.remedy}"


@dataclass(frozen=True)
class TopicCheck:
    """What a check found.

    Attributes:
        missing: Topics that do not exist, or that we may not see.
        problems: What must be changed before work can start.
        notes: Settings that differ and may, one line each.
        unchecked: Topics whose settings the broker does not report to us.
    """

    missing: list[TopicSpec] = field(default_factory=list)
    problems: list[TopicProblem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Durability:
    """What the loss of brokers costs a topic.

    Attributes:
        partitions: Number of partitions.
        replicas: Copies of the partition that has the fewest.
        in_sync: Of them, how many are in sync where fewest are.
        min_in_sync: ``min.insync.replicas``: fewer, and nothing can be written; None where it is not reported to us.
    """

    partitions: int
    replicas: int
    in_sync: int
    min_in_sync: int | None


def creation_command(connection: Connection, spec: TopicSpec, replication_factor: int = BROKER_DEFAULT) -> str:
    """The command of Apache Kafka's own tools that creates the topic as it must be."""
    words = ["kafka-topics.sh", "--bootstrap-server", connection.bootstrap, "--create", "--topic", spec.name]
    words += ["--partitions", str(spec.partitions)]
    if replication_factor != BROKER_DEFAULT:
        words += ["--replication-factor", str(replication_factor)]
    for name, value in sorted(_creation_config(spec, replication_factor).items()):
        words += ["--config", f"{name}={value}"]
    return shlex.join(words)


def _creation_config(spec: TopicSpec, replication_factor: int) -> dict[str, str]:
    """The settings that a new topic gets: those of the contract, and what makes its copies count."""
    durable = {"min.insync.replicas": str(MIN_IN_SYNC)} if replication_factor >= REPLICATED else {}
    return {**durable, **spec.config}


async def check_topics(connection: Connection, specs: Iterable[TopicSpec], *, timeout: float = 30.0) -> TopicCheck:
    """Compares the topics of a cluster with what they must be; changes nothing.

    Args:
        connection: The cluster.
        specs: The topics.
        timeout: Seconds for all of it.

    Raises:
        BrokerError: The cluster cannot be reached, refuses, or does not answer in time.
    """
    async with _admin(connection, timeout) as admin:
        return await _check(admin, connection, list(specs))


async def ensure_topics(
    connection: Connection,
    specs: Iterable[TopicSpec],
    *,
    replication_factor: int = BROKER_DEFAULT,
    create: bool = True,
    timeout: float = 30.0,
) -> list[str]:
    """Creates the topics that are missing and checks the others; waits until all have a leader.

    Several workers may do this at once.

    Args:
        connection: The cluster.
        specs: The topics.
        replication_factor: Copies of each partition of a new topic; -1 leaves it to the broker. With 3 or more a write
            has to be acknowledged by 2 (``min.insync.replicas``).
        create: Whether to create; otherwise a missing topic is a mismatch (locked-down clusters).
        timeout: Seconds for all of it.

    Returns:
        Names of the topics that this call created.

    Raises:
        TopicMismatch: A topic is not as it must be; the message says what to do.
        BrokerError: The cluster cannot be reached, refuses, or does not answer in time.
    """
    specs = list(specs)
    async with _admin(connection, timeout) as admin:
        check = await _check(admin, connection, specs)
        created: list[str] = []
        if check.missing and not check.problems and create:
            created = await _create(admin, connection, check.missing, replication_factor)
            # Also what another worker created in the meantime.
            check = await _check_when_visible(admin, connection, specs)
    problems = check.problems + [
        TopicProblem(spec.name, "is missing", f"create it: {creation_command(connection, spec, replication_factor)}")
        for spec in check.missing
    ]
    if problems:
        raise TopicMismatch("; ".join(map(str, problems)))
    for note in check.notes:
        log.info("%s", note)
    if check.unchecked:
        log.info("the broker does not report the settings of %s: not checked", ", ".join(check.unchecked))
    return created


async def durability(
    connection: Connection, names: Iterable[str], *, timeout: float = 30.0
) -> tuple[int, dict[str, Durability]]:
    """How many brokers there are, and what the loss of some costs each topic that exists.

    Args:
        connection: The cluster.
        names: The topics.
        timeout: Seconds for all of it.

    Raises:
        BrokerError: The cluster cannot be reached, refuses, or does not answer in time.
    """
    wanted = set(names)
    async with _admin(connection, timeout) as admin:
        brokers = (await _persistently(admin.describe_cluster))["brokers"]
        topics = [topic for topic in await _persistently(admin.describe_topics, None) if topic["topic"] in wanted]
        configs = await _configs(admin, [topic["topic"] for topic in topics])
    found = {}
    for topic in topics:
        minimum = configs.get(topic["topic"], {}).get("min.insync.replicas")
        found[topic["topic"]] = Durability(
            partitions=len(topic["partitions"]),
            replicas=min(len(partition["replicas"]) for partition in topic["partitions"]),
            in_sync=min(len(partition["isr"]) for partition in topic["partitions"]),
            min_in_sync=None if minimum is None else int(minimum),
        )
    return len(brokers), found


async def delete_topics(connection: Connection, names: Sequence[str], *, timeout: float = 30.0) -> None:
    """Deletes topics; those that are not there are none.

    Raises:
        BrokerError: The cluster cannot be reached, refuses, or does not answer in time.
    """
    async with _admin(connection, timeout) as admin:
        response = await admin.delete_topics(list(names))
    for name, error_code, *_ in response.topic_error_codes:
        kind = for_code(error_code)
        if kind not in (NoError, UnknownTopicOrPartitionError):
            raise BrokerError(f"topic {name} cannot be deleted: {kind.__name__}")


@asynccontextmanager
async def _admin(connection: Connection, timeout: float) -> AsyncIterator[AIOKafkaAdminClient]:
    """An admin client; what goes wrong inside becomes a :class:`BrokerError`."""
    admin = AIOKafkaAdminClient(**connection.aiokafka(), request_timeout_ms=int(timeout * 1000))
    try:
        await check_connection(connection, timeout_s=timeout)
        async with asyncio.timeout(timeout):
            await admin.start()
            yield admin
    except TimeoutError as error:
        raise BrokerError(f"{connection.bootstrap} did not finish with the topics within {timeout:g} s") from error
    except KafkaError as error:
        raise await explained(connection, error) from error
    finally:
        await admin.close()


async def _persistently(request: Any, *arguments: Any) -> Any:
    """Repeats a request that only reads while it fails for a reason that may pass; the caller has a time-out."""
    while True:
        try:
            return await request(*arguments)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.debug("asking again: %s", error)
            await asyncio.sleep(_POLL_SECONDS)


async def _check(admin: AIOKafkaAdminClient, connection: Connection, specs: Sequence[TopicSpec]) -> TopicCheck:
    # All topics, not ours by name: a broker that creates topics by itself would create those that are asked for.
    topics = {topic["topic"]: topic for topic in await _persistently(admin.describe_topics, None)}
    check = TopicCheck(missing=[spec for spec in specs if spec.name not in topics])
    present = [spec for spec in specs if spec.name in topics]
    for spec in present:
        count = len(topics[spec.name]["partitions"])
        if count != spec.partitions:
            check.problems.append(_partition_problem(spec, count))
    configs = await _configs(admin, [spec.name for spec in present])
    for spec in present:
        config = configs.get(spec.name)
        if not config:
            check.unchecked.append(spec.name)
            continue
        for name, needed in spec.config.items():
            actual = config.get(name)
            if actual is None or _fits(name, actual, needed):
                continue
            if name in _EXACT or name in _AT_LEAST:
                check.problems.append(_config_problem(connection, spec.name, name, actual, needed))
            else:
                check.notes.append(f"topic {spec.name} has {name}={actual}, we would give it {needed}")
    return check


def _fits(name: str, actual: str, needed: str) -> bool:
    if name == "cleanup.policy":
        return set(actual.replace(" ", "").split(",")) == set(needed.replace(" ", "").split(","))
    if name in _AT_LEAST:
        return int(actual) >= int(needed)
    return actual == needed


def _partition_problem(spec: TopicSpec, count: int) -> TopicProblem:
    return TopicProblem(
        spec.name,
        f"has {count} partitions, {spec.partitions} are needed",
        f"run with {count} partitions if all topics have as many, or choose another topic prefix, or delete the topic "
        "if nobody needs its content; never add partitions to it, or a run's events part from its rows",
    )


def _config_problem(connection: Connection, topic: str, name: str, actual: str, needed: str) -> TopicProblem:
    least = "at least " if name in _AT_LEAST else ""
    value = f"[{needed}]" if "," in needed else needed
    words = ["kafka-configs.sh", "--bootstrap-server", connection.bootstrap, "--alter", "--entity-type", "topics"]
    words += ["--entity-name", topic, "--add-config", f"{name}={value}"]
    return TopicProblem(topic, f"has {name}={actual}, {least}{needed} is needed", f"change it: {shlex.join(words)}")


async def _configs(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Topic → its settings, as far as the broker reports them to us."""
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    configs: dict[str, dict[str, str]] = {}
    for response in await _persistently(admin.describe_configs, resources):
        for error_code, _message, _kind, topic, entries in response.resources:
            if error_code == NoError.errno:
                configs[topic] = {entry[0]: entry[1] for entry in entries if entry[1] is not None}
    return configs


async def _create(
    admin: AIOKafkaAdminClient, connection: Connection, specs: Sequence[TopicSpec], replication_factor: int
) -> list[str]:
    pending = {spec.name: spec for spec in specs}
    created: list[str] = []
    while pending:
        # An assignment, though empty: without one aiokafka refuses a factor of -1.
        assignment: dict[int, list[int]] | None = {} if replication_factor == BROKER_DEFAULT else None
        new = [
            NewTopic(
                spec.name,
                spec.partitions,
                replication_factor,
                assignment,
                _creation_config(spec, replication_factor),
            )
            for spec in pending.values()
        ]
        try:
            response = await admin.create_topics(new)
        except KafkaError as error:
            if not error.retriable:
                raise
            # It may have been done all the same; then the next answer is "already exists".
            log.debug("creating again: %s", error)
            await asyncio.sleep(_POLL_SECONDS)
            continue
        # A refusal raises nothing, it only stands in the answer.
        for name, error_code, *rest in response.topic_errors:
            kind = for_code(error_code)
            if kind is NoError:
                created.append(name)
            elif kind is not TopicAlreadyExistsError:
                if kind.retriable:
                    continue
                raise _refusal(connection, pending[name], kind, rest[0] if rest else None, replication_factor)
            pending.pop(name, None)
        if pending:
            await asyncio.sleep(_POLL_SECONDS)
    return created


def _refusal(
    connection: Connection, spec: TopicSpec, kind: type[KafkaError], text: str | None, replication_factor: int
) -> BrokerError:
    command = creation_command(connection, spec, replication_factor)
    if kind is TopicAuthorizationFailedError:
        return BrokerError(
            f"topic {spec.name} is missing, or hidden from us, and we may not create it",
            hint=f"allow Create and Describe on it, or create it: {command}",
        )
    hint = f"create it: {command}" if kind is PolicyViolationError else ""
    return BrokerError(f"topic {spec.name} cannot be created: {text or kind.description or kind.__name__}", hint=hint)


async def _check_when_visible(
    admin: AIOKafkaAdminClient, connection: Connection, specs: Sequence[TopicSpec]
) -> TopicCheck:
    """The check, once every topic and a leader for each partition is known; creation is acknowledged before that."""
    names = {spec.name for spec in specs}
    while True:
        topics = [topic for topic in await _persistently(admin.describe_topics, None) if topic["topic"] in names]
        leaders = [partition["leader"] for topic in topics for partition in topic["partitions"]]
        if len(topics) == len(names) and min(leaders, default=-1) >= 0:
            check = await _check(admin, connection, specs)
            # The next question may go to a broker that has not heard of them yet.
            if not check.missing:
                return check
        await asyncio.sleep(_POLL_SECONDS)
