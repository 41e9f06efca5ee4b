"""What the documented profile keeps of a run: its part of the history-ring row, and the guard's window."""

from __future__ import annotations

from hashlib import blake2b

import msgspec
from msgspec import Struct

from loopwarden.detection.documented.detectors import Finding
from loopwarden.detection.documented.guard import Guard
from loopwarden.detection.documented.history import History

__all__ = ["Body", "Mark", "decode", "encode"]

WARNING_KEYS = 256
"""Warning keys remembered; the oldest goes first (rule 6)."""
MARKS = 64
"""Calls judged critical whose result is still to come; the oldest goes first (design: verdicts ahead of the call)."""
BUCKET = 10
"""One warning of a key for every ten more (rule 6)."""


class Mark(Struct, array_like=True):
    """A call that was judged critical and may run all the same.

    Attributes:
        call: Hash of the call id, empty where there is none.
        tool: Stored tool name.
        drop: Its result is not recorded (mode enforce).
    """

    call: bytes
    tool: str
    drop: bool


class Body(Struct, array_like=True):
    """The documented profile's part of a run.

    Attributes:
        history: The ring.
        warned: Warning key (hashed) to the bucket that was last let through.
        marks: Calls judged critical whose result is still to come.
        guard: The post-compaction guard, None while not armed. Stands in a row of its own.
    """

    history: History
    warned: dict[bytes, int] = {}
    marks: list[Mark] = []
    guard: Guard | None = None

    def let_through(self, finding: Finding) -> bool:
        """Whether a finding is emitted: a critical always; a warning whose key is new or ten more (reading 2)."""
        if finding.level == "critical":
            return True
        key = blake2b(repr(finding.warning_key).encode(), digest_size=8).digest()
        bucket = finding.count // BUCKET
        last = self.warned.get(key)
        if last is not None and bucket <= last:
            return False
        self.warned[key] = bucket
        if len(self.warned) > WARNING_KEYS:
            del self.warned[next(iter(self.warned))]
        return True

    def would_let_through(self, finding: Finding) -> bool:
        """The same question without the answer's being remembered."""
        if finding.level == "critical":
            return True
        key = blake2b(repr(finding.warning_key).encode(), digest_size=8).digest()
        last = self.warned.get(key)
        return last is None or finding.count // BUCKET > last

    def mark(self, call: bytes, tool: str, drop: bool) -> None:
        """Remembers a call that was judged critical; once for each call id and tool, as the vectors have it."""
        mark = Mark(call, tool, drop)
        if mark not in self.marks:
            self.marks.append(mark)
            del self.marks[:-MARKS]

    def take_mark(self, call: bytes, tool: str) -> Mark | None:
        """Takes out the oldest mark of this call id and tool, None where there is none."""
        for index, mark in enumerate(self.marks):
            if mark.call == call and mark.tool == tool:
                return self.marks.pop(index)
        return None


_encoder = msgspec.msgpack.Encoder()
_body_decoder = msgspec.msgpack.Decoder(Body)
_guard_decoder = msgspec.msgpack.Decoder(Guard)


def decode(row: bytes, window: bytes | None) -> Body:
    """Reads a body and its window.

    Raises:
        ValueError: Not a body.
    """
    try:
        body = _body_decoder.decode(row)
        body.guard = _guard_decoder.decode(window) if window is not None else None
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a row of profile documented: {error}") from None
    return body


def encode(body: Body) -> tuple[bytes, bytes | None]:
    """Writes a body and its window, None while the guard is not armed."""
    guard, body.guard = body.guard, None
    try:
        return _encoder.encode(body), None if guard is None else _encoder.encode(guard)
    finally:
        body.guard = guard
