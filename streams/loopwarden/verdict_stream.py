"""Verdicts out of the topic, each once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from loopwarden_schemas.codec import decode_verdict
from loopwarden_schemas.errors import WireError
from loopwarden_schemas.topics import RESERVED
from loopwarden_schemas.verdicts import Verdict

__all__ = ["VerdictReader"]

REMEMBERED = 100_000
"""Verdict ids that are remembered: after a crash a worker sends those of a batch again."""


class VerdictReader:
    """Decodes records of the verdict topic; drops barriers and what it has seen.

    Attributes:
        unreadable: Records that were no verdict.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self.unreadable = 0

    def take(self, records: Iterable[Any]) -> Iterator[Verdict]:
        """Verdicts of some records, in order."""
        for record in records:
            if record.value is None or (record.key or b"").startswith(RESERVED):
                continue
            try:
                verdict = decode_verdict(record.value)
            except WireError:
                self.unreadable += 1
                continue
            if verdict.id in self._seen:
                continue
            self._seen[verdict.id] = None
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            yield verdict
