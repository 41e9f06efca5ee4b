"""Events out: a lane for each partition, batches, again and again while the broker is away, dropped beyond the bound.

Runs in the library's event loop. Within a partition one batch is under way at a time, so events keep their order; what
may have been written already is sent again as the same batch, and the worker drops it by its event ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka
from msgspec import UNSET

from loopwarden.connection import Connection
from loopwarden.diagnosis import check_connection
from loopwarden.errors import LoopWardenError
from loopwarden.runner.bus import OnOffset
from loopwarden.runner.stats import BusStats
from loopwarden_schemas.codec import encode_event
from loopwarden_schemas.events import Event, PublisherStats
from loopwarden_schemas.partitioning import partition_of
from loopwarden_schemas.topics import EVENT_BYTES

__all__ = ["Outgoing", "Publisher"]

log = logging.getLogger(__name__)

BATCH_BYTES = 256 * 1024
BATCH_EVENTS = 500
BATCH_EVENTS_OF_A_RUN = 64
"""A worker knows the last 64 event ids of a run: a batch that is sent twice must not hold more of one run."""
_BACKOFF = (0.1, 5.0)
_REQUEST_TIMEOUT_MS = 10_000
_STOP_SECONDS = 1.0
_OVERHEAD_BYTES = 1024
_REPORT_SECONDS = 60.0
_REFUSED = (
    kafka.MessageSizeTooLargeError,
    kafka.RecordListTooLargeError,
    kafka.InvalidMessageError,
    kafka.CorruptRecordException,
)
"""What is not worth a second try."""

Follow = Callable[[str, int], Awaitable[None]]


class Outgoing:
    """An event that waits; without one, the mark that nobody follows its key any more.

    Attributes:
        key: Message key.
        event: The event.
        on_offset: Told where it stands.
        queued_at: Monotonic time, seconds.
        value: Its bytes, once written.
    """

    __slots__ = ("event", "key", "on_offset", "queued_at", "value")

    def __init__(self, key: str, event: Event | None, on_offset: OnOffset | None = None) -> None:
        self.key = key
        self.event = event
        self.on_offset = on_offset
        self.queued_at = time.monotonic()
        self.value = b""


class _Lane:
    """What waits for one partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.queue: deque[Outgoing] = deque()
        self.in_hand: list[Outgoing] = []
        self.wake = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Publisher:
    """Publishes events. Everything but ``stats`` belongs to the event loop.

    Args:
        connection: The cluster; it need not be there.
        topic: Events topic.
        queue_size: Events that may wait.
        follow: Awaited with key and partition before the events of a key are sent; never raises.
        unfollow: Called when nobody follows a key any more.
        overflowed: Gives the number of events that were dropped before they got here.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        *,
        queue_size: int,
        follow: Follow,
        unfollow: Callable[[str], None],
        overflowed: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._queue_size = queue_size
        self._follow = follow
        self._unfollow = unfollow
        self._overflowed = overflowed
        self._lanes: dict[int, _Lane] = {}
        self._unsorted: deque[Outgoing] = deque()
        self._partitions = 0
        self._producer: AIOKafkaProducer | None = None
        self._connected = asyncio.Event()
        self._lost = asyncio.Event()
        self._progress = asyncio.Event()
        self._published = self._dropped = self._taken = self._finished = 0
        self._queue_high = self._interval_high = self._interval_ms = self._publish_max_ms = 0
        self._publish_seconds = 0.0
        self._reported_at, self._reported_drops = 0.0, 0

    def put(self, items: list[Outgoing]) -> None:
        """Queues events; the oldest ones go when there are too many."""
        for item in items:
            self._taken += 1
            self._sort(item)
        waiting = self._taken - self._finished
        self._queue_high = max(self._queue_high, min(waiting, self._queue_size))
        self._interval_high = max(self._interval_high, min(waiting, self._queue_size))
        while waiting > self._queue_size and self._drop_oldest():
            waiting -= 1

    async def run(self) -> None:
        """Keeps a connection until it is cancelled."""
        failures = 0
        try:
            while True:
                self._lost.clear()
                try:
                    await self._connect()
                    failures = 0
                    await self._lost.wait()
                except (kafka.KafkaError, LoopWardenError, OSError, TimeoutError, RuntimeError, ValueError) as error:
                    if failures in (0, 20):
                        log.warning("events wait: %s (%s)", _reason(error, self._topic), self._connection)
                await self._disconnect()
                first, longest = _BACKOFF
                await asyncio.sleep(min(longest, first * 2.0**failures))
                failures = min(failures + 1, 20)
        finally:
            await self._abandon()

    async def settled(self, taken: int) -> None:
        """Waits until so many of the events that ever were queued are acknowledged or dropped."""
        while self._finished < taken:
            self._progress.clear()
            await self._progress.wait()

    def stats(self) -> BusStats:
        """Counters since the start; from any thread."""
        return BusStats(
            published=self._published,
            dropped=self._dropped + self._overflowed(),
            queued=max(0, self._taken - self._finished),
            queue_high=self._queue_high,
            publish_seconds=self._publish_seconds,
            publish_max_ms=self._publish_max_ms,
            connected=self._connected.is_set(),
        )

    # Connecting.

    async def _connect(self) -> None:
        # Names a wrong password or certificate, which the producer calls a lost connection.
        await check_connection(self._connection, timeout_s=_REQUEST_TIMEOUT_MS / 1000)
        producer = AIOKafkaProducer(
            acks="all",
            max_batch_size=BATCH_BYTES,
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            retry_backoff_ms=500,
            client_id="loopwarden-runner",
            **self._connection.aiokafka(),
        )
        self._producer = producer
        await producer.start()
        partitions = len(await producer.partitions_for(self._topic))
        if partitions != self._partitions:
            await self._resort(partitions)
        self._connected.set()

    async def _disconnect(self) -> None:
        self._connected.clear()
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            # Its own stop waits for batches that a dead broker will not take.
            await asyncio.wait_for(producer.stop(), _STOP_SECONDS)
        except Exception:
            with contextlib.suppress(Exception):
                await producer._sender.close()
            with contextlib.suppress(Exception):
                await producer.client.close()

    async def _resort(self, partitions: int) -> None:
        """The topic has another number of partitions than it had: deals out anew what waits."""
        waiting: list[Outgoing] = []
        for lane in self._lanes.values():
            await _cancelled(lane.task)
            waiting += [*lane.in_hand, *lane.queue]
        waiting += self._unsorted
        self._lanes.clear()
        self._unsorted.clear()
        self._partitions = partitions
        for item in waiting:
            self._sort(item)

    async def _abandon(self) -> None:
        """The end: what waits is dropped."""
        for lane in self._lanes.values():
            await _cancelled(lane.task)
            for item in (*lane.in_hand, *lane.queue):
                self._drop(item)
        for item in self._unsorted:
            self._drop(item)
        self._lanes.clear()
        self._unsorted.clear()
        await self._disconnect()

    # Queueing.

    def _sort(self, item: Outgoing) -> None:
        if not self._partitions:
            self._unsorted.append(item)
            return
        partition = partition_of(item.key.encode("utf-8", "surrogatepass"), self._partitions)
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane(partition)
            lane.task = asyncio.create_task(self._serve(lane))
        lane.queue.append(item)
        lane.wake.set()

    def _drop_oldest(self) -> bool:
        queues = [self._unsorted, *(lane.queue for lane in self._lanes.values())]
        oldest = min((queue for queue in queues if queue), key=lambda queue: queue[0].queued_at, default=None)
        if oldest is None:
            return False
        self._drop(oldest.popleft())
        return True

    def _drop(self, item: Outgoing) -> None:
        if item.event is None:
            self._unfollow(item.key)
        else:
            self._dropped += 1
        self._finish(item, None)

    def _finish(self, item: Outgoing, offset: int | None) -> None:
        self._finished += 1
        self._progress.set()
        if item.on_offset is not None:
            item.on_offset(offset)

    # Sending.

    async def _serve(self, lane: _Lane) -> None:
        while True:
            try:
                await self._send_next(lane)
            except Exception as error:
                # A fault of ours costs these events, not the lane.
                log.error("events were dropped: the library failed with %s", type(error).__name__, exc_info=error)
                dropped, lane.in_hand = lane.in_hand, []
                for item in dropped:
                    self._drop(item)

    async def _send_next(self, lane: _Lane) -> None:
        """Sends the next batch, or the one in hand again."""
        if not lane.in_hand:
            self._take(lane)
        if not lane.in_hand:
            lane.wake.clear()
            await lane.wake.wait()
            return
        for key in {item.key for item in lane.in_hand}:
            await self._connected.wait()
            await self._follow(key, lane.partition)
        await self._connected.wait()
        producer = self._producer
        if producer is None:
            return
        try:
            offset = await self._send(producer, lane)
        except _REFUSED as error:
            self._split(lane, error)
        except Exception as error:
            # Whatever it was: connect anew, and send the same batch again.
            if self._connected.is_set():
                log.warning("events wait: %s (%s)", _reason(error, self._topic), self._connection)
            self._lost.set()
            self._connected.clear()
        else:
            self._sent(lane, offset)

    def _take(self, lane: _Lane) -> None:
        """Takes the next batch in hand."""
        size = 0
        of_a_run: Counter[str] = Counter()
        while lane.queue and len(lane.in_hand) < BATCH_EVENTS and size < BATCH_BYTES:
            item = lane.queue[0]
            if item.event is None:
                if lane.in_hand:
                    return
                lane.queue.popleft()
                self._unfollow(item.key)
                self._finish(item, None)
                continue
            run_id = item.event.run_id
            if of_a_run[run_id] >= BATCH_EVENTS_OF_A_RUN:
                return
            lane.queue.popleft()
            if self._write(item, item.event):
                of_a_run[run_id] += 1
                size += len(item.value)
                lane.in_hand.append(item)
            else:
                self._drop(item)

    def _write(self, item: Outgoing, event: Event) -> bool:
        """Writes an event as bytes; whether that was possible."""
        self._report(event)
        try:
            item.value = encode_event(event)
            if len(item.value) > EVENT_BYTES - _OVERHEAD_BYTES:
                for field in ("args", "result", "error"):  # its facts stay
                    if getattr(event, field, UNSET) is not UNSET:
                        setattr(event, field, UNSET)
                item.value = encode_event(event)
        except (TypeError, ValueError, RecursionError) as error:
            log.error("an event of type %s cannot be written: %s", event.type_, type(error).__name__)
            return False
        return len(item.value) <= EVENT_BYTES - _OVERHEAD_BYTES

    async def _send(self, producer: AIOKafkaProducer, lane: _Lane) -> int:
        """Sends what is in hand as one batch; offset of its first record."""
        builder = producer.create_batch()
        for index, item in enumerate(lane.in_hand):
            assert item.event is not None
            timestamp = int(item.event.ts or 0) or None
            key = item.key.encode("utf-8", "surrogatepass")
            if builder.append(timestamp=timestamp, key=key, value=item.value) is None:
                lane.queue.extendleft(reversed(lane.in_hand[index:]))
                del lane.in_hand[index:]
                break
        future: asyncio.Future[Any] = await producer.send_batch(builder, self._topic, partition=lane.partition)
        metadata = await future
        return int(metadata.offset)

    def _sent(self, lane: _Lane, offset: int) -> None:
        sent, lane.in_hand = lane.in_hand, []
        now = time.monotonic()
        for index, item in enumerate(sent):
            took = now - item.queued_at
            self._published += 1
            self._publish_seconds += took
            self._interval_ms = max(self._interval_ms, int(took * 1000))
            self._finish(item, offset + index)
        self._publish_max_ms = max(self._publish_max_ms, self._interval_ms)

    def _split(self, lane: _Lane, error: Exception) -> None:
        """The broker refuses the batch: what is wrong with it is found by halving it."""
        if len(lane.in_hand) == 1:
            log.error("the broker refuses an event: %s", type(error).__name__)
            (item,), lane.in_hand = lane.in_hand, []
            self._drop(item)
            return
        half = len(lane.in_hand) // 2
        lane.queue.extendleft(reversed(lane.in_hand[half:]))
        del lane.in_hand[half:]

    def _report(self, event: Event) -> None:
        """How the library is doing rides on its next event."""
        now = time.monotonic()
        all_dropped = self._dropped + self._overflowed()
        dropped = all_dropped - self._reported_drops
        if not dropped and now - self._reported_at < _REPORT_SECONDS:
            return
        event.publisher = PublisherStats(dropped=dropped, queue_high=self._interval_high, publish_ms=self._interval_ms)
        self._reported_at, self._reported_drops = now, all_dropped
        self._interval_high = self._interval_ms = 0


async def _cancelled(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _reason(error: Exception, topic: str) -> str:
    if isinstance(error, kafka.UnknownTopicOrPartitionError):
        return f"topic {topic} does not exist"
    if isinstance(error, kafka.TopicAuthorizationFailedError):
        return f"we may not write topic {topic}"
    return f"{type(error).__name__}: {error}" if isinstance(error, LoopWardenError) else type(error).__name__
