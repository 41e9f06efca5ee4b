"""The bus on Kafka: a thread of the library's own, so that neither agent nor event loop ever waits for a broker."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from loopwarden.connection import Connection
from loopwarden.runner.bus import Deliver, OnOffset
from loopwarden.runner.publisher import Outgoing, Publisher
from loopwarden.runner.stats import BusStats
from loopwarden.runner.verdict_feed import VerdictFeed
from loopwarden_schemas.events import Event
from loopwarden_schemas.topics import Topics

__all__ = ["KafkaBus"]

log = logging.getLogger(__name__)

_START_SECONDS = 10.0
_STOP_SECONDS = 3.0


class KafkaBus:
    """Carries events to Kafka and verdicts back. Its threads start with the first event.

    Args:
        connection: The cluster; it need not be there.
        topics: The deployment's topics.
        queue_size: Events that may wait.
        deliver: Told of every verdict, from the bus's thread.
        followed_late: Called with a key whose first verdicts may have been missed, from the bus's thread.
    """

    synchronous = False

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        *,
        queue_size: int,
        deliver: Deliver,
        followed_late: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._queue_size = queue_size
        self._deliver = deliver
        self._followed_late = followed_late
        # An agent's thread must not give up the interpreter lock here, as waking an event loop does: with a large
        # result being reduced it would get the lock back only milliseconds later. A put into this queue does not.
        self._arrivals: SimpleQueue[Outgoing | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._accepted = 0
        self._refused = 0
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._publisher: Publisher | None = None
        self._feed: VerdictFeed | None = None

    def publish(self, event: Event, on_offset: OnOffset | None = None) -> None:
        """Queues an event."""
        self._put(Outgoing(event.key, event, on_offset))

    def unfollow(self, key: str) -> None:
        """Verdicts on this key are not needed once what was published before is out."""
        self._put(Outgoing(key, None))

    def _put(self, item: Outgoing) -> None:
        with self._lock:
            # The publisher drops the oldest; this is for a process so busy that its thread never gets to it.
            if not self._closed and self._arrivals.qsize() < self._queue_size:
                if not self._threads:
                    self._start()
                self._accepted += 1
                self._arrivals.put(item)
                return
            self._refused += item.event is not None
        if item.on_offset is not None:
            item.on_offset(None)

    def flush(self, timeout: float) -> bool:
        """Waits until the queue is empty and acknowledged; whether it was, in so many seconds."""
        if not self._threads:
            return True
        if not self._ready.wait(timeout):
            return False
        loop, publisher = self._loop, self._publisher
        if loop is None or publisher is None:
            return False
        settled = publisher.settled(self._accepted)
        try:
            waiting = asyncio.run_coroutine_threadsafe(asyncio.wait_for(settled, timeout), loop)
        except RuntimeError:  # the loop is closed
            settled.close()
            return False
        try:
            waiting.result(timeout + 1.0)
        except (TimeoutError, RuntimeError, asyncio.CancelledError):
            waiting.cancel()
            return False
        return True

    def close(self, timeout: float) -> None:
        """Flushes within so many seconds, and ends the threads."""
        self.flush(timeout)
        with self._lock:
            self._closed = True
            threads = self._threads
        if not threads:
            return
        self._arrivals.put(None)
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(stopping.set)
        for thread in threads:
            thread.join(_STOP_SECONDS)

    def stats(self) -> BusStats:
        """Counters since the start."""
        publisher, feed = self._publisher, self._feed
        if publisher is None or feed is None:
            return BusStats(dropped=self._refused, queued=self._arrivals.qsize())
        stats = publisher.stats()
        return dataclasses.replace(stats, queued=stats.queued + self._arrivals.qsize(), verdicts=feed.received)

    def _start(self) -> None:
        self._threads = [
            threading.Thread(target=self._main, name="loopwarden", daemon=True),
            threading.Thread(target=self._pump, name="loopwarden-pump", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _pump(self) -> None:
        """Hands what arrives to the event loop."""
        if not self._ready.wait(_START_SECONDS) or self._loop is None or self._publisher is None:
            return
        item: Outgoing | None
        while (item := self._arrivals.get()) is not None:
            items = []
            with contextlib.suppress(Empty):
                while item is not None:
                    items.append(item)
                    item = self._arrivals.get_nowait()
            try:
                self._loop.call_soon_threadsafe(self._publisher.put, items)
            except RuntimeError:  # the loop is closed
                return
            if item is None:
                return

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            log.error("the loop detector's thread ended: %s; calls go on unjudged", type(error).__name__)
        finally:
            with self._lock:
                self._closed = True
            self._ready.set()

    async def _serve(self) -> None:
        self._stopping = asyncio.Event()
        self._feed = feed = VerdictFeed(
            self._connection, self._topics.verdicts, deliver=self._deliver, followed_late=self._followed_late
        )
        self._publisher = publisher = Publisher(
            self._connection,
            self._topics.events,
            queue_size=self._queue_size,
            follow=feed.follow,
            unfollow=feed.unfollow,
            overflowed=lambda: self._refused,
        )
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        tasks = [
            asyncio.create_task(feed.run()),
            asyncio.create_task(publisher.run()),
            asyncio.create_task(self._stopping.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    log.error("the loop detector's thread failed: %s", type(result).__name__, exc_info=result)
