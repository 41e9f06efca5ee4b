"""The fold offline: the same log, the same verdicts.

What stands between a log and ``fold_batch``: rows in memory, watermark and stream time carried on, and the
configuration that held at each offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from loopwarden.detection.partition import Batch, Record, fold_batch
from loopwarden_schemas.configuration import Configuration

__all__ = ["BATCH", "MemoryRows", "PartitionReplay", "Span", "replay_log"]

BATCH = 1000
"""Records folded at a time; any other number gives the same verdicts."""


class Span(NamedTuple):
    """A configuration and the first offset that was folded under it."""

    first_offset: int
    configuration: Configuration


class MemoryRows:
    """Rows of one partition. Implements ``detection.partition.Rows``.

    Attributes:
        ring: Rows of history-ring.
        armed: Rows of post-compaction-window.
    """

    def __init__(self) -> None:
        self.ring: dict[bytes, bytes] = {}
        self.armed: dict[bytes, bytes] = {}

    def history(self, key: bytes) -> bytes | None:
        """Row of history-ring."""
        return self.ring.get(key)

    def window(self, key: bytes) -> bytes | None:
        """Row of post-compaction-window."""
        return self.armed.get(key)

    def apply(self, batch: Batch) -> None:
        """Replaces rows by what a batch came to."""
        for table, changed in ((self.ring, batch.history), (self.armed, batch.window)):
            for key, row in changed.items():
                if row is None:
                    table.pop(key, None)
                else:
                    table[key] = row


class PartitionReplay:
    """One partition, folded from its first record on.

    Args:
        topic: Events topic: part of every verdict's id and cause.
        partition: Partition.
        spans: Configurations, by first offset; the first also holds for whatever comes before it.
        expiry: Idle runs end (a worker on a broker that does not stamp records itself ends none).

    Attributes:
        rows: Rows after what was folded so far.
        next_offset: Offset after the last record folded.
    """

    def __init__(self, topic: str, partition: int, spans: Sequence[Span], *, expiry: bool = True) -> None:
        if not spans:
            raise ValueError("no configuration")
        self._topic = topic
        self._partition = partition
        self._spans = sorted(spans, key=lambda span: span.first_offset)
        self._expiry = expiry
        self._stream_time = 0
        self.rows = MemoryRows()
        self.next_offset = 0

    def fold(self, records: Sequence[Record]) -> Iterator[Batch]:
        """Folds records that follow those before; one batch, more where the configuration changes among them."""
        start = 0
        while start < len(records):
            configuration, until = self._at(records[start].offset)
            end = next((i for i in range(start, len(records)) if records[i].offset >= until), len(records))
            batch = fold_batch(
                self.rows,
                self._topic,
                self._partition,
                records[start:end],
                configuration,
                watermark=self.next_offset - 1,
                stream_time=self._stream_time,
                expiry=self._expiry,
            )
            self.rows.apply(batch)
            self.next_offset, self._stream_time = batch.next_offset, batch.stream_time
            yield batch
            start = end

    def _at(self, offset: int) -> tuple[Configuration, float]:
        current = self._spans[0]
        for span in self._spans[1:]:
            if span.first_offset > offset:
                return current.configuration, span.first_offset
            current = span
        return current.configuration, float("inf")


def replay_log(
    log: Iterable[tuple[int, Record]],
    topic: str,
    configuration: Configuration,
    *,
    expiry: bool = True,
    size: int = BATCH,
) -> Iterator[tuple[int, Batch]]:
    """Folds a log of several partitions under one configuration.

    Args:
        log: Partition and record, in order within each partition.
        topic: Events topic.
        configuration: The configuration.
        expiry: Idle runs end.
        size: Records folded at a time, over all partitions.

    Yields:
        Partition and what a batch of it came to.
    """
    replays: dict[int, PartitionReplay] = {}
    remaining = iter(log)
    while part := list(islice(remaining, size)):
        parted: dict[int, list[Record]] = {}
        for partition, record in part:
            parted.setdefault(partition, []).append(record)
        for partition, records in parted.items():
            if partition not in replays:
                replays[partition] = PartitionReplay(topic, partition, [Span(0, configuration)], expiry=expiry)
            for batch in replays[partition].fold(records):
                yield partition, batch
