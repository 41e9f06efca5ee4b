"""What the fold noticed beside state and verdicts: counters rise from it once, when the batch is finished."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Note", "NoteKind"]

NoteKind = Literal[
    "call",
    "duplicate",
    "seq_gap",
    "run_started",
    "run_ended",
    "run_expired",
    "run_released",
    "barren",
    "went_on",
    "halted",
    "refused",
    "ack",
    "usage",
    "publisher",
]


class Note(NamedTuple):
    """One thing noticed.

    Attributes:
        kind: What.
        agent_id: Of which agent, empty where unknown.
        tool: Of which tool, empty where none.
        label: A word from a short list: outcome of a run, result of an ack, mode of a call that went on, ``critical``
            for what a run uses after its first critical verdict.
        value: How much: missing sequence numbers; milliseconds, -1 where nobody says.
        after_compaction: Fewer than ``historySize`` calls ago the context was compacted.
        detail: The event's ``usage`` or ``publisher`` struct, where that is what was noticed; for a barren call, the
            usage that it cost. A model response's usage goes to the first of its results.
    """

    kind: NoteKind
    agent_id: str = ""
    tool: str = ""
    label: str = ""
    value: int = 0
    after_compaction: bool = False
    detail: object = None
