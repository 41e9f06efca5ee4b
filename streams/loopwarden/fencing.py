"""Does this broker fence? The behaviour that delivery stands on, shown on the broker at hand.

No document promises it: two writers of one transactional id write idempotent batches that are *not* transactional. The
older one is still heard after the newer has taken its epoch; from the newer's first record on, the barrier, it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiokafka.client import AIOKafkaClient

from loopwarden.connection import Connection
from loopwarden.processor.errors import Fenced
from loopwarden.processor.sender import Sender
from loopwarden.processor.writer import PartitionWriter, init_producer_id

__all__ = ["Fencing", "check_fencing"]

_LIMIT = 1 << 16


@dataclass(frozen=True)
class Fencing:
    """What two writers of one transactional id met.

    Attributes:
        same_producer: Both got the same producer id; otherwise neither fences the other.
        epoch_rose: The second got the epoch after that of the first.
        heard_before_barrier: The older was taken until the newer wrote: why a barrier is needed.
        refused_after_barrier: The older was refused from then on.
        newer_goes_on: The newer was taken all the time.
    """

    same_producer: bool
    epoch_rose: bool
    heard_before_barrier: bool
    refused_after_barrier: bool
    newer_goes_on: bool

    @property
    def fences(self) -> bool:
        """Whether an older writer is kept out, which is all that delivery needs."""
        return self.same_producer and self.epoch_rose and self.refused_after_barrier and self.newer_goes_on


async def check_fencing(
    connection: Connection, topic: str, transactional_id: str, *, partition: int = 0, timeout_s: float = 30.0
) -> Fencing:
    """Lets two writers of one transactional id write to a topic.

    Args:
        connection: The cluster; it must hand out producer ids.
        topic: A topic that may be written to; it keeps four records of this.
        transactional_id: An id that no worker uses.
        partition: The partition.
        timeout_s: Seconds for each step.

    Raises:
        BrokerError: It cannot be tried: not reached, refused, no acknowledgement.
    """
    client = AIOKafkaClient(client_id="loopwarden-fencing", **connection.aiokafka())
    await client.bootstrap()
    sender = Sender(client, delivery_timeout_s=timeout_s)
    try:
        await client.set_topics([topic])
        old = PartitionWriter(sender, partition, await init_producer_id(client, transactional_id, timeout_s=timeout_s))
        await old.barrier(topic, b"old")
        new = PartitionWriter(sender, partition, await init_producer_id(client, transactional_id, timeout_s=timeout_s))
        heard = await _is_heard(old, topic)
        await new.barrier(topic, b"new")
        # A writer that failed is never used again; the broker's answer is wanted here, not the writer's own.
        old.lost = False
        return Fencing(
            same_producer=old.identity.producer_id == new.identity.producer_id,
            epoch_rose=new.identity.epoch == old.identity.epoch + 1,
            heard_before_barrier=heard,
            refused_after_barrier=not await _is_heard(old, topic),
            newer_goes_on=await _is_heard(new, topic),
        )
    finally:
        await sender.close()
        await client.close()


async def _is_heard(writer: PartitionWriter, topic: str) -> bool:
    try:
        await writer.write(topic, [(b"probe", b"")], _LIMIT)
    except Fenced:
        return False
    return True
