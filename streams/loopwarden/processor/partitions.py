"""Which partitions this worker has, their rows and their writers; taken, checked and dropped at a rebalance."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from faust.types import TP

from loopwarden.broker.capabilities import Capabilities
from loopwarden.processor.errors import StateLoss
from loopwarden.processor.observer import Observer
from loopwarden.processor.rows import PartitionRows, Watermark
from loopwarden.processor.sender import Sender
from loopwarden.processor.settings import WorkerSettings
from loopwarden.processor.writer import UNFENCED, PartitionWriter, init_producer_id
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import CHANGELOG_BYTES

__all__ = ["BARRIER_INTERVAL_S", "Partition", "Partitions"]

log = logging.getLogger(__name__)

BARRIER_INTERVAL_S = 6 * 3600.0
"""Kafka forgets an epoch after a day without writes (``producer.id.expiration.ms``): remind it four times a day."""


class Partition:
    """One partition of this worker: active with a writer, standby without.

    Attributes:
        number: Partition number.
        rows: Its rows.
        writer: Its writer; None for a standby.
        read: Changelog topic → offset after what was read from, or written to, it.
        ready: Its tables are recovered and checked: events may be folded.
        start: Offset of the first event to fold.
        taken_at: When this worker became its writer, ``time.monotonic()``.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows = PartitionRows()
        self.writer: PartitionWriter | None = None
        self.read: dict[str, int] = {}
        self.ready = False
        self.start = 0
        self.taken_at = 0.0
        self._configurations: dict[str, Configuration] = {}

    def configuration_at(self, offset: int, fallback: Configuration) -> tuple[Configuration, int | None]:
        """The configuration that an event is folded under, and the offset at which the next one begins."""
        row, until = self.rows.split(offset)
        if row is None:
            return fallback, until
        if row.config_version == fallback.version:
            return fallback, until
        configuration = self._configurations.get(row.config_version)
        if configuration is None:
            configuration = self._configurations[row.config_version] = Configuration.from_text(row.text)
        return configuration, until


class Partitions:
    """The partitions of this worker.

    Args:
        settings: The worker's settings.
        broker: What the broker can do.
        forget: Called with a changelog partition that was dropped: Faust's recovery must read it from the start, should
            it ever come back.
        observer: Told of recovered partitions.
    """

    def __init__(
        self, settings: WorkerSettings, broker: Capabilities, forget: Callable[[TP], None], observer: Observer
    ) -> None:
        self._settings = settings
        self._broker = broker
        self._forget = forget
        self._observer = observer
        self._topics = settings.topics
        self._changelogs = (settings.topics.history_ring, settings.topics.post_compaction_window)
        self._fenced = (*self._changelogs, settings.topics.verdicts, settings.topics.shadow_verdicts)
        self._generation: int | None = None
        self._client: AIOKafkaClient | None = None
        self._sender: Sender | None = None
        self._barrier_at: dict[int, float] = {}
        self._all: dict[int, Partition] = {}
        self.configuration = settings.configuration

    async def start(self) -> None:
        """Connects."""
        client = AIOKafkaClient(client_id="loopwarden-writer", **self._settings.connection.aiokafka())
        await client.bootstrap()
        self._client = client
        await client.set_topics([*self._fenced, self._topics.dead_letters])
        self._sender = Sender(client, delivery_timeout_s=self._settings.delivery_timeout_s)

    async def stop(self) -> None:
        """Disconnects; what was not acknowledged is folded again by whoever comes next."""
        for partition in self._all.values():
            if partition.writer is not None:
                partition.writer.lost = True
        if self._sender is not None:
            await self._sender.close()
        if self._client is not None:
            await self._client.close()

    def get(self, number: int) -> Partition | None:
        """A partition of this worker, active or standby."""
        return self._all.get(number)

    def active(self) -> list[Partition]:
        """Partitions with a writer."""
        return [partition for partition in self._all.values() if partition.writer is not None]

    def all(self) -> list[Partition]:
        """Active and standby partitions."""
        return list(self._all.values())

    def start_offset(self, number: int) -> int:
        """Offset of the first event to fold."""
        partition = self._all.get(number)
        return 0 if partition is None else max(partition.start, partition.rows.watermark.offset + 1)

    # -- rebalance

    def lose(self, numbers: Iterable[int]) -> None:
        """Drops partitions at once, with all that memory holds of them."""
        for number in list(numbers):
            partition = self._all.pop(number, None)
            if partition is None:
                continue
            if partition.writer is not None:
                partition.writer.lost = True
            self._barrier_at.pop(number, None)
            for topic in self._changelogs:
                self._forget(TP(topic, number))

    async def on_rebalance(self, consumer: Any, generation: int, active: set[int], standby: set[int]) -> bool:
        """Takes the assignment of a new generation: drops what was lost, becomes the writer of what is new.

        Args:
            consumer: Faust's consumer.
            generation: The group's generation.
            active: Partitions that this worker now processes.
            standby: Partitions that it keeps warm.

        Returns:
            Whether this worker still is a member of that generation; if not, another rebalance follows.

        Raises:
            BrokerError: The broker refuses the writer.
        """
        if self._generation is None or generation != self._generation + 1:
            # It was out of the group in between: anybody may have written since.
            self.lose(list(self._all))
        self._generation = generation
        self.lose(set(self._all) - active - standby)
        for number in standby:
            partition = self._all.setdefault(number, Partition(number))
            if partition.writer is not None:
                # Demoted: what it holds is what it wrote, but a writer is never kept.
                self.lose([number])
                self._all[number] = Partition(number)
        new = [number for number in sorted(active) if (p := self._all.get(number)) is None or p.writer is None]
        if not new:
            return True
        # A worker that wakes from a long pause gets here with an assignment that is long gone: the coordinator knows.
        if not await consumer.confirm_generation([TP(self._topics.events, number) for number in new]):
            return False
        await asyncio.gather(*(self._become_writer(number) for number in new))
        return True

    async def _become_writer(self, number: int) -> None:
        assert self._sender is not None
        assert self._client is not None
        identity = UNFENCED
        if self._broker.producer_ids:
            identity = await init_producer_id(
                self._client,
                f"{self._topics.app_id}-{number}",
                timeout_s=self._settings.delivery_timeout_s,
            )
        writer = PartitionWriter(self._sender, number, identity)
        partition = self._all.setdefault(number, Partition(number))
        partition.ready = False
        partition.taken_at = time.monotonic()
        partition.writer = writer
        await self._barrier(partition)

    async def _barrier(self, partition: Partition) -> None:
        writer = partition.writer
        if writer is None or not self._broker.producer_ids:
            return
        note = b"%d/%d/%d" % (*writer.identity, self._generation or 0)
        written = await asyncio.gather(*(writer.barrier(topic, note) for topic in self._fenced))
        for topic, done in zip(self._fenced, written, strict=True):
            # Recovery reads up to here; once it has, later barriers need no reading.
            if partition.ready and topic in partition.read:
                partition.read[topic] = done.next_offset
        self._barrier_at[partition.number] = asyncio.get_running_loop().time()

    async def refresh_barriers(self) -> None:
        """Reminds the broker of our epochs; to be called now and then.

        Raises:
            Fenced: Another worker has written.
        """
        due = asyncio.get_running_loop().time() - BARRIER_INTERVAL_S
        for partition in self.active():
            if partition.ready and self._barrier_at.get(partition.number, due) < due:
                await self._barrier(partition)

    # -- recovery

    def load(self, topic: str, number: int, chunk: Any) -> None:
        """Applies a chunk of a changelog. Chunks that were read already, or belong to no partition here, are dropped.

        Raises:
            StateLoss: Something between what was read before and this chunk is missing.
        """
        partition = self._all.get(number)
        if partition is None or topic not in self._changelogs:
            return
        expected = partition.read.get(topic)
        if expected is not None:
            if chunk.next <= expected:
                return
            if chunk.first > expected:
                raise StateLoss(f"{topic}/{number}: read up to {expected}, the next chunk begins at {chunk.first}")
        records = [
            (record.key, record.value)
            for record in chunk.records
            if record.key is not None and (expected is None or record.offset >= expected)
        ]
        if topic == self._topics.history_ring:
            partition.rows.load_history(records)
        else:
            partition.rows.load_window(records)
        partition.read[topic] = chunk.next

    def last_read(self, topic: str, number: int) -> int | None:
        """Last changelog offset that was read or written."""
        partition = self._all.get(number)
        after = None if partition is None else partition.read.get(topic)
        return None if after is None else after - 1

    async def recovered(self, consumer: Any) -> None:
        """Both changelogs of the active partitions are read: checks them against the log and makes them ready.

        Raises:
            StateLoss: The tables do not belong to this log, or lack what was committed.
        """
        fresh = [partition for partition in self.active() if not partition.ready]
        if not fresh:
            return
        tps = {partition.number: TP(self._topics.events, partition.number) for partition in fresh}
        committed = await consumer.committed_offsets(tps.values())
        begins = await consumer.earliest_offsets(*tps.values())
        ends = await consumer.end_offsets(tps.values())
        stamps = await self._record_times(fresh)
        for partition in fresh:
            tp = tps[partition.number]
            partition.rows.recovered()
            if not self._broker.producer_ids:
                # Asked for its end, the embedded broker names the offset after the *first* record of the last batch.
                ends[tp] = max(ends[tp], partition.rows.watermark.offset + 1)
            problem = _state_problem(
                partition.rows.watermark, committed[tp], begins[tp], ends[tp], stamps.get(partition.number)
            )
            if problem:
                await self._state_lost(partition, f"{tp.topic}/{tp.partition}: {problem}", committed[tp], ends[tp])
            await self._settle_configuration(partition, ends[tp])
            partition.ready = True
            restored = len(partition.rows) + partition.rows.armed
            self._observer.recovered(partition.number, restored, time.monotonic() - partition.taken_at)
            self._observer.live_runs(partition.number, partition.rows.runs)
            self._observer.armed_guards(partition.number, partition.rows.armed)
            log.info(
                "partition %d ready: %d runs, %d armed guards, next event %d",
                partition.number,
                partition.rows.runs,
                partition.rows.armed,
                self.start_offset(partition.number),
            )

    async def _record_times(self, partitions: list[Partition]) -> dict[int, int]:
        """Broker times of the records at the watermarks, where the log still has them; -1 for another record."""
        wanted = {
            TopicPartition(self._topics.events, partition.number): partition.rows.watermark.record
            for partition in partitions
            if partition.rows.watermark.record >= 0
        }
        if not wanted:
            return {}
        consumer = AIOKafkaConsumer(
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=50,
            **self._settings.connection.aiokafka(),
        )
        await consumer.start()
        try:
            consumer.assign(list(wanted))
            begins = await consumer.beginning_offsets(list(wanted))
            ends = await consumer.end_offsets(list(wanted))
            there = {tp: offset for tp, offset in wanted.items() if begins[tp] <= offset < ends[tp]}
            found: dict[int, int] = {}
            for tp, offset in there.items():
                consumer.seek(tp, offset)
            consumer.pause(*(tp for tp in wanted if tp not in there))
            deadline = asyncio.get_running_loop().time() + self._settings.delivery_timeout_s
            while len(found) < len(there) and asyncio.get_running_loop().time() < deadline:
                for tp, records in (await consumer.getmany(timeout_ms=200, max_records=1)).items():
                    record = records[0]
                    found[tp.partition] = record.timestamp if record.offset == wanted[tp] else -1
                    consumer.pause(tp)
            return found
        finally:
            await consumer.stop()

    async def _state_lost(self, partition: Partition, problem: str, committed: int | None, end: int) -> None:
        if not self._settings.accept_state_loss:
            raise StateLoss(problem, hint="restore the topics, or go on without that state: --accept-state-loss")
        log.error("%s; going on without that state, as told", problem)
        writer = partition.writer
        assert writer is not None
        applied = partition.rows.watermark.offset
        if committed is not None and applied + 1 < committed <= end:
            # The log is the right one, the tables fell behind it: go on where the group stands.
            partition.start = committed
            return
        history = self._topics.history_ring
        window = self._topics.post_compaction_window
        tombstones = [*((key, None) for key in partition.rows.items()), *partition.rows.reserved()]
        written = await writer.write(history, tombstones, CHANGELOG_BYTES)
        partition.read[history] = written.next_offset
        if window_keys := partition.rows.window_keys():
            written = await writer.write(window, [(key, None) for key in window_keys], CHANGELOG_BYTES)
            partition.read[window] = written.next_offset
        partition.rows = PartitionRows()

    # -- configuration

    async def _settle_configuration(self, partition: Partition, end: int) -> None:
        """Makes the present configuration the one of new events.

        Events that are in the log already may have been folded, and their verdicts sent, under the one before by a
        worker that died before it wrote its rows: they are folded under that one again.
        """
        known = partition.rows.configurations()
        first = end if known else self.start_offset(partition.number)
        await self._write_configuration(partition, max(first, self.start_offset(partition.number)))

    async def use_configuration(self, partition: Partition) -> None:
        """Makes the present configuration the one of whatever this partition folds next, if it is not yet."""
        known = partition.rows.configurations()
        await self._write_configuration(
            partition, max(self.start_offset(partition.number), known[-1].first_offset if known else 0)
        )

    async def _write_configuration(self, partition: Partition, first_offset: int) -> None:
        rows = partition.rows.configuration_row(self.configuration, first_offset)
        if not rows:
            return
        assert partition.writer is not None
        topic = self._topics.history_ring
        written = await partition.writer.write(topic, rows, CHANGELOG_BYTES)
        partition.rows.load_history(rows)
        partition.read[topic] = written.next_offset
        log.info(
            "partition %d: configuration %s from offset %d",
            partition.number,
            self.configuration.version,
            first_offset,
        )

    def reconfigure(self, configuration: Configuration) -> None:
        """Takes another configuration; each partition changes before its next batch."""
        self.configuration = configuration


def _state_problem(watermark: Watermark, committed: int | None, begin: int, end: int, stamp: int | None) -> str | None:
    if watermark.offset >= end:
        return f"the tables were built from {watermark.offset + 1} events, the topic has {end}: it is another topic"
    if stamp is not None and stamp != watermark.broker_time:
        return f"the record at offset {watermark.record} is not the one that the tables know: it is another topic"
    # A group without a commit was given the log's beginning to confirm its generation: that proves nothing.
    if committed is not None and committed > max(watermark.offset + 1, begin):
        return f"offsets up to {committed} are committed, the tables only know {watermark.offset + 1}: rows are lost"
    return None
