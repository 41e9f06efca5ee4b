"""Right credentials work; each kind of wrong ones gives one line that names the cause. Only with ``--broker kafka``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from loopwarden.broker.access import AccessRule
from loopwarden.broker.capabilities import probe_capabilities
from loopwarden.broker.topics_admin import check_topics, ensure_topics
from loopwarden.connection import Connection
from loopwarden.diagnosis import check_connection, diagnose
from loopwarden.errors import BrokerError
from loopwarden_schemas.topics import TopicSpec
from tests.brokers.secure import SecureKafka

Named = Callable[[SecureKafka], Connection]
TOPIC = TopicSpec("credentials", 1)

RIGHT: dict[str, Named] = {
    "TLS": lambda kafka: Connection(kafka.address("TLS"), ca_file=kafka.certificates.path("ca")),
    "mTLS": lambda kafka: Connection(
        kafka.address("MTLS"), ca_file=kafka.certificates.path("ca"), cert_file=kafka.certificates.path("runner")
    ),
    "SCRAM": lambda kafka: kafka.login("runner"),
    "OAUTHBEARER": lambda kafka: kafka.token_login(kafka.tokens.issue("runner")),
}
WRONG: dict[str, tuple[Named, str]] = {
    "wrong password": (
        lambda kafka: kafka.login("runner", password="wr0ng-secret"),
        r"refuses user 'runner': wrong user name or password \(SCRAM-SHA-512\)",
    ),
    "unknown user": (
        lambda kafka: kafka.login("runner", username="nobody"),
        r"refuses user 'nobody': wrong user name or password",
    ),
    "mechanism that is off": (
        lambda kafka: kafka.login("runner", sasl_mechanism="SCRAM-SHA-256"),
        "does not offer SASL mechanism SCRAM-SHA-256",
    ),
    "wrong authority": (
        lambda kafka: kafka.login("runner", ca_file=kafka.certificates.path("foreign-ca")),
        r"signed by none of the trusted authorities \(those in .*foreign-ca\.pem\)",
    ),
    "expired certificate of the broker": (
        lambda kafka: Connection(kafka.address("EXPIRED"), ca_file=kafka.certificates.path("ca")),
        r"the certificate of \S+ has expired",
    ),
    "another host's certificate": (
        lambda kafka: Connection(kafka.address("TLS", "localhost"), ca_file=kafka.certificates.path("ca")),
        r"the certificate of localhost:\d+ names another host",
    ),
    "no client certificate": (
        lambda kafka: Connection(kafka.address("MTLS"), ca_file=kafka.certificates.path("ca")),
        "wants a client certificate and none is given",
    ),
    "expired client certificate": (
        lambda kafka: Connection(
            kafka.address("MTLS"),
            ca_file=kafka.certificates.path("ca"),
            cert_file=kafka.certificates.path("runner-expired"),
        ),
        r"our certificate '.*runner-expired\.pem' has expired on \d{4}-",
    ),
    "client certificate of a foreign authority": (
        lambda kafka: Connection(
            kafka.address("MTLS"),
            ca_file=kafka.certificates.path("ca"),
            cert_file=kafka.certificates.path("runner-foreign"),
        ),
        r"refuses our certificate '.*runner-foreign\.pem'",
    ),
    "expired token": (
        lambda kafka: kafka.token_login(kafka.tokens.issue("runner", exp=int(time.time()) - 120)),
        r"refuses our token: it has expired on \d{4}-",
    ),
    "token for somebody else": (
        lambda kafka: kafka.token_login(kafka.tokens.issue("runner", aud="elsewhere")),
        "refuses our token, which has not expired",
    ),
    "forged token": (
        lambda kafka: kafka.token_login(kafka.tokens.forge("runner")),
        "refuses our token, which has not expired",
    ),
    "plain text to a TLS port": (
        lambda kafka: Connection(kafka.address("TLS")),
        "speaks TLS, but security protocol PLAINTEXT is plain text",
    ),
    "TLS to a plain port": (
        lambda kafka: Connection(kafka.bootstrap, ca_file=kafka.certificates.path("ca")),
        "does not speak TLS, but security protocol SSL does",
    ),
    "no log-in where one is wanted": (
        lambda kafka: Connection(kafka.address("LOGIN"), ca_file=kafka.certificates.path("ca")),
        "wants a SASL log-in, and none is given",
    ),
    "a log-in where none is taken": (
        lambda kafka: replace(kafka.login("runner"), bootstrap=kafka.address("TLS")),
        "takes no SASL log-in",
    ),
}


async def diagnosed(connection: Connection) -> None:
    if (error := await diagnose(connection)) is not None:
        raise error


@pytest.fixture(scope="module")
def topic(secured: SecureKafka) -> TopicSpec:
    """A topic that any user who is logged in may use."""
    secured.allow([AccessRule("User:runner", "topic", TOPIC.name, ("Read", "Write", "DescribeConfigs"))])
    asyncio.run(ensure_topics(Connection(secured.bootstrap), [TOPIC]))
    return TOPIC


@pytest.mark.parametrize("how", RIGHT)
def test_right_credentials_work_on_every_client(secured: SecureKafka, topic: TopicSpec, how: str) -> None:
    connection = RIGHT[how](secured)

    async def main() -> bytes | None:
        await check_connection(connection)
        found = await check_topics(connection, [topic])
        assert (found.missing, found.problems) == ([], [])
        assert (await probe_capabilities(connection)).producer_ids
        producer = AIOKafkaProducer(**connection.aiokafka(), enable_idempotence=True)
        await producer.start()
        try:
            await producer.send_and_wait(topic.name, how.encode())
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic.name, **connection.aiokafka(), auto_offset_reset="earliest")
        await consumer.start()
        try:
            async with asyncio.timeout(20):
                async for record in consumer:
                    if record.value == how.encode():
                        return bytes(record.value)
        finally:
            await consumer.stop()
        return None

    assert asyncio.run(main()) == how.encode()


@pytest.mark.parametrize("case", WRONG)
def test_wrong_credentials_are_named_in_one_line(
    secured: SecureKafka, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    named, cause = WRONG[case]
    connection = named(secured)
    caplog.set_level(logging.DEBUG, "loopwarden")
    for attempt in (
        lambda: diagnosed(connection),
        lambda: check_topics(connection, [TOPIC], timeout=8),
        lambda: ensure_topics(connection, [TOPIC], timeout=8),
        lambda: probe_capabilities(connection, timeout_s=8),
    ):
        with pytest.raises(BrokerError, match=cause) as raised:
            asyncio.run(attempt())
        assert "\n" not in str(raised.value)
        said = f"{raised.value} {raised.value.hint} {raised.value!r} {caplog.text}"
        for secret in filter(None, (connection.password, connection.token)):
            assert secret not in said


def test_a_token_file_that_is_not_there(secured: SecureKafka, tmp_path: Path) -> None:
    connection = Connection(
        secured.address("LOGIN"), ca_file=secured.certificates.path("ca"), token_file=str(tmp_path / "nowhere")
    )
    with pytest.raises(BrokerError, match=r"token file '.*nowhere' cannot be read: No such file"):
        asyncio.run(check_connection(connection))


def test_nobody_is_there() -> None:
    with pytest.raises(BrokerError, match=r"nothing listens on 127\.0\.0\.1:1"):
        asyncio.run(diagnosed(Connection("127.0.0.1:1")))
