"""Fixtures and options of all tests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator

import pytest
from aiokafka.errors import KafkaError
from hypothesis import HealthCheck, settings

from tests.brokers.kafka import KafkaCluster
from tests.brokers.secure import SecureKafka
from tests.brokers.under_test import BrokerUnderTest, delete_topics, open_broker

# A busy machine is no failure: properties are about what is computed, never how fast.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

_BROKER_FIXTURES = {"broker", "three_brokers", "secured"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--broker",
        default="embedded",
        metavar="embedded|kafka|HOST:PORT",
        help="the broker of the integration tests: the embedded one, an Apache Kafka of the tests' own, or a cluster",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs the broker is an integration test, so ``-m integration`` runs all that a broker can change."""
    for item in items:
        if not _BROKER_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[BrokerUnderTest]:
    """The broker that ``--broker`` names; one for the whole session, so give your topics the ``topic_prefix``."""
    with open_broker(request.config.getoption("--broker")) as broker:
        yield broker


@pytest.fixture
def topic_prefix(broker: BrokerUnderTest) -> Iterator[str]:
    """A prefix that no other test has; its topics are deleted after the test."""
    prefix = f"t{uuid.uuid4().hex[:10]}."
    yield prefix
    # A test may have killed the broker.
    with contextlib.suppress(KafkaError, OSError):
        asyncio.run(delete_topics(broker.bootstrap, prefix))


@pytest.fixture(scope="module")
def three_brokers(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """Three Kafka brokers of the module's own, to be killed and started again; only with ``--broker kafka``."""
    if request.config.getoption("--broker") != "kafka":
        pytest.skip("needs --broker kafka")
    with KafkaCluster(3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def secured(request: pytest.FixtureRequest) -> Iterator[SecureKafka]:
    """A Kafka broker that demands TLS and log-ins, with ACLs on; only with ``--broker kafka``."""
    if request.config.getoption("--broker") != "kafka":
        pytest.skip("needs --broker kafka")
    with SecureKafka() as cluster:
        yield cluster
