"""What happened lately, for the page: the last verdicts, and calls and loops by the minute."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from loopwarden.detection.partition import Batch
from loopwarden.processor.observer import Silent
from loopwarden.processor.web.inspection import Rate
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Activity"]

VERDICTS = 200
"""So many verdicts are kept."""
WINDOWS = (1, 5, 60)
"""Rates are over so many minutes."""
_SLICE_MS = 5_000


class Activity(Silent):
    """Listens to finished batches as ``observer.Observer``."""

    def __init__(self) -> None:
        self._verdicts: deque[Verdict] = deque(maxlen=VERDICTS)
        # Slice of time, calls, loops; oldest first.
        self._slices: deque[list[int]] = deque(maxlen=max(WINDOWS) * 60_000 // _SLICE_MS + 1)

    def batch_finished(self, partition: int, batch: Batch, *, fold_seconds: float, now_ms: int) -> None:
        """Takes note of a batch."""
        calls = batch.events.get("tool_call", 0) + batch.events.get("call_refused", 0)
        loops = 0
        for _, verdict in batch.verdicts:
            if verdict.level != "none":
                self._verdicts.append(verdict)
                loops += verdict.stage == "final"
        if not calls and not loops:
            return
        current = now_ms // _SLICE_MS
        if not self._slices or self._slices[-1][0] < current:
            self._slices.append([current, 0, 0])
        self._slices[-1][1] += calls
        self._slices[-1][2] += loops

    def recent_verdicts(self) -> Sequence[Verdict]:
        """The last verdicts that say something, oldest first."""
        return list(self._verdicts)

    def rates(self, now_ms: int | None = None) -> list[Rate]:
        """Calls and loops over the last 1, 5 and 60 minutes.

        Args:
            now_ms: Now, epoch milliseconds; the clock's by default.
        """
        now = (int(time.time() * 1000) if now_ms is None else now_ms) // _SLICE_MS
        return [self._rate(minutes, now - minutes * 60_000 // _SLICE_MS) for minutes in WINDOWS]

    def _rate(self, minutes: int, since: int) -> Rate:
        inside = [entry for entry in self._slices if entry[0] > since]
        return Rate(minutes, sum(entry[1] for entry in inside), sum(entry[2] for entry in inside))
