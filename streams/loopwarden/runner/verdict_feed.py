"""Verdicts in: one consumer per process, without a group, on the partitions of its own runs only.

Runs in the library's event loop. A partition's end offset is fetched before a run's first event is published, so no
verdict on it can lie before the position. Keys of other runs are skipped undecoded.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as kafka

from loopwarden.broker.capabilities import probe_capabilities
from loopwarden.connection import Connection
from loopwarden.errors import LoopWardenError
from loopwarden.runner.bus import Deliver
from loopwarden_schemas.codec import decode_verdict
from loopwarden_schemas.errors import WireError

__all__ = ["VerdictFeed"]

log = logging.getLogger(__name__)

FOLLOW_SECONDS = 2.0
"""Events wait so long until their run's verdicts are followed; then they go, and its standing is asked for later."""
_POLL_MS = 200
_BACKOFF = (0.1, 5.0)
_RETRY_SECONDS = 5.0
_UNFOLLOW_AFTER_SECONDS = 30.0
_STOP_SECONDS = 1.0
_FETCH_WAIT_MS = 500
_POLLED_FETCH_WAIT_MS = 20
_TROUBLE = (kafka.KafkaError, LoopWardenError, OSError, TimeoutError, RuntimeError, ValueError)


class VerdictFeed:
    """Follows verdicts.

    Args:
        connection: The cluster; it need not be there.
        topic: Verdict topic.
        deliver: Told of every verdict on a key that is followed.
        followed_late: Called with a key that is followed only after its first events went out.
    """

    def __init__(
        self, connection: Connection, topic: str, *, deliver: Deliver, followed_late: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._deliver = deliver
        self._followed_late = followed_late
        self._consumer: AIOKafkaConsumer | None = None
        self._fetch_wait_ms: int | None = None
        self._keys: dict[bytes, TopicPartition] = {}
        self._late: dict[str, int] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._empty_since: dict[TopicPartition, float] = {}
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()
        self._troubled = False
        self._not_before = 0.0
        self.received = 0

    async def follow(self, key: str, partition: int) -> None:
        """Verdicts on a key are delivered from now on, or as soon as the broker lets us. Never raises.

        Args:
            key: Message key.
            partition: Its partition.
        """
        if key.encode("utf-8", "surrogatepass") in self._keys or key in self._late:
            return
        clock = asyncio.get_running_loop().time
        if clock() < self._not_before and TopicPartition(self._topic, partition) not in self._positions:
            self._late[key] = partition  # it failed a moment ago: not every run waits for that
            return
        try:
            async with asyncio.timeout(FOLLOW_SECONDS):
                await self._follow(key, partition)
        except _TROUBLE as error:
            self._warn(error)
            self._not_before = clock() + _RETRY_SECONDS
            self._late[key] = partition
            self._changed.set()

    def unfollow(self, key: str) -> None:
        """No run of this process has that key any more."""
        self._late.pop(key, None)
        self._keys.pop(key.encode("utf-8", "surrogatepass"), None)

    async def run(self) -> None:
        """Delivers verdicts until it is cancelled."""
        failures = 0
        try:
            while True:
                if not self._positions and not self._late:
                    self._changed.clear()
                    await self._changed.wait()
                try:
                    await self._catch_up()
                    await self._poll()
                    failures = 0
                    self._troubled = False
                except _TROUBLE as error:
                    self._warn(error)
                    async with self._lock:
                        await self._disconnect()
                    first, longest = _BACKOFF
                    await asyncio.sleep(min(longest, first * 2.0**failures))
                    failures = min(failures + 1, 20)
        finally:
            await self._disconnect()

    async def _follow(self, key: str, partition: int) -> None:
        tp = TopicPartition(self._topic, partition)
        async with self._lock:
            if tp not in self._positions:
                consumer = await self._connected()
                ends = await consumer.end_offsets([tp])
                self._positions[tp] = ends[tp]
                self._assign(consumer)
        self._keys[key.encode("utf-8", "surrogatepass")] = tp
        self._changed.set()

    async def _catch_up(self) -> None:
        """Follows what could not be followed in time."""
        for key, partition in list(self._late.items()):
            async with asyncio.timeout(FOLLOW_SECONDS):
                await self._follow(key, partition)
            if self._late.pop(key, None) is not None:
                self._followed_late(key)

    async def _poll(self) -> None:
        async with self._lock:
            consumer = await self._connected()
        for tp, records in (await consumer.getmany(timeout_ms=_POLL_MS)).items():
            for record in records:
                if record.key in self._keys:
                    self._take(record.key, record.value)
            if tp in self._positions:
                self._positions[tp] = records[-1].offset + 1
        await self._leave()

    def _take(self, key: bytes, value: bytes | None) -> None:
        try:
            verdict = decode_verdict(value or b"")
        except WireError as error:
            log.error("a verdict cannot be read: %s", error)
            return
        self.received += 1
        self._deliver(key.decode("utf-8", "surrogatepass"), verdict)

    async def _leave(self) -> None:
        """Leaves partitions on which no run of this process has been for a while."""
        now = asyncio.get_running_loop().time()
        used = set(self._keys.values())
        for tp in list(self._positions):
            if tp in used:
                self._empty_since.pop(tp, None)
            elif now - self._empty_since.setdefault(tp, now) > _UNFOLLOW_AFTER_SECONDS:
                async with self._lock:
                    if tp not in self._keys.values() and self._positions.pop(tp, None) is not None:
                        self._empty_since.pop(tp, None)
                        self._assign(await self._connected())

    def _assign(self, consumer: AIOKafkaConsumer) -> None:
        consumer.assign(list(self._positions))
        for tp, position in self._positions.items():
            consumer.seek(tp, position)

    async def _connected(self) -> AIOKafkaConsumer:
        if self._consumer is not None:
            return self._consumer
        if self._fetch_wait_ms is None:
            # The embedded broker does not answer a waiting fetch when something comes.
            broker = await probe_capabilities(self._connection, timeout_s=FOLLOW_SECONDS)
            self._fetch_wait_ms = _FETCH_WAIT_MS if broker.wakes_fetches else _POLLED_FETCH_WAIT_MS
        consumer = AIOKafkaConsumer(
            enable_auto_commit=False,
            # Where the position is gone, the topic was made anew: nothing of the new one may be missed.
            auto_offset_reset="earliest",
            fetch_max_wait_ms=self._fetch_wait_ms,
            retry_backoff_ms=500,
            client_id="loopwarden-runner",
            **self._connection.aiokafka(),
        )
        try:
            await consumer.start()
            if self._positions:
                self._assign(consumer)
        except BaseException:
            with contextlib.suppress(Exception):
                await consumer.stop()
            raise
        self._consumer = consumer
        return consumer

    async def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(consumer.stop(), _STOP_SECONDS)

    def _warn(self, error: Exception) -> None:
        if not self._troubled:
            self._troubled = True
            # Ours name the cause; those of the client say most things by their class alone.
            reason = str(error) if isinstance(error, LoopWardenError) else type(error).__name__
            log.warning("verdicts cannot be followed: %s (%s)", reason, self._connection)
