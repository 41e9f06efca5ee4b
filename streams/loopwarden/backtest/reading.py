"""Brings logs into units: what shares state stays together, everything else is folded apart, on any core."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from loopwarden.detection.partition import Record
from loopwarden.errors import UsageError
from loopwarden.event_log import read_event_log
from loopwarden.recordings import LogRecord, read_recordings

__all__ = ["Unit", "read_units", "units_of_log"]


class Unit(NamedTuple):
    """Records that are folded together: a recorded task, or everything under one message key.

    Attributes:
        name: Name of the recorded task; empty for a log's.
        outcome: How the task ended, where the file says so.
        cut: Events before the first may be missing (retention).
        records: In order. Their times never go back.
    """

    name: str
    outcome: str | None
    cut: bool
    records: list[LogRecord]


def read_units(path: str | Path, agent: str | None = None) -> Iterator[Unit]:
    """Reads a file: an event log, or recorded runs (the traces' and the cases' form).

    Args:
        path: The file.
        agent: Agent that recorded runs, which name none, are judged as.

    Raises:
        UsageError: It cannot be read.
    """
    if not _holds_recordings(path):
        yield from units_of_log(read_event_log(path))
        return
    for recording in read_recordings(path):
        for event in recording.events:
            event.agent_id = agent
        yield Unit(recording.name, recording.outcome, False, recording.log())


def units_of_log(log: Iterable[tuple[int, Record]]) -> Iterator[Unit]:
    """Parts a log by message key: runs of one family share a key, and state.

    Args:
        log: Partition and record, in order within each partition.
    """
    units: dict[tuple[int, bytes | None], list[LogRecord]] = {}
    begins: dict[int, int] = {}
    times: dict[int, int] = {}
    for partition, record in log:
        begins.setdefault(partition, record.offset)
        # Idle runs end by the partition's time, whoever's record moved it on.
        time = times[partition] = max(times.get(partition, 0), record.timestamp)
        units.setdefault((partition, record.key), []).append(LogRecord(record.offset, time, record.key, record.value))
    for (partition, _), records in units.items():
        yield Unit("", None, begins[partition] > 0, records)


def _holds_recordings(path: str | Path) -> bool:
    try:
        with Path(path).open("rb") as stream:
            first = next((line for line in stream if line.strip()), b"")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if first.lstrip().startswith(b"["):
        return True
    try:
        document = json.loads(first)
    except ValueError:
        return False
    return isinstance(document, dict) and isinstance(document.get("events"), list)
