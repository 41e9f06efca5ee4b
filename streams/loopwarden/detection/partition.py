"""A batch of one partition: decode, check, reduce, fold. Still pure: the caller brings the rows and writes them.

Worker, offline replay, back-test and tests all go through ``fold_batch``; it decides what is a dead letter, which rows
change, and which verdicts are published, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from loopwarden.detection.notes import Note
from loopwarden.detection.profile import Position
from loopwarden.detection.working_set import ApplyFailed, Rows, WorkingSet
from loopwarden_schemas.codec import decode_event, encode_verdict, event_time
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.errors import UnknownEventType, WireError, clip
from loopwarden_schemas.events import Event
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Batch", "DeadLetter", "Record", "Rows", "fold_batch"]


class Record(Protocol):
    """A record as the broker hands it out."""

    @property
    def offset(self) -> int:
        """Offset."""

    @property
    def timestamp(self) -> int:
        """Broker time, epoch milliseconds."""

    @property
    def key(self) -> bytes | None:
        """Key."""

    @property
    def value(self) -> bytes | None:
        """Value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Headers."""


class DeadLetter(NamedTuple):
    """An event that could not be taken.

    Attributes:
        record: The record, original bytes and headers.
        field: Path of the offending field.
        reason: What is wrong, without the value.
        value: The offending value, clipped; empty for content.
        unknown_type: It is only of an unknown type: kept, and not counted as a rejection.
    """

    record: Record
    field: str
    reason: str
    value: str
    unknown_type: bool


class Batch(NamedTuple):
    """What a batch came to.

    Attributes:
        verdicts: Key and verdict, in order.
        dead_letters: In order.
        history: Changed rows of history-ring; None is a tombstone.
        window: Changed rows of post-compaction-window; None is a tombstone.
        window_offsets: For each of ``window``, offset of the run's last event in this batch.
        notes: What counters rise from.
        events: Events applied, by type.
        next_offset: Offset after the last record seen.
        broker_time: Broker time of the last record, epoch milliseconds.
        stream_time: Running maximum of the broker times, epoch milliseconds.
        verdict_times: For each of ``verdicts``, broker time of its cause, epoch milliseconds.
    """

    verdicts: list[tuple[bytes, Verdict]]
    dead_letters: list[DeadLetter]
    history: dict[bytes, bytes | None]
    window: dict[bytes, bytes | None]
    window_offsets: dict[bytes, int]
    notes: list[Note]
    events: dict[str, int]
    next_offset: int
    broker_time: int
    stream_time: int
    verdict_times: list[int]

    def encoded_verdicts(self) -> list[tuple[bytes, bytes]]:
        """Key and wire form of each verdict."""
        return [(key, encode_verdict(verdict)) for key, verdict in self.verdicts]


def fold_batch(
    rows: Rows,
    topic: str,
    partition: int,
    records: Iterable[Record],
    configuration: Configuration,
    *,
    watermark: int = -1,
    stream_time: int = 0,
    expiry: bool = True,
) -> Batch:
    """Folds records of one partition, in order. Nothing in ``rows`` changes.

    Args:
        rows: The partition's rows as of ``watermark``.
        topic: Events topic.
        partition: Partition.
        records: Consecutive records.
        configuration: The configuration in force for all of them.
        watermark: Last offset that was applied; records at or below it are skipped.
        stream_time: Stream time as of ``watermark``, epoch milliseconds.
        expiry: Idle runs end. Off where the broker keeps the sender's times.

    Raises:
        RowVersionError: A row is of a newer version: this worker must not go on.
    """
    at_work = WorkingSet(rows, configuration)
    verdicts: list[tuple[bytes, Verdict]] = []
    dead_letters: list[DeadLetter] = []
    verdict_times: list[int] = []
    notes: list[Note] = []
    events: dict[str, int] = {}
    next_offset, broker_time = watermark + 1, 0
    for record in records:
        offset = record.offset
        if offset <= watermark:
            continue
        next_offset, broker_time = offset + 1, record.timestamp
        stream_time = max(stream_time, broker_time)
        try:
            event = _take(record)
            at = Position(topic, partition, offset, event_time(event, broker_time), stream_time if expiry else 0)
        except WireError as error:
            dead_letters.append(_dead_letter(record, error))
            continue
        except Exception as error:
            # A fault of ours must cost one event, not the partition; the rejection limit stops a worker that has many.
            dead_letters.append(DeadLetter(record, "message", f"failed with {type(error).__name__}", "", False))
            continue
        try:
            folded = at_work.apply(event, at)
        except WireError as error:
            dead_letters.append(_dead_letter(record, error))
            continue
        except ApplyFailed as error:
            dead_letters.append(DeadLetter(record, error.field, error.reason, "", False))
            continue
        kind = event.type_
        events[kind] = events.get(kind, 0) + 1
        if folded.verdicts:
            message_key = record.key or event.key.encode("utf-8", "surrogatepass")
            verdicts += [(message_key, verdict) for verdict in folded.verdicts]
            verdict_times += [broker_time] * len(folded.verdicts)
        notes += folded.notes
    history: dict[bytes, bytes | None] = {}
    window: dict[bytes, bytes | None] = {}
    window_offsets: dict[bytes, int] = {}
    for run in at_work.rows():
        if run.writes_history:
            history[run.key] = run.history
        if run.writes_window:
            window[run.key] = run.window
            window_offsets[run.key] = run.offset
    history |= at_work.kin_rows()
    return Batch(
        verdicts,
        dead_letters,
        history,
        window,
        window_offsets,
        notes,
        events,
        next_offset,
        broker_time,
        stream_time,
        verdict_times,
    )


def _dead_letter(record: Record, error: WireError) -> DeadLetter:
    return DeadLetter(record, error.field, error.reason, error.value, isinstance(error, UnknownEventType))


def _take(record: Record) -> Event:
    """Reads a record's event and checks its key.

    Raises:
        WireError: The event cannot be taken.
    """
    value = record.value
    if not value:
        raise WireError("message", "is empty")
    event = decode_event(value)
    expected = event.key.encode("utf-8", "surrogatepass")
    if record.key != expected:
        got = "no key" if record.key is None else clip(record.key.decode("utf-8", "replace"))
        raise WireError("key", f"is not the root run's or the run's id ({clip(event.key)})", got)
    return event
