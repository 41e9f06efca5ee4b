"""What memory holds of one partition: the rows of both tables as of the applied watermark, as bytes.

Pure: read from changelog records (recovery), asked by the fold, planned against a batch's outcome, and replaced once
the plan was acknowledged. The rules of recovery stand here (design: delivery, 2 and 7; two tables).

history-ring, besides the runs: ``NUL watermark`` (what was applied), ``NUL config …`` (what it was folded under).

A row of post-compaction-window is written and acknowledged *before* the history rows of its batch, so after a crash it
may be ahead. It therefore carries the offset of its run's last event in that batch, the value as of then, and the value
as of the watermark before: whichever fits the watermark that recovery finds is the right one, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from loopwarden.detection.partition import Batch
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import BARRIER_KEY, RESERVED

__all__ = ["CONFIG_PREFIX", "WATERMARK_KEY", "ConfigRow", "PartitionRows", "Plan", "Watermark", "read_config_row"]

WATERMARK_KEY = RESERVED + b"watermark"
CONFIG_PREFIX = RESERVED + b"config" + RESERVED
CONFIGURATIONS = 16
"""So many configurations are kept per partition (design: delivery, 7)."""
_VERSION = 1

Row = tuple[bytes, bytes | None]


class Watermark(Struct, array_like=True, frozen=True):
    """What was applied: events up to ``offset``, whole.

    Attributes:
        version: Version of this row.
        offset: Last offset that was applied, counting gaps.
        record: Offset of the last record at or below it, -1 before the first.
        broker_time: Broker time of that record, epoch milliseconds.
        stream_time: Running maximum of broker times, epoch milliseconds.
    """

    version: int = _VERSION
    offset: int = -1
    record: int = -1
    broker_time: int = 0
    stream_time: int = 0


class ConfigRow(Struct, array_like=True, frozen=True):
    """A configuration that events of this partition were folded under, from ``first_offset`` on.

    Attributes:
        version: Version of this row.
        config_version: The configuration's version.
        first_offset: First event under it.
        text: Its text (``Configuration.from_text``).
    """

    version: int
    config_version: str
    first_offset: int
    text: str


class _WindowRow(Struct, array_like=True, frozen=True):
    version: int
    offset: int
    current: bytes | None
    previous: bytes | None


class Plan(NamedTuple):
    """What a batch writes, step by step.

    Attributes:
        window: Rows of post-compaction-window, written first.
        history: Rows of history-ring and the watermark, in one record batch.
        watermark: The watermark among them.
        batch: The batch.
        size: Bytes of keys and values in ``history``.
    """

    window: list[Row]
    history: list[Row]
    watermark: Watermark
    batch: Batch
    size: int


_encode = msgspec.msgpack.Encoder().encode
_decode_watermark = msgspec.msgpack.Decoder(Watermark).decode
_decode_config = msgspec.msgpack.Decoder(ConfigRow).decode
_decode_window = msgspec.msgpack.Decoder(_WindowRow).decode


def read_config_row(key: bytes, value: bytes | None) -> ConfigRow | None:
    """Reads a configuration from a record of history-ring's changelog; None for any other record.

    Raises:
        ValueError: It is damaged.
    """
    if value is None or not key.startswith(CONFIG_PREFIX):
        return None
    return _decode_config(value)


def _config_key(row: ConfigRow) -> bytes:
    # By offset, not by version: a configuration that comes back must not hide where it held before.
    return CONFIG_PREFIX + b"%d" % row.first_offset


class PartitionRows:
    """Rows of one partition. Implements ``detection.partition.Rows``."""

    def __init__(self) -> None:
        self.watermark = Watermark()
        self.runs = 0
        self._history: dict[bytes, bytes] = {}
        self._window: dict[bytes, _WindowRow] = {}
        self._configurations: list[ConfigRow] = []
        # Window rows that recovery found ahead of the watermark: key to their offset.
        self._ahead: dict[bytes, int] = {}
        # Window rows that say nothing any more: their tombstones go out with the next batch.
        self._spent: set[bytes] = set()

    # -- read by the fold

    def history(self, key: bytes) -> bytes | None:
        """Row of history-ring."""
        return self._history.get(key)

    def window(self, key: bytes) -> bytes | None:
        """Row of post-compaction-window, as of the watermark."""
        row = self._window.get(key)
        if row is None:
            return None
        return row.current if row.offset <= self.watermark.offset else row.previous

    def __len__(self) -> int:
        return len(self._history)

    @property
    def armed(self) -> int:
        """Number of rows in post-compaction-window."""
        return len(self._window) - len(self._spent)

    def items(self) -> Mapping[bytes, bytes]:
        """Every row of history-ring. Not to be changed."""
        return self._history

    def reserved(self) -> list[Row]:
        """Keys of the worker's own rows, with None: their tombstones."""
        return [(WATERMARK_KEY, None), *((_config_key(row), None) for row in self._configurations)]

    def window_keys(self) -> list[bytes]:
        """Keys of post-compaction-window."""
        return list(self._window)

    # -- recovery

    def load_history(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Applies records of history-ring's changelog, oldest first."""
        history = self._history
        for key, value in records:
            if key[:1] == RESERVED and self._load_reserved(key, value):
                continue
            if value is None:
                if history.pop(key, None) is not None:
                    self.runs -= key[:1] != RESERVED
            else:
                if key not in history:
                    self.runs += key[:1] != RESERVED
                history[key] = value

    def _load_reserved(self, key: bytes, value: bytes | None) -> bool:
        if key == WATERMARK_KEY:
            if value is not None:
                self.watermark = _decode_watermark(value)
        elif key.startswith(CONFIG_PREFIX):
            first_offset = int(key[len(CONFIG_PREFIX) :])
            self._configurations = [row for row in self._configurations if row.first_offset != first_offset]
            if value is not None:
                self._configurations.append(_decode_config(value))
                self._configurations.sort(key=lambda row: row.first_offset)
        else:
            return key == BARRIER_KEY
        return True

    def load_window(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Applies records of post-compaction-window's changelog, oldest first."""
        for key, value in records:
            if key == BARRIER_KEY:
                continue
            if value is None:
                self._window.pop(key, None)
            else:
                self._window[key] = _decode_window(value)

    def recovered(self) -> None:
        """Both changelogs were read to their end: sorts out which window rows hold."""
        applied = self.watermark.offset
        self._ahead = {key: row.offset for key, row in self._window.items() if row.offset > applied}
        # A tombstone that the crash swallowed.
        self._spent = {
            key
            for key, row in self._window.items()
            if row.offset <= applied and (row.current is None or key not in self._history)
        }

    # -- a batch

    def plan(self, batch: Batch, next_offset: int, expired: Iterable[bytes] = ()) -> Plan:
        """What has to be written for a batch. Changes nothing here.

        Args:
            batch: The batch, folded on these rows.
            next_offset: Offset after its last record, gaps included.
            expired: Keys of runs that idled out (the sweep); those that the batch changed are left alone.
        """
        applied = next_offset - 1
        window = dict(self._plan_window(batch, applied))
        history: list[Row] = list(batch.history.items())
        for key in expired:
            if key not in batch.history and key in self._history:
                history.append((key, None))
                if key in self._window:
                    window.setdefault(key, _encode(_WindowRow(_VERSION, applied, None, self.window(key))))
        watermark = self.watermark
        record, broker_time = watermark.record, watermark.broker_time
        if batch.next_offset > watermark.offset + 1:
            record, broker_time = batch.next_offset - 1, batch.broker_time
        watermark = Watermark(_VERSION, applied, record, broker_time, max(watermark.stream_time, batch.stream_time))
        history.append((WATERMARK_KEY, _encode(watermark)))
        size = sum(len(key) + len(value or b"") for key, value in history)
        return Plan(list(window.items()), history, watermark, batch, size)

    def _plan_window(self, batch: Batch, applied: int) -> Iterator[Row]:
        for key, value in batch.window.items():
            yield key, _encode(_WindowRow(_VERSION, batch.window_offsets[key], value, self.window(key)))
        for key, offset in self._ahead.items():
            # The run's events up to that offset are folded again by now, and it came out unarmed.
            if offset <= applied and key not in batch.window:
                yield key, _encode(_WindowRow(_VERSION, applied, None, self.window(key)))
        for key in self._spent:
            if key not in batch.window:
                yield key, None

    def apply(self, plan: Plan) -> None:
        """Replaces rows by what was acknowledged."""
        self.load_window(plan.window)
        self.load_history(plan.history)
        self._spent.clear()
        applied = self.watermark.offset
        for key, value in plan.window:
            if value is None:
                continue
            self._ahead.pop(key, None)
            if self._window[key].current is None and self._window[key].offset <= applied:
                self._spent.add(key)

    # -- configurations

    def configuration_row(self, configuration: Configuration, first_offset: int) -> list[Row]:
        """Rows to write before the first event is folded under a configuration; none if it is the newest here.

        Args:
            configuration: The configuration.
            first_offset: First event that will be folded under it.
        """
        if self._configurations and self._configurations[-1].config_version == configuration.version:
            return []
        row = ConfigRow(_VERSION, configuration.version, first_offset, configuration.text)
        kept = [other for other in self._configurations if other.first_offset != first_offset]
        surplus = kept[: max(0, len(kept) + 1 - CONFIGURATIONS)]
        return [(_config_key(row), _encode(row)), *((_config_key(other), None) for other in surplus)]

    def configurations(self) -> list[ConfigRow]:
        """Configurations of this partition, oldest first."""
        return self._configurations

    def split(self, offset: int) -> tuple[ConfigRow | None, int | None]:
        """The configuration that holds at an offset, and the offset at which the next one begins."""
        current: ConfigRow | None = None
        for row in self._configurations:
            if row.first_offset > offset:
                return current or row, row.first_offset if current else None
            current = row
        return current, None
