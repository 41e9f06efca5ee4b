"""Faust's consumer, taught to hand over one message per fetched chunk of a partition.

Faust's groups, assignment, flow control and recovery stay; what a message is changes, and with it which offsets may be
committed: those of a contiguous chain of *finished* chunks. The reasons of each override are measured facts (design:
speed, traps).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from aiokafka.consumer import fetcher as aiokafka_fetcher
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from mode.utils.futures import notify

from loopwarden.processor.chunk import Chunk

__all__ = ["ChunkConsumer"]

_faust_log = logging.getLogger("faust.loopwarden")

log = logging.getLogger(__name__)

_IDLE_S = 0.02


class _RawRecords(aiokafka_fetcher.PartitionRecords):  # type: ignore[misc]
    """Hands out aiokafka's C records instead of a dataclass each, to consumers that carry the mark.

    There is no other seam: the fetcher makes these objects itself. A consumer's deserializers go to them untouched, so
    the mark travels there; every other consumer of the process gets what it always got.
    """

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        if self._value_deserializer is _raw:
            return record
        return super()._consumer_record(tp, record)


def _raw(value: bytes | None) -> bytes | None:
    """The mark of a consumer that takes raw records."""
    return value


aiokafka_fetcher.PartitionRecords = _RawRecords


class _ConsumerThread(driver.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Fetches in a thread of its own, as Faust does, and makes chunks of what came."""

    logger = _faust_log

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # Faust asks with 1.5 s, which a broker that does not wake waiting fetches would let us wait.
        consumer._fetch_max_wait_ms = transport.fetch_max_wait_ms
        consumer._value_deserializer = _raw
        return consumer

    async def _fetch_records(
        self, consumer: Any, active_partitions: Any, timeout: float | None = None, max_records: int | None = None
    ) -> dict[Any, list[Chunk]]:
        # A copy: Faust passes its live set, and once that is empty aiokafka takes it for "no filter" and hands out,
        # and skips, every partition.
        wanted = set(active_partitions or ())
        if not wanted:
            return {}
        assignment = _assignment(consumer)
        before = {tp: position for tp in wanted if (position := _position(assignment, tp)) is not None}
        records = await super()._fetch_records(consumer, wanted, timeout=timeout, max_records=max_records)
        current = _assignment(consumer)
        if current is not assignment:
            before = {}
        chunks: dict[Any, list[Chunk]] = {}
        for tp, fetched in records.items():
            first = before.get(tp, fetched[0].offset)
            last = fetched[-1].offset + 1
            chunks[tp] = [Chunk(fetched, first, max(last, _position(current, tp) or last))]
        # Positions that moved over control records only: a recovery would wait for them for ever.
        for tp, position in before.items():
            now = _position(current, tp)
            if tp not in chunks and now is not None and now > position:
                chunks[tp] = [Chunk([], position, now)]
        return chunks

    async def confirm(self, offsets: Mapping[TP, int]) -> bool:
        """Commits offsets that are committed already, so that the group's coordinator checks our generation."""
        return bool(await self.call_thread(self._confirm, offsets))

    async def _confirm(self, offsets: Mapping[TP, int]) -> bool:
        committed = {driver.ensure_aiokafka_TP(tp): OffsetAndMetadata(offset, "") for tp, offset in offsets.items()}
        try:
            await self._ensure_consumer().commit(committed)
        except (CommitFailedError, IllegalStateError) as error:
            log.warning("not a member of the present generation any more: %s", error)
            return False
        return True

    async def committed(self, tps: Iterable[TP]) -> dict[TP, int | None]:
        """Committed offsets, None where there is none."""
        return dict(await self.call_thread(self._committed, list(tps)))

    async def _committed(self, tps: list[TP]) -> dict[TP, int | None]:
        consumer = self._ensure_consumer()
        return {tp: await consumer.committed(driver.ensure_aiokafka_TP(tp)) for tp in tps}

    async def end_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:
        """Offsets after the last record."""
        return dict(await self.call_thread(self._ensure_consumer().end_offsets, list(tps)))


class ChunkConsumer(driver.Consumer):  # type: ignore[misc]
    """Consumer whose messages are chunks.

    Attributes:
        lost_events: Events that the topic's retention deleted before they were read.
    """

    logger = _faust_log

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._deferred: set[TP] = set()
        self._expected: dict[TP, int] = {}
        self._committable: dict[TP, int] = {}
        self._finished: dict[TP, dict[int, int]] = {}
        self.lost_events = 0
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> _ConsumerThread:
        return _ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: topics are created, and checked, by ``broker.topics_admin``."""

    async def confirm_generation(self, tps: Iterable[TP]) -> bool:
        """Whether the group's coordinator still takes this worker for the owner of these partitions."""
        wanted = set(tps)
        committed = await self._thread.committed(wanted)
        missing = {tp for tp, offset in committed.items() if offset is None}
        earliest = await self.earliest_offsets(*missing) if missing else {}
        offsets = {tp: committed[tp] if tp not in missing else earliest[tp] for tp in wanted}
        return bool(await self._thread.confirm({tp: offset for tp, offset in offsets.items() if offset is not None}))

    async def committed_offsets(self, tps: Iterable[TP]) -> dict[TP, int | None]:
        """Committed offsets, None where there is none."""
        return dict(await self._thread.committed(tps))

    async def end_offsets(self, tps: Iterable[TP]) -> dict[TP, int]:
        """Offsets after the last record."""
        return dict(await self._thread.end_offsets(tps))

    def lag(self, tp: TP) -> int:
        """Records that are in the log and were not handed over yet."""
        expected = self._expected.get(tp)
        highwater = self.highwater(tp)
        return max(0, highwater - expected) if expected is not None and highwater is not None else 0

    # -- messages

    def _to_message(self, tp: Any, chunk: Chunk) -> Any:
        timestamp = chunk.records[-1].timestamp / 1000.0 if chunk.records else 0.0
        return ConsumerMessage(
            tp.topic,
            tp.partition,
            chunk.next - 1,
            timestamp,
            0,
            None,
            None,
            chunk,
            None,
            0,
            0,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:
        """Yields chunks that follow each other; seeks back where one does not."""
        async for tp, message in super().getmany(timeout):
            chunk = message.value
            expected = self._expected.get(tp)
            if expected is not None:
                if chunk.first != expected and not await self._bridge(tp, expected, chunk):
                    continue
                self._expected[tp] = chunk.next
            yield tp, message

    async def _bridge(self, tp: TP, expected: int, chunk: Chunk) -> bool:
        """Whether to go on with a chunk that does not follow: only if what is missing is gone from the log."""
        earliest = (await self.earliest_offsets(tp))[tp]
        if expected < earliest <= chunk.first:
            self.lost_events += chunk.first - expected
            log.error(
                "%s/%d: offsets %d to %d were deleted by retention before they were read; "
                "their runs are judged without them",
                tp.topic,
                tp.partition,
                expected,
                chunk.first - 1,
            )
            self._finished.setdefault(tp, {})[expected] = chunk.first
            return True
        log.warning("%s/%d: expected offset %d, got %r, seeking back", tp.topic, tp.partition, expected, chunk)
        self._thread.seek(tp, expected)
        return False

    async def _wait_next_records(self, timeout: float) -> tuple[Any, Any]:
        if self.flow_active and not self._get_active_partitions():
            await self.sleep(_IDLE_S)  # stock: 1 s, which every rebalance would pay
            return {}, set()
        return tuple(await super()._wait_next_records(timeout))

    # -- resuming: Faust resumes partitions, seeks, and only then clears every queue with the flow; what was fetched in
    #    between would be lost without a trace. So partitions resume with the flow, never before.

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Resumes partitions as soon as the flow resumes."""
        self._deferred.update(driver.ensure_TPset(tps))

    def pause_partitions(self, tps: Iterable[TP]) -> None:
        """Pauses partitions at once."""
        paused = driver.ensure_TPset(tps)
        self._deferred.difference_update(paused)
        super().pause_partitions(paused)

    def resume_flow(self) -> None:
        """Resumes the flow, and with it the partitions that wait for it."""
        if self._deferred:
            resumed, self._deferred = self._deferred, set()
            super().resume_partitions(resumed)
        super().resume_flow()

    async def perform_seek(self) -> None:
        """Seeks every events partition to where its tables say: right after the applied watermark."""
        self._committable.clear()
        self._finished.clear()
        self._expected.clear()
        await super().perform_seek()
        mine = [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]
        if not mine:
            return
        earliest = await self.earliest_offsets(*mine)
        for tp in mine:
            start = max(self.app.partitions.start_offset(tp.partition), earliest[tp] or 0)
            self._thread.seek(tp, start)
            # Faust drops what lies below its read offset.
            self._read_offset[tp] = start or None
            self._expected[tp] = start
            committed = self._committed_offset.get(tp)
            self._committable[tp] = start
            if committed is not None and committed < start:
                # What the tables have already is committed like a chunk.
                self._committable[tp] = committed
                self._finished[tp] = {committed: start}

    # -- acknowledgement and commit

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Nothing to track: chunks are contiguous."""

    def ack(self, message: Any) -> bool:
        """Takes a message as done with. Faust also acks what it skips and what raised: only finished chunks count."""
        chunk = message.value
        if isinstance(chunk, Chunk):
            if not chunk.finished:
                message.acked = True
                self._unacked_messages.discard(message)
                notify(self._waiting_for_ack)
                return False
            self._finished.setdefault(message.tp, {})[chunk.first] = chunk.next
        return bool(super().ack(message))

    def _new_offset(self, tp: TP) -> int | None:
        finished, offset = self._finished.get(tp), self._committable.get(tp)
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        if not finished or offset is None:
            return None
        while offset in finished:
            offset = finished.pop(offset)
        if offset == self._committable[tp]:
            return None
        self._committable[tp] = offset
        return offset

    def _filter_tps_with_pending_acks(self, topics: Any = None) -> Any:
        return (
            tp
            for tp in list(self._finished)
            if self._finished[tp] and (topics is None or tp in topics or tp.topic in topics)
        )

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        committed = bool(await super()._commit(offsets))
        if committed:
            for tp in offsets:
                self.app.observer.commit(tp.partition)
        return committed

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Commits what is finished before Faust forgets it."""
        with contextlib.suppress(KafkaError):
            await self.commit()
        await super().on_partitions_revoked(revoked)


def _assignment(consumer: Any) -> Any:
    subscription = consumer._subscription.subscription
    return None if subscription is None else subscription.assignment


def _position(assignment: Any, tp: Any) -> int | None:
    if assignment is None:
        return None
    try:
        state = assignment.state_value(tp)
    except (KeyError, AssertionError):
        return None
    return int(state.position) if state is not None and state.has_valid_position else None
