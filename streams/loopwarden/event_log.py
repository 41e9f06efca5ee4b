"""Files of events: one JSON object a line, plain or gzip.

A line is an event as it stands on the wire, or a record of the topic around one::

    {"type": "tool_call", "run_id": "r1", "tool": "search", ...}
    {"partition": 3, "offset": 17, "timestamp": 1760000000000, "key": "r1", "value": {"type": "tool_call", ...}}

``partition``, ``offset``, ``timestamp`` and ``key`` may be missing, and may also stand in a plain event. Without them a
line belongs to partition 0, comes after the line before, happens at its ``ts`` (else at the time before), and has the
key that its event must have. ``value`` may be a text with the event, so that a message that is no JSON can be kept.
"""

from __future__ import annotations

import gzip
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from loopwarden.errors import UsageError
from loopwarden.recordings import LogRecord
from loopwarden_schemas.codec import decode_event, event_time
from loopwarden_schemas.errors import WireError, clip
from loopwarden_schemas.events import RunStarted

__all__ = ["Line", "read_event_log", "read_lines"]

STDIN = "-"
_GZIP = b"\x1f\x8b"
_LAST = 2**63 - 1


class _Envelope(Struct):
    """What matters of a line, whichever of the two forms it has."""

    type: Any = None
    value: Raw | UnsetType = UNSET
    partition: Any = None
    offset: Any = None
    timestamp: Any = None
    key: str | UnsetType | None = UNSET
    run_id: Any = None
    root_run_id: Any = None
    ts: Any = None


class Line(NamedTuple):
    """A line of a file of events.

    Attributes:
        number: Its number, from 1.
        value: The event's bytes, as they would stand in the topic.
        key: The key that it names, or must have; None where it names none and has no run.
        partition: Its partition, None where it names none.
        offset: Its offset, None where it names none.
        timestamp: Its time, epoch milliseconds; None where it names none.
    """

    number: int
    value: bytes
    key: bytes | None
    partition: int | None
    offset: int | None
    timestamp: int | None


_decode = msgspec.json.Decoder(_Envelope).decode


def read_lines(path: str | Path) -> Iterator[Line]:
    """Reads the lines of a file; blank ones are skipped. An event that cannot be taken is a line like any other.

    Args:
        path: The file; ``-`` is standard input.

    Raises:
        UsageError: The file cannot be read, or a line's partition, offset, timestamp or key cannot be taken.
    """
    name = str(path)
    try:
        with _opened(path) as stream:
            for number, raw in enumerate(stream, 1):
                if raw := raw.strip():
                    yield _line(name, number, raw)
    except (OSError, EOFError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{name}: cannot be read: {reason}") from None


def read_event_log(path: str | Path) -> Iterator[tuple[int, LogRecord]]:
    """Reads a file as partitions and their records, as ``fold_batch`` takes them.

    Raises:
        UsageError: The file cannot be read, or an offset does not come after that before it in its partition.
    """
    offsets: dict[int, int] = {}
    times: dict[int, int] = {}
    for line in read_lines(path):
        partition = line.partition or 0
        last = offsets.get(partition, -1)
        offset = last + 1 if line.offset is None else line.offset
        if offset <= last:
            raise UsageError(f"{path}:{line.number}: offset: {offset} does not come after {last}")
        offsets[partition] = offset
        time = times[partition] = times.get(partition, 0) if line.timestamp is None else line.timestamp
        yield partition, LogRecord(offset, time, line.key, line.value)


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    with Path(path).open("rb") as stream:
        if stream.peek(2)[:2] != _GZIP:
            yield stream
            return
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield cast(BinaryIO, unpacked)


def _line(name: str, number: int, raw: bytes) -> Line:
    try:
        envelope = _decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # No object, not even JSON for a strict reader: the fold says what is wrong with it, or reads it leniently.
        return Line(number, raw, _key_of(_lenient(raw)), None, None, None)
    partition = _natural(name, number, "partition", envelope.partition)
    offset = _natural(name, number, "offset", envelope.offset)
    timestamp = _natural(name, number, "timestamp", envelope.timestamp)
    value, event = raw, envelope
    if envelope.type is None and envelope.value is not UNSET:
        value = bytes(envelope.value)
        if value[:1] == b'"':
            value = msgspec.json.decode(value, type=str).encode("utf-8", "surrogatepass")
        try:
            event = _decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            event = _lenient(value)
    if timestamp is None:
        timestamp = _time_of(event.ts)
    if envelope.key is UNSET:
        key = _key_of(event)
    else:
        key = None if envelope.key is None else envelope.key.encode("utf-8", "surrogatepass")
    return Line(number, value, key, partition, offset, timestamp)


def _lenient(raw: bytes) -> _Envelope:
    try:
        event = decode_event(raw)
    except WireError:
        return _Envelope()
    return _Envelope(run_id=event.run_id, root_run_id=event.root_run_id, ts=event.ts)


def _key_of(event: _Envelope) -> bytes | None:
    for name in (event.root_run_id, event.run_id):
        if isinstance(name, str) and name.strip():
            return name.strip().encode("utf-8", "surrogatepass")
    return None


def _time_of(ts: Any) -> int | None:
    if isinstance(ts, bool) or not isinstance(ts, int | float) or not math.isfinite(ts):
        return None
    time = event_time(RunStarted(run_id="-", ts=ts), -1)
    return None if time < 0 else time


def _natural(name: str, number: int, field: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST:
        raise UsageError(f"{name}:{number}: {field}: is not a whole number of 0 or more, got {clip(value)}")
    return value
