"""A chunk's way through the worker: fold, verdicts acknowledged, rows acknowledged, memory replaced, finished.

No rule of detection stands here. A crash at any point folds events again; it never loses a verdict, and what is folded
again gives the same verdicts under the same ids (design: delivery, 1 to 3).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from loopwarden.detection.partition import Batch, fold_batch
from loopwarden.detection.run_state import RowVersionError
from loopwarden.errors import StateError
from loopwarden.processor.chunk import Chunk
from loopwarden.processor.dead_letters import RejectionLimit, headers_of
from loopwarden.processor.observer import Observer
from loopwarden.processor.partitions import Partition, Partitions
from loopwarden.processor.rows import Plan
from loopwarden.processor.settings import WorkerSettings
from loopwarden.processor.sweep import Sweep
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import CHANGELOG_BYTES, DEAD_LETTER_MARGIN, EVENT_BYTES, RESERVED, VERDICT_BYTES

__all__ = ["BatchProcessor"]

log = logging.getLogger(__name__)

_ROW_OVERHEAD = 32
"""Bytes of a record beside key and value, at most."""
_ROOM = CHANGELOG_BYTES - 4096


class BatchProcessor:
    """Processes the chunks of this worker's partitions.

    Args:
        settings: The worker's settings.
        partitions: Its partitions.
        observer: Told of finished batches.
        expiry: Idle runs end (the broker stamps records itself).
    """

    def __init__(self, settings: WorkerSettings, partitions: Partitions, observer: Observer, *, expiry: bool) -> None:
        self._settings = settings
        self._topics = settings.topics
        self._partitions = partitions
        self._observer = observer
        self._expiry = expiry
        self._limit = RejectionLimit(settings.rejected_ratio, settings.rejected_window)
        self._sweep = Sweep()
        self.finished_at = time.monotonic()

    async def process(self, number: int, chunk: Chunk) -> None:
        """Processes a chunk and marks it finished. Returns without that if the partition is not, or no longer, ours.

        Raises:
            PartitionLost: The partition went to another worker meanwhile.
            Fenced: Another worker has written, though the partition was believed to be ours.
            BrokerError: A write failed for good.
            StateError: A row cannot be read by this worker.
            TooManyRejected: Nearly everything is rejected.
        """
        partition = self._partitions.get(number)
        if partition is None or partition.writer is None or partition.writer.lost or not partition.ready:
            return
        await self._partitions.use_configuration(partition)
        start = 0
        records = chunk.records
        while start < len(records):
            configuration, until = partition.configuration_at(records[start].offset, self._partitions.configuration)
            end = len(records)
            if until is not None and records[-1].offset >= until:
                end = next(i for i in range(start, end) if records[i].offset >= until)
            next_offset = chunk.next if end == len(records) else records[end].offset
            await self._batch(partition, records[start:end], next_offset, configuration)
            start = end
        if not records:
            # Control records only: the watermark moves all the same, or what is committed would be ahead of it.
            await self._batch(partition, [], chunk.next, self._partitions.configuration)
        chunk.finished = True
        self.finished_at = time.monotonic()

    async def _batch(
        self, partition: Partition, records: Sequence[Any], next_offset: int, configuration: Configuration
    ) -> None:
        rows = partition.rows
        began = time.perf_counter()
        try:
            batch = fold_batch(
                rows,
                self._topics.events,
                partition.number,
                records,
                configuration,
                watermark=rows.watermark.offset,
                stream_time=rows.watermark.stream_time,
                expiry=self._expiry,
            )
        except RowVersionError as error:
            raise StateError(
                f"partition {partition.number} holds {error}",
                hint="a newer worker wrote it: upgrade this one, or roll back as docker/README.md says",
            ) from error
        fold_seconds = time.perf_counter() - began
        expired = self._sweep.expired(partition, batch.stream_time, configuration) if self._expiry else ()
        plan = rows.plan(batch, next_offset, expired)
        if plan.size + _ROW_OVERHEAD * len(plan.history) > _ROOM and len(records) > 1:
            half = len(records) // 2
            await self._batch(partition, records[:half], records[half].offset, configuration)
            await self._batch(partition, records[half:], next_offset, configuration)
            return
        self._limit.check(batch)
        await self._write(partition, plan)
        rows.apply(plan)
        self._observer.batch_finished(
            partition.number, batch, fold_seconds=fold_seconds, now_ms=int(time.time() * 1000)
        )
        if swept := sum(key not in batch.history and key[:1] != RESERVED for key in expired):
            self._observer.runs_expired(partition.number, swept)
        self._observer.live_runs(partition.number, rows.runs)
        self._observer.armed_guards(partition.number, rows.armed)

    async def _write(self, partition: Partition, plan: Plan) -> None:
        writer, topics, batch = partition.writer, self._topics, plan.batch
        assert writer is not None
        first: list[Any] = []
        if batch.verdicts:
            first.append(writer.write(topics.verdicts, batch.encoded_verdicts(), VERDICT_BYTES))
        if batch.dead_letters:
            first.append(self._write_dead_letters(partition, batch))
        if len(first) == 1:
            await first[0]
        elif first:
            await asyncio.gather(*first)
        if plan.window:
            written = await writer.write(topics.post_compaction_window, plan.window, CHANGELOG_BYTES)
            partition.read[topics.post_compaction_window] = written.next_offset
            self._observer.changelog_written("post-compaction-window", written.size, len(plan.window))
        written = await writer.write_whole(topics.history_ring, plan.history, CHANGELOG_BYTES)
        partition.read[topics.history_ring] = written.next_offset
        self._observer.changelog_written("history-ring", written.size, len(plan.history))

    async def _write_dead_letters(self, partition: Partition, batch: Batch) -> None:
        assert partition.writer is not None
        letters = batch.dead_letters
        headers = [headers_of(letter, self._topics.events, partition.number) for letter in letters]
        for letter in letters[:3]:
            log.warning(
                "partition %d, offset %d: rejected, %s %s",
                partition.number,
                letter.record.offset,
                letter.field,
                letter.reason,
            )
        if len(letters) > 3:
            log.warning("partition %d: %d more rejected in this batch", partition.number, len(letters) - 3)
        rows = [(letter.record.key, letter.record.value) for letter in letters]
        await partition.writer.write(self._topics.dead_letters, rows, EVENT_BYTES + DEAD_LETTER_MARGIN, headers)
