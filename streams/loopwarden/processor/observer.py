"""What the processor tells of its work. ``metrics.Metrics`` listens; a test or a benchmark need not."""

from __future__ import annotations

from typing import Protocol

from loopwarden.detection.partition import Batch
from loopwarden_schemas.configuration import Configuration

__all__ = ["Observer", "Silent", "Tee"]


class Observer(Protocol):
    """Called from the event loop, once per fact, and never again when an event is folded a second time."""

    def batch_finished(self, partition: int, batch: Batch, *, fold_seconds: float, now_ms: int) -> None:
        """A batch is finished: all that it came to is acknowledged.

        Args:
            partition: Its partition.
            batch: What it came to.
            fold_seconds: Seconds that the fold took.
            now_ms: Worker's clock, epoch milliseconds.
        """

    def changelog_written(self, table: str, size: int, rows: int) -> None:
        """Rows of a table were acknowledged: bytes on the wire, and their number."""

    def live_runs(self, partition: int, number: int) -> None:
        """Runs of a partition that are alive."""

    def armed_guards(self, partition: int, number: int) -> None:
        """Rows of a partition in post-compaction-window."""

    def runs_expired(self, partition: int, number: int) -> None:
        """Runs of a partition that the sweep found idle for too long."""

    def lag(self, partition: int, records: int) -> None:
        """Records of a partition that are in the log and not yet handed to the fold."""

    def commit(self, partition: int) -> None:
        """Offsets of a partition were committed."""

    def recovered(self, partition: int, rows: int, seconds: float) -> None:
        """A partition's tables are restored."""

    def rebalanced(self, seconds: float) -> None:
        """A rebalance is over."""

    def partition_lost(self, partition: int) -> None:
        """A partition went to another worker: its gauges are not ours any more."""

    def reconfigured(self, configuration: Configuration) -> None:
        """A changed configuration was taken."""


class Silent:
    """Listens to nothing."""

    def batch_finished(self, partition: int, batch: Batch, *, fold_seconds: float, now_ms: int) -> None:
        """Nothing."""

    def changelog_written(self, table: str, size: int, rows: int) -> None:
        """Nothing."""

    def live_runs(self, partition: int, number: int) -> None:
        """Nothing."""

    def armed_guards(self, partition: int, number: int) -> None:
        """Nothing."""

    def runs_expired(self, partition: int, number: int) -> None:
        """Nothing."""

    def lag(self, partition: int, records: int) -> None:
        """Nothing."""

    def commit(self, partition: int) -> None:
        """Nothing."""

    def recovered(self, partition: int, rows: int, seconds: float) -> None:
        """Nothing."""

    def rebalanced(self, seconds: float) -> None:
        """Nothing."""

    def partition_lost(self, partition: int) -> None:
        """Nothing."""

    def reconfigured(self, configuration: Configuration) -> None:
        """Nothing."""


class Tee:
    """Passes on to several.

    Args:
        observers: Who is told, in order.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def batch_finished(self, partition: int, batch: Batch, *, fold_seconds: float, now_ms: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.batch_finished(partition, batch, fold_seconds=fold_seconds, now_ms=now_ms)

    def changelog_written(self, table: str, size: int, rows: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.changelog_written(table, size, rows)

    def live_runs(self, partition: int, number: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.live_runs(partition, number)

    def armed_guards(self, partition: int, number: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.armed_guards(partition, number)

    def runs_expired(self, partition: int, number: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.runs_expired(partition, number)

    def lag(self, partition: int, records: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.lag(partition, records)

    def commit(self, partition: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.commit(partition)

    def recovered(self, partition: int, rows: int, seconds: float) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.recovered(partition, rows, seconds)

    def rebalanced(self, seconds: float) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.rebalanced(seconds)

    def partition_lost(self, partition: int) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.partition_lost(partition)

    def reconfigured(self, configuration: Configuration) -> None:
        """Passed on."""
        for observer in self._observers:
            observer.reconfigured(configuration)
