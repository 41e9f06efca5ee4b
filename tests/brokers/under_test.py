"""What a test knows of the broker that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.transaction import InitProducerIdRequest

from loopwarden.broker.embedded import EmbeddedBroker
from tests.brokers.kafka import KafkaCluster

__all__ = ["BrokerUnderTest", "delete_topics", "open_broker"]


@dataclass(frozen=True)
class BrokerUnderTest:
    """A running broker.

    Attributes:
        kind: ``embedded``, ``kafka`` (started for the tests) or ``external`` (named by ``--broker HOST:PORT``).
        bootstrap: ``HOST:PORT``.
        fenced: It has producer ids, so idempotent writes work and older epochs are refused.
        append_time: It honours ``message.timestamp.type=LogAppendTime``.
    """

    kind: Literal["embedded", "kafka", "external"]
    bootstrap: str
    fenced: bool
    append_time: bool


@contextmanager
def open_broker(choice: str) -> Iterator[BrokerUnderTest]:
    """Starts, or finds, the broker that ``--broker`` names, and stops what it started.

    Args:
        choice: ``embedded``, ``kafka`` or ``HOST:PORT``.
    """
    if choice == "embedded":
        with EmbeddedBroker() as embedded:
            yield BrokerUnderTest("embedded", embedded.bootstrap, fenced=False, append_time=False)
    elif choice == "kafka":
        with KafkaCluster() as cluster:
            yield BrokerUnderTest("kafka", cluster.bootstrap, fenced=True, append_time=True)
    else:
        fenced = asyncio.run(_grants_producer_ids(choice))
        yield BrokerUnderTest("external", choice, fenced=fenced, append_time=fenced)


async def _grants_producer_ids(bootstrap: str) -> bool:
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        response = await client.send(client.get_random_node(), request)
        return bool(response.error_code == 0)
    finally:
        await client.close()


async def delete_topics(bootstrap: str, prefix: str) -> None:
    """Deletes every topic whose name begins with ``prefix``."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        names = [name for name in await admin.list_topics() if name.startswith(prefix)]
        if names:
            await admin.delete_topics(names)
    finally:
        await admin.close()
