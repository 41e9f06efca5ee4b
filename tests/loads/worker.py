"""A worker without a broker: real batches into real metrics, activity and tables, served by the real web."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopwarden.detection.partition import Batch
from loopwarden.processor.metrics import Metrics
from loopwarden.processor.web import Activity, Deed, FoundRun, PastRun, Rate, Sizes
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.verdicts import Verdict
from tests.loads.records import MemoryRows, Record, fold_all, records


@dataclass
class FoldedWorker:
    """One worker: what it was fed stands in its tables. Implements ``Inspection`` and ``HealthCheck``."""

    settings: Configuration
    partition: int = 0
    others: list[str] = field(default_factory=list)
    sick: str = ""

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.settings)
        self.activity = Activity()
        self.rows = MemoryRows()
        self.batches: list[Batch] = []

    def feed(self, events: Sequence[dict[str, Any]], *, now_ms: int | None = None, size: int = 500) -> None:
        """Folds events, from this worker's first offset on, and counts them."""
        self.fold(records(events), now_ms=now_ms, size=size)

    def fold(
        self, what: Sequence[Record], *, now_ms: int | None = None, size: int = 500, fold_seconds: float = 0.002
    ) -> None:
        """Folds records and counts them."""
        for batch in fold_all(what, self.settings, size=size, rows=self.rows):
            self.batches.append(batch)
            for observer in (self.metrics, self.activity):
                observer.batch_finished(
                    self.partition, batch, fold_seconds=fold_seconds, now_ms=now_ms or batch.broker_time + 5
                )
        self.metrics.live_runs(self.partition, len(self.rows.ring))
        self.metrics.armed_guards(self.partition, len(self.rows.armed))
        self.metrics.lag(self.partition, 0)

    def verdicts(self) -> list[Verdict]:
        """All verdicts so far."""
        return [verdict for batch in self.batches for _, verdict in batch.verdicts]

    # -- Inspection

    def find_run(self, run_id: str) -> FoundRun | None:
        """A run in the tables."""
        row = self.rows.history(run_id.encode())
        return None if row is None else FoundRun(run_id, self.partition, row, self.rows.window(run_id.encode()))

    def configuration(self) -> Configuration:
        """The configuration."""
        return self.settings

    def sizes(self) -> Sizes:
        """How many runs there are."""
        return Sizes(len(self.rows.ring), len(self.rows.armed))

    def live_runs(self) -> Iterator[Sequence[FoundRun]]:
        """All runs in the tables."""
        yield [
            FoundRun(key.decode(), self.partition, row, self.rows.window(key)) for key, row in self.rows.ring.items()
        ]

    def recent_verdicts(self) -> Sequence[Verdict]:
        """The last verdicts."""
        return self.activity.recent_verdicts()

    def rates(self) -> list[Rate]:
        """Rates up to the last batch."""
        return self.activity.rates(self.batches[-1].broker_time + 5 if self.batches else None)

    def peers(self) -> list[str]:
        """The others."""
        return self.others

    # -- HealthCheck

    def healthy(self) -> tuple[bool, str]:
        """Well, unless told otherwise."""
        return not self.sick, self.sick or "no lag"

    def ready(self) -> tuple[bool, str]:
        """Well, unless told otherwise."""
        return not self.sick, self.sick or "ready"


class ReadingRoom:
    """The topics of one worker's events: implements ``Records`` by folding them again."""

    def __init__(self, configuration: Configuration, events: Sequence[dict[str, Any]]) -> None:
        self._configuration = configuration
        self._events = events
        self.asked: list[tuple[str, int | None]] = []
        self.failing: Callable[[], None] | None = None

    async def __call__(self, run_id: str, partition: int | None) -> PastRun | None:
        """Reads up on a run."""
        self.asked.append((run_id, partition))
        if self.failing is not None:
            self.failing()
        kept = [
            (event, record)
            for event, record in zip(self._events, records(self._events), strict=True)
            if event["run_id"] == run_id
        ]
        if not kept:
            return None
        own = [event for event, _ in kept]
        rows, verdicts = MemoryRows(), []
        ended = own[-1]["type"] == "run_ended"
        for batch in fold_all([record for _, record in kept[: len(kept) - ended]], self._configuration, rows=rows):
            verdicts += [verdict for _, verdict in batch.verdicts]
        deeds = [
            Deed(record.timestamp, event["type"], event.get("tool") or event.get("outcome") or "")
            for event, record in kept
            if event["type"] in ("call_refused", "verdict_ack", "run_released", "run_ended")
        ]
        key = run_id.encode()
        return PastRun(run_id, 0, rows.ring.get(key), rows.armed.get(key), verdicts, deeds, ended, True)


def looping(
    run_id: str, calls: int, *, agent: str = "coder", tool: str = "search", root: str = ""
) -> list[dict[str, Any]]:
    """Events of a run that makes one call again and again, with the same outcome."""
    base: dict[str, Any] = {"run_id": run_id, "agent_id": agent}
    if root:
        base["root_run_id"] = root
    events: list[dict[str, Any]] = [{**base, "type": "run_started"}]
    for index in range(calls):
        call = {**base, "tool": tool, "call_id": f"{run_id}-{index}", "args": {"q": "same"}}
        events += [{**call, "type": "tool_call"}, {**call, "type": "tool_result", "result": "nothing"}]
    return events
