"""Rows that runs of one task share: families, and states that a compaction parked for a session's next run.

They stand in history-ring under reserved keys (design: two tables), go out with the rows of the batch that changed
them, and go by idle time. Only runs of a profile that has kin read or write them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from loopwarden.detection import families, run_state
from loopwarden.detection.profile import Position
from loopwarden.detection.run_state import RunState
from loopwarden_schemas.configuration import AgentSettings
from loopwarden_schemas.fingerprint import id_hash
from loopwarden_schemas.topics import RESERVED

__all__ = ["FAMILY_PREFIX", "SESSION_PREFIX", "Kin", "Parked", "family_key", "peek", "session_key"]

FAMILY_PREFIX = RESERVED + b"family" + RESERVED
SESSION_PREFIX = RESERVED + b"session" + RESERVED
_VERSION = 1


class HistoryRows(Protocol):
    """Rows of history-ring."""

    def history(self, key: bytes) -> bytes | None:
        """One row."""


class Parked(Struct, array_like=True, frozen=True):
    """A state that waits for a session's next run.

    Attributes:
        version: Version of this row.
        run: Key of the run that parked it.
        agent_id: Its agent.
        last_time: Stream time when it was parked, or when its run ended; epoch milliseconds.
        profile: The profile that judges it.
        body: The profile's part of the run's row, once the run has ended; until then the run's own row has it.
        window: Its post-compaction window.
    """

    version: int
    run: bytes
    agent_id: str
    last_time: int
    profile: str
    body: bytes | None = None
    window: bytes | None = None


class _Family:
    __slots__ = ("changed", "had_row", "state")

    def __init__(self, row: bytes | None) -> None:
        self.had_row = row is not None
        self.state: RunState | None = None if row is None else run_state.decode(row, None)
        self.changed = False


class Kin:
    """Families and sessions of one partition at work in a batch.

    Args:
        rows: The partition's rows as of its watermark.
    """

    def __init__(self, rows: HistoryRows) -> None:
        self._rows = rows
        self._families: dict[str, _Family] = {}
        self._sessions: dict[bytes, Parked | None] = {}

    def family(self, root: str, at: Position, settings: AgentSettings) -> RunState | None:
        """The family of a root; None where it has none, or was idle too long."""
        found = self._families.get(root)
        if found is None:
            found = self._families[root] = _Family(self._rows.history(family_key(root)))
        if found.state is not None and families.is_over(found.state, at, settings):
            found.state, found.changed = None, True
        return found.state

    def put_family(self, root: str, state: RunState | None) -> None:
        """Takes the next state of a family that ``family`` was asked for."""
        found = self._families[root]
        found.state, found.changed = state, True

    def park(self, root: str, session: str, parked: Parked) -> bytes:
        """Parks a state for the next run of a session; returns what ``end`` knows the session by."""
        hashed = id_hash(session)
        self._sessions[session_key(root, hashed)] = parked
        return hashed

    def parked(self, root: str, hashed: bytes) -> Parked | None:
        """What is parked for a session's next run."""
        key = session_key(root, hashed)
        if key not in self._sessions:
            row = self._rows.history(key)
            self._sessions[key] = None if row is None else _decode(row)
        return self._sessions[key]

    def take(self, root: str, hashed: bytes) -> None:
        """Forgets what is parked for a session."""
        self._sessions[session_key(root, hashed)] = None

    def put(self, root: str, hashed: bytes, parked: Parked) -> None:
        """Replaces what is parked for a session."""
        self._sessions[session_key(root, hashed)] = parked

    def forget(self, root: str) -> None:
        """Drops what was done to a root's rows in this batch; they are read again when asked for."""
        self._families.pop(root, None)
        prefix = _session_prefix(root)
        for key in [key for key in self._sessions if key.startswith(prefix) and len(key) == len(prefix) + _HASHED]:
            del self._sessions[key]

    def changed(self) -> dict[bytes, bytes | None]:
        """Rows to write; None is a tombstone."""
        rows: dict[bytes, bytes | None] = {}
        for root, family in self._families.items():
            if family.changed and (family.state is not None or family.had_row):
                rows[family_key(root)] = None if family.state is None else run_state.encode(family.state)[0]
        for key, parked in self._sessions.items():
            before = self._rows.history(key)
            row = None if parked is None else _encode(parked)
            if row != before:
                rows[key] = row
        return rows


class Peeked(NamedTuple):
    """What the sweep needs to know of a row.

    Attributes:
        agent_id: Whose idle time-out holds.
        last_time: Stream time of the last event, epoch milliseconds.
    """

    agent_id: str
    last_time: int


def peek(key: bytes, row: bytes) -> Peeked | None:
    """Agent and last time of any row that goes by idle time; None for a row of the worker's own."""
    if key.startswith(SESSION_PREFIX):
        parked = _decode(row)
        return Peeked(parked.agent_id, parked.last_time)
    if key[:1] == RESERVED and not key.startswith(FAMILY_PREFIX):
        return None
    return Peeked(*run_state.peek(row))


def family_key(root: str) -> bytes:
    """Key of a family's row."""
    return FAMILY_PREFIX + root.encode("utf-8", "surrogatepass")


def session_key(root: str, hashed: bytes) -> bytes:
    """Key of what is parked for a session: its root's id, and the hash of its own, which may be long."""
    return _session_prefix(root) + hashed.hex().encode()


def _session_prefix(root: str) -> bytes:
    return SESSION_PREFIX + root.encode("utf-8", "surrogatepass") + RESERVED


_HASHED = 16
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Parked).decode
