"""The row of a run under profile ``progress``: MessagePack, its open calls packed, its window in a row of its own."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from loopwarden.detection.progress.body import CALL, CALL_ID, CLASS, MISSING, OUTCOME, Body, Pending

__all__ = ["decode", "encode"]

_CLOCK = 6
_MADE = struct.Struct(f"<{CALL}s{CALL}s{CALL_ID}sBBB{_CLOCK}s")
_END = struct.Struct(f"<{OUTCOME}s{CLASS}s{_CLOCK}s")
_ENDED, _NAMED = 16, 32


class _Row(Struct, array_like=True):
    """The columns of ``Body``, in this order; new ones are only added at the end, with a default."""

    tool_keys: bytes
    names: dict[int, str]
    names_bytes: int
    tools: bytes
    calls: bytes
    targets: bytes
    outcomes: bytes
    classes: bytes
    flags: bytes
    times: bytes
    epoch: int
    fresh: int
    recent: int
    pending: bytes
    batch: bytes
    points: int
    tally: list[int]
    made: int
    age: int
    news_age: int
    idle: int
    marks: list[int]
    refused: int
    refused_tools: dict[int, int]
    told: int
    session: bytes


class _Window(Struct, array_like=True):
    guard: int
    guard_first: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Row).decode
_decode_window = msgspec.msgpack.Decoder(_Window).decode


def _pack(call: Pending) -> bytes:
    state = call.failed | (_ENDED if call.ended else 0) | (_NAMED if call.call_id else 0)
    time = call.time.to_bytes(_CLOCK, "little")
    made = _MADE.pack(call.call, call.target, call.call_id, call.tool, call.traits, state, time)
    return made + _END.pack(call.outcome, call.class_, call.end.to_bytes(_CLOCK, "little")) if call.ended else made


def _unpack(packed: bytes) -> Iterator[Pending]:
    at = 0
    while at < len(packed):
        call, target, call_id, tool, traits, state, clock = _MADE.unpack_from(packed, at)
        at += _MADE.size
        time = int.from_bytes(clock, "little")
        pending = Pending(call, target, tool, traits, call_id if state & _NAMED else b"", time, end=time)
        if state & _ENDED:
            pending.outcome, pending.class_, clock = _END.unpack_from(packed, at)
            at += _END.size
            pending.ended, pending.failed = True, state & MISSING
            pending.end = int.from_bytes(clock, "little")
        yield pending


def encode(body: Body) -> tuple[bytes, bytes | None]:
    """Writes a body and its post-compaction window, None while that is not armed."""
    row = _Row(
        body.tool_keys,
        body.names,
        body.names_bytes,
        body.tools,
        body.calls,
        body.targets,
        body.outcomes,
        body.classes,
        body.flags,
        body.times,
        body.epoch,
        body.fresh,
        body.recent,
        b"".join([_pack(call) for call in body.pending]) if body.pending else b"",
        body.batch,
        body.points,
        body.tally,
        body.made,
        body.age,
        body.news_age,
        body.idle,
        body.marks,
        body.refused,
        body.refused_tools,
        body.told,
        body.session,
    )
    return _encode(row), _encode(_Window(body.guard, body.guard_first)) if body.guard else None


def decode(row: bytes, window: bytes | None) -> Body:
    """Reads a body and its window.

    Raises:
        ValueError: Not a body of this profile.
    """
    try:
        got = _decode(row)
        guard = _decode_window(window) if window is not None else None
        pending = list(_unpack(got.pending)) if got.pending else []
    except (msgspec.MsgspecError, struct.error) as error:
        raise ValueError(f"not a row of profile progress: {error}") from None
    return Body(
        got.tool_keys,
        got.names,
        got.names_bytes,
        got.tools,
        got.calls,
        got.targets,
        got.outcomes,
        got.classes,
        got.flags,
        got.times,
        got.epoch,
        got.fresh,
        got.recent,
        pending,
        got.batch,
        got.points,
        got.tally,
        got.made,
        got.age,
        got.news_age,
        got.idle,
        got.marks,
        got.refused,
        got.refused_tools,
        got.told,
        guard.guard if guard is not None else 0,
        guard.guard_first if guard is not None else b"",
        got.session,
    )
