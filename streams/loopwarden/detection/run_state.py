"""A run's state: what every profile needs, and the profile's body.

The row of table ``history-ring`` is MessagePack, its first element the version. A row of the version before stays
readable; a newer one is refused, so that a rolled-back worker never writes over what it does not understand.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from loopwarden.detection.profile import Profile
from loopwarden.detection.profiles import PROFILES

__all__ = ["ROW_VERSION", "Abort", "RowVersionError", "RunState", "decode", "encode", "new", "peek", "peek_calls"]

ROW_VERSION = 1
EVENT_IDS = 64
JUDGED = 8
"""Calls judged critical whose end is still to come, at most; the oldest goes first."""
_ID_BYTES = 6


class RowVersionError(ValueError):
    """A row of a version that this worker cannot read."""


class Abort(Struct, array_like=True):
    """The abort that ended the run, as the standing repeats it to a process that starts again.

    Attributes:
        detector: The rule.
        tool: Tool that looped, empty where none did.
        count: How often.
        message: For the model.
        scope: ``run`` or ``root``.
    """

    detector: str
    tool: str
    count: int
    message: str
    scope: str = "run"


class RunState(Struct):
    """One run.

    Attributes:
        profile: The profile that judges it; kept until it ends.
        body: The profile's part.
        agent_id: The agent, empty where unknown.
        root_run_id: The root run, empty where there is none.
        last_time: Stream time of the last event, epoch milliseconds.
        calls: Calls so far.
        since_compaction: Calls since the last compaction, -1 before the first.
        event_ids: Hashes of the last 64 event ids, six bytes each, oldest first.
        seq: Highest sequence number seen, -1 before the first.
        ignored: Calls that went on after a critical verdict, since the last release.
        standing: Hash of the standing as the runner has it, empty for an empty one.
        wide: Hash of its entries that outlast the next call.
        abort: The abort that ended the run.
        started: Stream time of the first event, epoch milliseconds.
        critical: It had a critical verdict, since the last release.
        spent: What calls report to have used (tokens read, written, cost) whose result is still to come.
        judged: Calls judged critical that neither ran nor were refused yet: hash of the call id, and when.
    """

    profile: str
    body: Any
    agent_id: str = ""
    root_run_id: str = ""
    last_time: int = 0
    calls: int = 0
    since_compaction: int = -1
    event_ids: bytes = b""
    seq: int = -1
    ignored: int = 0
    standing: bytes = b""
    wide: bytes = b""
    abort: Abort | None = None
    started: int = 0
    critical: bool = False
    spent: tuple[int, int, int] | None = None
    judged: list[tuple[bytes, int]] = []

    @property
    def rules(self) -> Profile:
        """The profile that judges this run."""
        return PROFILES[self.profile]

    def knows_event(self, event_id: bytes) -> bool:
        """Whether an event id (hashed) is one of the last 64; remembers it if not."""
        ids, event_id = self.event_ids, event_id[:_ID_BYTES]
        place = ids.find(event_id)
        while place >= 0:
            if place % _ID_BYTES == 0:
                return True
            place = ids.find(event_id, place + 1)
        self.event_ids = (ids + event_id)[-EVENT_IDS * _ID_BYTES :]
        return False

    def take_judged(self, call: bytes) -> int | None:
        """When a call was judged critical, which is then forgotten; None if it was not."""
        for index, (judged, time) in enumerate(self.judged):
            if judged == call:
                del self.judged[index]
                return time
        return None


class _Row(Struct, array_like=True):
    version: int
    profile: str
    body: Raw
    agent_id: str
    root_run_id: str
    last_time: int
    calls: int
    since_compaction: int
    event_ids: bytes
    seq: int
    ignored: int
    standing: bytes
    wide: bytes
    abort: Abort | None
    started: int = 0
    critical: bool = False
    spent: tuple[int, int, int] | None = None
    judged: list[tuple[bytes, int]] = []


_decoder = msgspec.msgpack.Decoder(_Row)
_encoder = msgspec.msgpack.Encoder()


def new(profile: str, time: int) -> RunState:
    """The state of a run that begins."""
    return RunState(profile, PROFILES[profile].new(), started=time, last_time=time)


def decode(row: bytes, window: bytes | None) -> RunState:
    """Reads a run's rows.

    Args:
        row: Row of history-ring.
        window: Row of post-compaction-window, None where there is none.

    Raises:
        RowVersionError: The row is of a newer version, or of an unknown profile.
        ValueError: The row is damaged.
    """
    try:
        got = _decoder.decode(row)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a history-ring row: {error}") from None
    if got.version > ROW_VERSION or got.profile not in PROFILES:
        raise RowVersionError(
            f"a row of version {got.version}, profile {got.profile!r}; this worker reads up to version {ROW_VERSION}, "
            f"profiles {', '.join(sorted(PROFILES))}"
        )
    return RunState(
        got.profile,
        PROFILES[got.profile].decode(bytes(got.body), window),
        got.agent_id,
        got.root_run_id,
        got.last_time,
        got.calls,
        got.since_compaction,
        got.event_ids,
        got.seq,
        got.ignored,
        got.standing,
        got.wide,
        got.abort,
        got.started,
        got.critical,
        got.spent,
        got.judged,
    )


def peek(row: bytes) -> tuple[str, int]:
    """Agent and last time of a row of history-ring, without reading its body."""
    got = _decoder.decode(row)
    return got.agent_id, got.last_time


def peek_calls(row: bytes) -> int:
    """Number of calls of a row of history-ring, without reading its body."""
    return _decoder.decode(row).calls


def encode(state: RunState) -> tuple[bytes, bytes | None]:
    """Writes a run's rows: history-ring, and post-compaction-window or None."""
    body, window = state.rules.encode(state.body)
    row = _Row(
        ROW_VERSION,
        state.profile,
        Raw(body),
        state.agent_id,
        state.root_run_id,
        state.last_time,
        state.calls,
        state.since_compaction,
        state.event_ids,
        state.seq,
        state.ignored,
        state.standing,
        state.wide,
        state.abort,
        state.started,
        state.critical,
        state.spent,
        state.judged,
    )
    return _encoder.encode(row), window
