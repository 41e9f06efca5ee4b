"""Adds up what each configuration would have done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loopwarden.backtest.judging import JudgedRun, JudgedUnit, RunFacts

__all__ = ["ASSUMED", "Difference", "Report", "Totals"]

ASSUMED = (
    "What a run would have done after a halt is assumed, not known: "
    "the calls and the cost from there on count as saved."
)


@dataclass
class Totals:
    """What one configuration would have done to the whole runs that nobody had halted.

    Attributes:
        name: The configuration.
        warned: Runs warned.
        refused: Runs of which a call would have been refused first.
        aborted: Runs that would have been aborted first.
        successful_halted: Of the successful runs, those halted.
        saved_calls: Calls from the first halt on.
        saved_cost: Their cost, in micro-units.
    """

    name: str
    warned: int = 0
    refused: int = 0
    aborted: int = 0
    successful_halted: int = 0
    saved_calls: int = 0
    saved_cost: int = 0

    def add(self, run: RunFacts, judged: JudgedRun) -> None:
        """Counts a run."""
        self.warned += judged.warned
        self.refused += judged.action == "block"
        self.aborted += judged.action == "abort"
        self.successful_halted += bool(judged.action) and run.outcome == "success"
        self.saved_calls += judged.saved_calls
        self.saved_cost += judged.saved_cost


@dataclass
class Difference:
    """A run that the configurations do not judge alike.

    Attributes:
        run: The run.
        judged: What each configuration makes of it.
    """

    run: RunFacts
    judged: list[JudgedRun]


@dataclass
class Report:
    """What came of a back-test.

    Attributes:
        totals: For each configuration.
        runs: Whole runs that nobody had halted: what ``totals`` count.
        calls: Their calls.
        cost: Their cost, in micro-units.
        with_outcome: Those of them of which somebody says how they ended.
        successful: Those of them that succeeded.
        cut: Runs whose beginning is missing: counted nowhere else.
        halted_live: Runs that a verdict had halted already: counted nowhere else.
        events: Events read.
        rejected: Events that could not be taken.
        differences: Runs that the configurations do not judge alike.
    """

    totals: list[Totals]
    agent: str | None = None
    runs: int = 0
    calls: int = 0
    cost: int = 0
    with_outcome: int = 0
    successful: int = 0
    cut: int = 0
    halted_live: int = 0
    events: int = 0
    rejected: int = 0
    differences: list[Difference] = field(default_factory=list)

    @classmethod
    def of(cls, names: Sequence[str], agent: str | None = None) -> Report:
        """An empty report on configurations of these names; only on an agent's runs where one is named."""
        return cls([Totals(name) for name in names], agent)

    def add(self, unit: JudgedUnit) -> None:
        """Counts a unit."""
        self.events += unit.events
        self.rejected += unit.rejected
        for run_id, run in unit.runs.items():
            if self.agent is not None and run.agent_id != self.agent:
                continue
            if run.cut or run.halted_live:
                self.cut += run.cut
                self.halted_live += run.halted_live and not run.cut
                continue
            self.runs += 1
            self.calls += run.calls
            self.cost += run.cost
            self.with_outcome += run.outcome is not None
            self.successful += run.outcome == "success"
            judged = [each[run_id] for each in unit.judged]
            for totals, each in zip(self.totals, judged, strict=True):
                totals.add(run, each)
            if len({(each.action, each.at_call, each.detector) for each in judged}) > 1:
                self.differences.append(Difference(run, judged))

    def as_data(self) -> dict[str, Any]:
        """As plain data."""
        data = asdict(self)
        data["differences"] = [
            {**asdict(difference.run), "judged": [asdict(each) for each in difference.judged]}
            for difference in sorted(self.differences, key=lambda difference: difference.run.name)
        ]
        return {**data, "assumed": ASSUMED}
