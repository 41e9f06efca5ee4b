"""A chunk: the value of one Faust message, consecutive records of one partition as they were fetched."""

from __future__ import annotations

from typing import Any

__all__ = ["Chunk"]


class Chunk:
    """Consecutive records of one partition.

    Attributes:
        records: aiokafka's records, oldest first; may be empty (control records, what compaction removed).
        first: Position before them.
        next: Position after them, gaps and control records included.
        finished: Everything that they came to is acknowledged: their offsets may be committed.
    """

    __slots__ = ("finished", "first", "next", "records")

    def __init__(self, records: list[Any], first: int, next_: int) -> None:
        self.records = records
        self.first = first
        self.next = next_
        self.finished = False

    def __repr__(self) -> str:
        return f"<Chunk {self.first}..{self.next} of {len(self.records)} records>"
