"""``loopwarden doctor``: is everything here that a worker and its runners need? Each check is one line.

The checks build on each other: where the broker cannot be reached, nothing else is asked. What has to be tried (the
broker's clock, fencing) is tried on a topic of its own, which is deleted afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as kafka

from loopwarden.broker.capabilities import Capabilities, probe_capabilities
from loopwarden.broker.topics_admin import check_topics, creation_command, delete_topics, durability, ensure_topics
from loopwarden.connection import Connection
from loopwarden.diagnosis import diagnose
from loopwarden.errors import LoopWardenError
from loopwarden.fencing import check_fencing
from loopwarden_schemas.partitioning import murmur2, partition_of
from loopwarden_schemas.topics import RESERVED, Topics, TopicSpec

__all__ = ["Finding", "Status", "examine"]

Status = Literal["ok", "warn", "fail"]
LOOPBACK = ("127.0.0.1", "::1", "localhost")
# murmur2 of the Java client; CRC32, librdkafka's default, gives other numbers.
_KEY, _HASH = b"a", 2731586172
_SAMPLE = 200
_READ_S = 5.0
_SKEW_WARN_S, _SKEW_FAIL_S = 1.0, 60.0
# Our transport, writer and tables stand on internals of these: pyproject.toml pins them for the worker.
_PINNED = {"faust-streaming": "0.15.3", "mode-streaming": "0.7.1", "aiokafka": "0.14.0"}


@dataclass(frozen=True)
class Finding:
    """What one check found.

    Attributes:
        check: Its name.
        status: ``ok``; ``warn``: works, but should be looked at; ``fail``: a worker would not start, or would be wrong.
        text: What was found.
        remedy: What to do about it; empty where nothing is to be done.
    """

    check: str
    status: Status
    text: str
    remedy: str = ""


async def examine(connection: Connection, topics: Topics) -> AsyncIterator[Finding]:
    """Examines a deployment, one finding after the other.

    Args:
        connection: The cluster.
        topics: The deployment's topics.
    """
    yield _versions()
    problem = await diagnose(connection)
    if problem is not None:
        yield Finding("broker", "fail", str(problem), problem.hint)
        return
    try:
        capabilities = await probe_capabilities(connection)
        brokers, _ = await durability(connection, [])
    except LoopWardenError as error:
        yield _failed("broker", error)
        return
    yield Finding("broker", "ok", f"{connection.bootstrap} answers, {brokers} broker{'s' if brokers != 1 else ''}")
    yield _credentials(connection)
    for name, check in (("topics", _topics), ("durability", _durability), ("partitioner", _partitioner)):
        try:
            for finding in await check(connection, topics):
                yield finding
        except (LoopWardenError, kafka.KafkaError, OSError, TimeoutError) as error:
            yield _failed(name, error)
    async for finding in _on_scratch_topic(connection, topics, capabilities):
        yield finding


def _failed(check: str, error: Exception) -> Finding:
    hint = error.hint if isinstance(error, LoopWardenError) else ""
    return Finding(check, "fail", str(error) or type(error).__name__, hint)


def _versions() -> Finding:
    found, wrong = {}, []
    with contextlib.suppress(metadata.PackageNotFoundError):  # it may run out of its sources
        found["loopwarden"] = metadata.version("loopwarden")
    for name, pinned in _PINNED.items():
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if found[name] != pinned:
            wrong.append(f"{name} is {found[name]}, a worker needs {pinned}")
    if wrong:
        return Finding("versions", "fail", "; ".join(wrong), "pip install 'loopwarden[worker]'")
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    return Finding("versions", "ok", f"Python {platform.python_version()}, {listed}")


def _credentials(connection: Connection) -> Finding:
    if connection.security_protocol == "PLAINTEXT":
        if all(host in LOOPBACK for host, _ in connection.servers):
            return Finding("credentials", "ok", "none are needed: plain text on loopback")
        return Finding(
            "credentials",
            "warn",
            "anybody on the network may read events and forge verdicts: plain text, no log-in",
            "use TLS, a log-in and ACLs (docker/README.md)",
        )
    who = f" as {connection.username}" if connection.username else ""
    how = f" by {connection.sasl_mechanism}" if connection.sasl_mechanism else ""
    text = f"the broker takes us{who}{how}, {connection.security_protocol}"
    if not connection.tls:
        return Finding("credentials", "warn", f"{text}: not encrypted", "use SASL_SSL")
    return Finding("credentials", "ok", text)


async def _topics(connection: Connection, topics: Topics) -> list[Finding]:
    specs = topics.specs()
    check = await check_topics(connection, specs)
    findings = [
        Finding(
            "topics", "fail", f"topic {spec.name} is missing, or hidden from us", creation_command(connection, spec)
        )
        for spec in check.missing
    ]
    findings += [Finding("topics", "fail", f"topic {p.topic} {p.problem}", p.remedy) for p in check.problems]
    findings += [Finding("topics", "warn", note) for note in check.notes]
    findings += [
        Finding("topics", "warn", f"the settings of topic {name} are not reported to us", "allow DescribeConfigs on it")
        for name in check.unchecked
    ]
    if not findings:
        text = f"{len(specs)} topics of {topics.partitions} partitions, settings as they must be"
        findings.append(Finding("topics", "ok", text))
    return findings


async def _durability(connection: Connection, topics: Topics) -> list[Finding]:
    names = [spec.name for spec in topics.specs()]
    brokers, found = await durability(connection, names)
    if not found:
        return []
    weak = []
    for name, topic in found.items():
        if topic.in_sync < topic.replicas:
            weak.append(f"{name} has {topic.in_sync} of {topic.replicas} copies in sync")
        elif topic.replicas < 3:
            weak.append(f"{name} has {topic.replicas} cop{'y' if topic.replicas == 1 else 'ies'}, 3 in production")
        elif topic.min_in_sync is not None and not 2 <= topic.min_in_sync < topic.replicas:
            weak.append(f"{name} has min.insync.replicas={topic.min_in_sync}, 2 in production")
    if not weak:
        return [Finding("durability", "ok", "3 copies or more, acknowledged by 2 or more: one broker may be lost")]
    # With a broker lost there are fewer of them, too: copies out of sync say more.
    if brokers < 3 and all(topic.in_sync == topic.replicas for topic in found.values()):
        text = f"{brokers} broker{'s' if brokers > 1 else ''}: what is lost with one is lost"
        return [Finding("durability", "warn", text, "three brokers in production (docker/README.md)")]
    return [Finding("durability", "warn", "; ".join(weak), "see the production settings in docker/README.md")]


async def _partitioner(connection: Connection, topics: Topics) -> list[Finding]:
    """Our hash against a known value, and the keys of the last events against their partitions."""
    if murmur2(_KEY) != _HASH:
        return [Finding("partitioner", "fail", "murmur2 gives a wrong value on this machine", "please report it")]
    _, found = await durability(connection, [topics.events])
    if topics.events not in found or found[topics.events].partitions != topics.partitions:
        return []  # said by the check of the topics; and a broker may create a topic that is asked for
    checked, stray = 0, []
    async for partition, key in _last_keys(connection, topics):
        checked += 1
        if partition_of(key, topics.partitions) != partition:
            stray.append((partition, key))
    if stray:
        partition, key = stray[0]
        shown = ascii(key.decode("utf-8", "replace"))[1:-1][:40]
        return [
            Finding(
                "partitioner",
                "fail",
                f"{len(stray)} of the last {checked} events are in another partition than their key has: run {shown} "
                f"in {partition}, not {partition_of(key, topics.partitions)}",
                "a publisher hashes otherwise: librdkafka needs partitioner=murmur2_random",
            )
        ]
    return [Finding("partitioner", "ok", f"murmur2; the last {checked} events are where their keys belong")]


async def _last_keys(connection: Connection, topics: Topics) -> AsyncIterator[tuple[int, bytes]]:
    consumer = AIOKafkaConsumer(**connection.aiokafka(), enable_auto_commit=False)
    await consumer.start()
    try:
        tps = [TopicPartition(topics.events, number) for number in range(topics.partitions)]
        async with asyncio.timeout(_READ_S * 4):
            begins, ends = await consumer.beginning_offsets(tps), await consumer.end_offsets(tps)
        consumer.assign([tp for tp in tps if ends[tp] > begins[tp]])
        for tp in consumer.assignment():
            consumer.seek(tp, max(begins[tp], ends[tp] - _SAMPLE))
        behind = set(consumer.assignment())
        deadline = time.monotonic() + _READ_S
        while behind and time.monotonic() < deadline:
            for tp, records in (await consumer.getmany(timeout_ms=500)).items():
                for record in records:
                    if record.key is not None and not record.key.startswith(RESERVED):
                        yield tp.partition, record.key
                if records and records[-1].offset >= ends[tp] - 1:
                    behind.discard(tp)
    finally:
        await consumer.stop()


async def _on_scratch_topic(
    connection: Connection, topics: Topics, capabilities: Capabilities
) -> AsyncIterator[Finding]:
    if not capabilities.producer_ids:
        text = "the broker keeps the sender's time, so runs do not expire"
        yield Finding("clock", "warn", text, "use Apache Kafka in production")
        text = "the broker hands out no producer ids: a worker that wakes from a pause may write over another's rows"
        yield Finding("fencing", "warn", text, "use Apache Kafka in production")
        return
    name = f"{topics.app_id}-doctor-{uuid.uuid4().hex[:8]}"
    try:
        await ensure_topics(connection, [TopicSpec(name, 1, {"message.timestamp.type": "LogAppendTime"})])
    except LoopWardenError as error:
        remedy = f"allow Create, Read, Write, Delete on topics that begin with {topics.app_id}-doctor-"
        for check in ("clock", "fencing"):
            yield Finding(check, "warn", f"not tried: {error}", remedy)
        return
    try:
        for check, trial in (("clock", _clock), ("fencing", _fencing)):
            try:
                yield await trial(connection, name)
            except (LoopWardenError, kafka.KafkaError, OSError, TimeoutError) as error:
                yield _failed(check, error)
    finally:
        with contextlib.suppress(LoopWardenError):
            await delete_topics(connection, [name])


async def _clock(connection: Connection, topic: str) -> Finding:
    producer = AIOKafkaProducer(**connection.aiokafka(), acks="all", request_timeout_ms=10_000)
    await producer.start()
    try:
        # The first write also fetches metadata; the second is timed.
        await producer.send_and_wait(topic, b"", partition=0)
        before = time.time()
        written = await producer.send_and_wait(topic, b"", partition=0)
        after = time.time()
    finally:
        await producer.stop()
    stamp = written.timestamp / 1000
    # Milliseconds: the broker's stamp is cut off.
    skew = stamp - before if stamp < before - 0.001 else max(0.0, stamp - after)
    text = f"the broker's clock is {abs(skew):.3f} s {'behind' if skew < 0 else 'ahead of'} ours"
    if abs(skew) < _SKEW_WARN_S:
        return Finding("clock", "ok", f"within {after - before + abs(skew):.3f} s of the broker's")
    status: Status = "fail" if abs(skew) >= _SKEW_FAIL_S else "warn"
    return Finding("clock", status, text, "run NTP on both: times on the page and in verdicts of replays differ")


async def _fencing(connection: Connection, topic: str) -> Finding:
    found = await check_fencing(connection, topic, topic)
    if found.fences:
        return Finding("fencing", "ok", "an older writer is refused after a newer one's first record")
    missing: Iterable[str] = [
        text
        for good, text in (
            (found.same_producer, "a second writer got another producer id"),
            (found.epoch_rose, "the epoch did not rise"),
            (found.refused_after_barrier, "an older writer is still heard after a newer one has written"),
            (found.newer_goes_on, "the newer writer was refused"),
        )
        if not good
    ]
    return Finding(
        "fencing", "fail", "; ".join(missing), "do not run workers on this broker: rows could be overwritten"
    )
