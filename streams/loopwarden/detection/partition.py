"""A batch of one partition: decode, check, reduce, fold. Still pure: the caller brings the rows and writes them.

Worker, offline replay, back-test and tests all go through ``fold_batch``; it decides what is a dead letter, which rows
change, and which verdicts are published, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from loopwarden.detection import run_state
from loopwarden.detection.fold import fold
from loopwarden.detection.notes import Note
from loopwarden.detection.profile import Position
from loopwarden.detection.run_state import RowVersionError, RunState
from loopwarden_schemas.codec import decode_event, encode_verdict, event_time
from loopwarden_schemas.configuration import AgentSettings, Configuration
from loopwarden_schemas.errors import UnknownEventType, WireError, clip
from loopwarden_schemas.events import CallRefused, Event, ToolCall, ToolResult
from loopwarden_schemas.facts import Facts, reduce_event
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Batch", "DeadLetter", "Record", "Rows", "fold_batch"]

_WITH_FACTS = (ToolCall, ToolResult, CallRefused)


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


class Rows(Protocol):
    """The rows of one partition, as of its applied watermark."""

    def history(self, key: bytes) -> bytes | None:
        """Row of history-ring."""

    def window(self, key: bytes) -> bytes | None:
        """Row of post-compaction-window."""


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


class _Applied(NamedTuple):
    event: Event
    facts: Facts | None
    at: Position


class _Run:
    """A run at work in a batch: its state, what it was loaded from, and what was applied to it."""

    __slots__ = ("applied", "had_row", "had_window", "row", "state", "window_row")

    def __init__(self, row: bytes | None, window_row: bytes | None) -> None:
        self.row = row
        self.window_row = window_row
        self.had_row = row is not None
        self.had_window = window_row is not None
        self.state: RunState | None = None if row is None else run_state.decode(row, window_row)
        self.applied: list[_Applied] = []

    def rebuild(self, configuration: Configuration) -> None:
        """Folds again what was applied: an event whose fold failed half-way must leave no trace."""
        self.state = None if self.row is None else run_state.decode(self.row, self.window_row)
        for event, facts, at in self.applied:
            self.state = fold(self.state, event, facts, at, _settings(configuration, self.state, event)).state


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
    runs: dict[bytes, _Run] = {}
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
            facts = reduce_event(event) if isinstance(event, _WITH_FACTS) else None
        except WireError as error:
            unknown = isinstance(error, UnknownEventType)
            dead_letters.append(DeadLetter(record, error.field, error.reason, error.value, unknown))
            continue
        except Exception as error:
            # A fault of ours must cost one event, not the partition; the rejection limit stops a worker that has many.
            dead_letters.append(DeadLetter(record, "message", f"failed with {type(error).__name__}", "", False))
            continue
        key = event.run_id.encode("utf-8", "surrogatepass")
        at = Position(topic, partition, offset, event_time(event, broker_time), stream_time if expiry else 0)
        run = runs.get(key)
        if run is None:
            run = runs[key] = _Run(rows.history(key), rows.window(key))
        try:
            folded = fold(run.state, event, facts, at, _settings(configuration, run.state, event))
        except RowVersionError:
            raise
        except Exception as error:  # of ours, too
            run.rebuild(configuration)
            dead_letters.append(DeadLetter(record, "fold", f"failed with {type(error).__name__}", "", False))
            continue
        run.state = folded.state
        run.applied.append(_Applied(event, facts, at))
        kind = event.type_
        events[kind] = events.get(kind, 0) + 1
        if folded.verdicts:
            message_key = record.key or key
            verdicts += [(message_key, verdict) for verdict in folded.verdicts]
            verdict_times += [broker_time] * len(folded.verdicts)
        notes += folded.notes
    history: dict[bytes, bytes | None] = {}
    window: dict[bytes, bytes | None] = {}
    window_offsets: dict[bytes, int] = {}
    for key, run in runs.items():
        if not run.applied:
            continue
        row, guard = (None, None) if run.state is None else run_state.encode(run.state)
        if row is not None or run.had_row:
            history[key] = row
        if guard is not None or run.had_window:
            window[key] = guard
            window_offsets[key] = run.applied[-1].at.offset
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


def _settings(configuration: Configuration, state: RunState | None, event: Event) -> AgentSettings:
    return configuration.settings_for(event.agent_id or (state.agent_id if state else None))


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
