"""Is the worker alive, and is it ready? Alive means progress, not an open port (faust.md, checklist)."""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Health", "Progress"]


class Progress(Protocol):
    """What health looks at."""

    def total_lag(self) -> int:
        """Records in the log that were not handed to the fold yet, plus those that it has in hand."""

    def finished_at(self) -> float:
        """When a batch was last finished, ``time.monotonic()``."""

    def is_assigned(self) -> bool:
        """Whether the group gave this worker partitions, or has none to give."""

    def is_recovered(self) -> bool:
        """Whether all tables of its active partitions are restored."""

    def is_rebalancing(self) -> bool:
        """Whether a rebalance is going on."""


class Health:
    """Health of a worker.

    Args:
        progress: What it has done.
        stall_timeout_s: Seconds with lag and without a finished batch after which it is unhealthy.
    """

    def __init__(self, progress: Progress, *, stall_timeout_s: float) -> None:
        self._progress = progress
        self._stall_timeout_s = stall_timeout_s
        self._lagging_since: float | None = None

    def healthy(self) -> tuple[bool, str]:
        """Whether it makes progress where there is something to do, and in words."""
        now = time.monotonic()
        lag = self._progress.total_lag()
        if lag == 0:
            self._lagging_since = None
            return True, "no lag"
        if self._lagging_since is None:
            self._lagging_since = now
        still = now - max(self._lagging_since, self._progress.finished_at())
        if still > self._stall_timeout_s:
            return False, f"lag of {lag} records and no batch finished for {still:.0f} s"
        return True, f"lag of {lag} records, last batch {now - self._progress.finished_at():.1f} s ago"

    def ready(self) -> tuple[bool, str]:
        """Whether it is assigned and recovered, and in words."""
        if self._progress.is_rebalancing():
            return False, "rebalancing"
        if not self._progress.is_assigned():
            return False, "no partitions assigned yet"
        if not self._progress.is_recovered():
            return False, "recovering tables"
        return True, "ready"
