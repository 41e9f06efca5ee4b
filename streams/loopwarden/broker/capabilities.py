"""What a broker can do beyond the plain protocol."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.transaction import InitProducerIdRequest

from loopwarden.connection import Connection
from loopwarden.diagnosis import check_connection, explained

__all__ = ["Capabilities", "probe_capabilities"]

_WITHOUT_PRODUCER_IDS = frozenset([-1, 35])  # UNKNOWN_SERVER_ERROR (the embedded broker), UNSUPPORTED_VERSION


@dataclass(frozen=True)
class Capabilities:
    """What a broker can do.

    Attributes:
        producer_ids: It hands out producer ids: writers can be fenced. Apache Kafka does, the embedded broker does not.
        append_time: It stamps records itself (``message.timestamp.type=LogAppendTime``), so that runs may expire by its
            clock. A broker without producer ids is taken for one that keeps the sender's time: the embedded one does.
        wakes_fetches: A waiting fetch is answered as soon as there is a record.
    """

    producer_ids: bool
    append_time: bool
    wakes_fetches: bool


async def probe_capabilities(connection: Connection, *, timeout_s: float = 30.0) -> Capabilities:
    """Asks the broker for a producer id, and so finds out which kind it is.

    Args:
        connection: The cluster.
        timeout_s: Seconds for all of it.

    Raises:
        BrokerError: It cannot be reached or does not answer in time.
    """
    client = AIOKafkaClient(**connection.aiokafka())
    try:
        await check_connection(connection, timeout_s=timeout_s)
        async with asyncio.timeout(timeout_s):
            await client.bootstrap()
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response = await client.send(client.get_random_node(), request)
    except kafka.IncompatibleBrokerVersion:
        return Capabilities(False, False, False)
    except (kafka.KafkaError, OSError, TimeoutError) as error:
        raise await explained(connection, error) from error
    finally:
        await client.close()
    # Not being allowed to have one (CLUSTER_AUTHORIZATION_FAILED) is an answer of a broker that has them.
    known = response.error_code not in _WITHOUT_PRODUCER_IDS
    return Capabilities(known, known, known)
