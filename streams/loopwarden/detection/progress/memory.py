"""The remembered calls: find, append, forget (progress, 4). What ``body`` holds in columns, read and written here."""

from __future__ import annotations

from loopwarden.detection.progress.body import CALL, CALL_ID, CLASS, OUTCOME, TIME, TOOL, Body, Pending, tool_key

__all__ = [
    "append",
    "entry_call",
    "entry_class",
    "entry_outcome",
    "entry_target",
    "entry_time",
    "newest",
    "newest_of_tool",
    "tool_place",
    "use_tool",
]

TOOLS = 72
"""Tools in the table before those that nothing refers to are forgotten: more than can be referred to."""
STATE_BYTES = 2_980
"""What a body may take. With event ids, run ids and all else a row keeps, 4 KB (tests/property/test_progress_size)."""
NAMES_BYTES = 500
"""Names that always fit while few calls are open."""
FEW_PENDING = 6
_FIXED_BYTES = 150
_ENTRY_BYTES = 2 * CALL + OUTCOME + CLASS + TIME + 2
_PENDING_BYTES = 2 * CALL + CALL_ID + OUTCOME + CLASS + 2 * 6 + 3
_LATEST = 2 ** (8 * TIME) - 1
_BYTE = [bytes((value,)) for value in range(256)]


def newest(column: bytes, width: int, value: bytes, end: int) -> int:
    """Place of the newest entry before ``end`` that has a value, -1 for none.

    Args:
        column: The column.
        width: Bytes an entry.
        value: What to look for, ``width`` bytes.
        end: Number of entries to look at, from the oldest.
    """
    at = column.rfind(value, 0, end * width)
    while at >= 0 and at % width:
        # Found across two entries.
        at = column.rfind(value, 0, at + width - 1)
    return at // width


def newest_of_tool(body: Body, tool: int) -> int:
    """Place of the newest call of a tool, -1 for none."""
    return body.tools.rfind(tool) if tool >= 0 else -1


def entry_call(body: Body, place: int) -> bytes:
    """Fingerprint of a remembered call."""
    return body.calls[place * CALL : place * CALL + CALL]


def entry_target(body: Body, place: int) -> bytes:
    """Fingerprint of its target."""
    return body.targets[place * CALL : place * CALL + CALL]


def entry_outcome(body: Body, place: int) -> bytes:
    """Its outcome."""
    return body.outcomes[place * OUTCOME : place * OUTCOME + OUTCOME]


def entry_class(body: Body, place: int) -> bytes:
    """Its class of failure."""
    return body.classes[place * CLASS : place * CLASS + CLASS]


def entry_time(body: Body, place: int) -> int:
    """When its result came, epoch milliseconds."""
    return body.epoch + int.from_bytes(body.times[place * TIME : place * TIME + TIME], "little")


def append(body: Body, call: Pending, flags: int, memory: int) -> None:
    """Appends a call that is closed, in the present world and age; the oldest goes where memory is full.

    Args:
        body: The run.
        call: The call; if it never ended, the time when it was made counts.
        flags: How it ended, ``FIRST``, and its traits.
        memory: Calls to remember.
    """
    since = call.end - body.epoch
    if not 0 <= since <= _LATEST:
        since = _rebase(body, call.end)
    body.tools += _BYTE[call.tool]
    body.calls += call.call
    body.targets += call.target
    body.outcomes += call.outcome
    body.classes += call.class_
    body.flags += _BYTE[flags]
    body.times += since.to_bytes(TIME, "little")
    excess = len(body.tools) - memory
    if excess > 0:
        body.tools = body.tools[excess:]
        body.calls = body.calls[excess * CALL :]
        body.targets = body.targets[excess * CALL :]
        body.outcomes = body.outcomes[excess * OUTCOME :]
        body.classes = body.classes[excess * CLASS :]
        body.flags = body.flags[excess:]
        body.times = body.times[excess * TIME :]
    if body.fresh < memory:
        body.fresh += 1
    if body.recent < memory:
        body.recent += 1


def _rebase(body: Body, time: int) -> int:
    """Moves the epoch so that a time fits; returns the time since then.

    A clock that jumps back before the epoch counts as standing still; entries over 49 days old as just that old.
    """
    if body.epoch < 0:
        body.epoch = time
        return 0
    if time < body.epoch:
        return 0
    shift = time - body.epoch - _LATEST // 2
    times = [
        max(0, int.from_bytes(body.times[at : at + TIME], "little") - shift) for at in range(0, len(body.times), TIME)
    ]
    body.times = b"".join(since.to_bytes(TIME, "little") for since in times)
    body.epoch += shift
    return time - body.epoch


def tool_place(body: Body, tool: str) -> int:
    """Place of a tool in the table, -1 where it is not there."""
    keys = body.tool_keys
    at = keys.find(key := tool_key(tool))
    return at // TOOL if at % TOOL == 0 else newest(keys, TOOL, key, len(keys) // TOOL)


def use_tool(body: Body, tool: str) -> int:
    """Place of a tool in the table, where it is put if it is not there. To be asked before a call is added."""
    place = tool_place(body, tool)
    if place < 0:
        if len(body.tool_keys) >= TOOLS * TOOL:
            _forget_tools(body)
        place = len(body.tool_keys) // TOOL
        body.tool_keys += tool_key(tool)
    if place not in body.names:
        body.names[place] = tool
        body.names_bytes += _name_bytes(tool)
    if body.names_bytes <= NAMES_BYTES and len(body.pending) < FEW_PENDING:
        return place
    used = _FIXED_BYTES + len(body.tool_keys) + _ENTRY_BYTES * len(body.tools) + _PENDING_BYTES * len(body.pending)
    if used + body.names_bytes > STATE_BYTES - _PENDING_BYTES:
        _forget_names(body, STATE_BYTES - _PENDING_BYTES - used)
    return place


def _forget_tools(body: Body) -> None:
    """Drops tools that no call refers to."""
    used = sorted({*body.tools, *body.refused_tools, *(call.tool for call in body.pending)})
    moved = {old: new for new, old in enumerate(used)}
    keys = body.tool_keys
    body.tool_keys = b"".join(keys[old * TOOL : old * TOOL + TOOL] for old in used)
    body.names = {moved[old]: name for old, name in body.names.items() if old in moved}
    body.names_bytes = sum(_name_bytes(name) for name in body.names.values())
    body.tools = bytes([moved[old] for old in body.tools])
    body.refused_tools = {moved[old]: count for old, count in body.refused_tools.items()}
    for call in body.pending:
        call.tool = moved[call.tool]


def _forget_names(body: Body, room: int) -> None:
    """Forgets the longest names until they fit; the tools stay told apart by their keys."""
    sizes = {place: _name_bytes(name) for place, name in body.names.items()}
    for place in sorted(sizes, key=lambda place: (-sizes[place], place)):
        if body.names_bytes <= room:
            return
        body.names_bytes -= sizes[place]
        del body.names[place]


def _name_bytes(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass")) + 3
