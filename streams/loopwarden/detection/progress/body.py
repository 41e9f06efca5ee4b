"""What profile ``progress`` keeps of a run (progress, 4).

The remembered calls are columns of fixed width, one byte string each: they decode in one copy, and a fingerprint is
found in them by C. Position 0 is the oldest call. Since calls enter in order, "made in the present world" and "made
since the last compaction" are each true of the newest so many, and one number says it for all.

Fingerprints are 64 bits on the wire. A call and its target are kept whole, because a standing names them; an outcome is
kept to 40 bits and a class of failure to 32, as they are only ever compared with the few entries whose call, target or
tool is the same (a false match is one in 10^10 there). That is what keeps a row within 4 KB whatever a run does.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct

__all__ = [
    "BATCHED",
    "CALL",
    "CALL_ID",
    "CLASS",
    "CRITICAL",
    "EFFECT",
    "FAILED",
    "FIRST",
    "KIND",
    "MISSING",
    "MIXED",
    "NO_CLASS",
    "NO_OUTCOME",
    "OTHER",
    "OUTCOME",
    "READ",
    "SEND",
    "TIME",
    "TOOL",
    "TRAITS",
    "TRANSIENT",
    "WAIT",
    "Body",
    "Pending",
    "tool_key",
]

CALL = 8
"""Bytes of a call and of a target."""
OUTCOME = 5
CLASS = 4
CALL_ID = 4
"""Bytes of a hashed call id: enough to tell a handful of open calls apart."""
TIME = 4
"""Bytes of a time: milliseconds since the body's epoch."""
TOOL = 4
"""Bytes of a tool's key."""

NO_OUTCOME = bytes(OUTCOME)
"""A call that ended without an outcome, or whose end was never seen."""
NO_CLASS = bytes(CLASS)

MIXED = b"-"
"""The outcomes after a compaction are not all the same."""

# Flags of a remembered call: how it ended in the low bits, the first-of-step bit, then kind and wait.
FAILED, TRANSIENT, MISSING = 1, 2, 3
FIRST = 4
TRAITS = 3
"""Kind and wait of a remembered call stand this many bits up."""

# Traits of a call that is open: kind in the low bits.
READ, EFFECT, SEND, OTHER = 0, 1, 2, 3
KIND = 3
WAIT = 4
BATCHED = 8
CRITICAL = 16


class Pending(Struct):
    """A call that is not closed yet.

    Attributes:
        call: Its fingerprint.
        target: The fingerprint of its target.
        tool: Place of its tool in the body's table, -1 for a tool that is not there.
        traits: Kind, and the bits ``WAIT``, ``BATCHED`` (a member of the open batch) and ``CRITICAL`` (judged so).
        call_id: First bytes of its hashed call id, empty where it has none.
        time: When it was made, epoch milliseconds.
        ended: Its result came (members of a batch wait for one another).
        outcome: What came, ``NO_OUTCOME`` where nothing did.
        class_: Class of the failure.
        failed: 0, ``FAILED``, ``TRANSIENT`` or ``MISSING``.
        end: When the result came, epoch milliseconds; until then ``time``.
    """

    call: bytes
    target: bytes
    tool: int
    traits: int
    call_id: bytes
    time: int
    ended: bool = False
    outcome: bytes = NO_OUTCOME
    class_: bytes = NO_CLASS
    failed: int = 0
    end: int = 0


class Body(Struct):
    """The profile's part of a run.

    Attributes:
        tool_keys: Keys of the tools in use, ``TOOL`` bytes each.
        names: Their names by place, as far as they fit (``memory.use_tool``).
        names_bytes: What the names take.
        tools: Per remembered call, the place of its tool.
        calls: Its fingerprint.
        targets: Fingerprint of its target.
        outcomes: Its outcome.
        classes: Its class of failure.
        flags: How it ended, whether it is the first of its step, and its traits.
        times: When its result came, else when it was made.
        epoch: Where ``times`` counts from, epoch milliseconds; -1 before the first.
        fresh: So many of the newest are of the present world: no write since changed anything.
        recent: So many of the newest were made since the last compaction.
        pending: Calls that are not closed yet, oldest first; the members of the open batch stand together.
        batch: First bytes of the open batch's hashed id, empty where there is none.
        points: Points, in quarters.
        tally: Costly steps since the last news by reason; empty for none.
        made: Calls made.
        age: Compactions.
        news_age: ``age`` at the last news.
        idle: Compactions since the last call.
        marks: ``made`` at the last compactions.
        refused: Refused attempts since the last news.
        refused_tools: Place of a tool to its refused attempts.
        told: Groups of warnings emitted, a bit each.
        guard: Outcomes still to be watched after a compaction (a row of its own); 0 while not armed.
        guard_first: Call and outcome of the first of them; empty before it, ``MIXED`` once another one came.
        session: Hash of the session that a compaction parked this state under; empty where none.
    """

    tool_keys: bytes = b""
    names: dict[int, str] = {}
    names_bytes: int = 0
    tools: bytes = b""
    calls: bytes = b""
    targets: bytes = b""
    outcomes: bytes = b""
    classes: bytes = b""
    flags: bytes = b""
    times: bytes = b""
    epoch: int = -1
    fresh: int = 0
    recent: int = 0
    pending: list[Pending] = []
    batch: bytes = b""
    points: int = 0
    tally: list[int] = []
    made: int = 0
    age: int = 0
    news_age: int = 0
    idle: int = 0
    marks: list[int] = []
    refused: int = 0
    refused_tools: dict[int, int] = {}
    told: int = 0
    guard: int = 0
    guard_first: bytes = b""
    session: bytes = b""


@lru_cache(maxsize=8192)
def tool_key(tool: str) -> bytes:
    """The key that stands for a tool in the columns."""
    return blake2b(tool.encode("utf-8", "surrogatepass"), digest_size=TOOL).digest()
