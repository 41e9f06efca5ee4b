"""The runs of a fleet as an observer without a worker sees them: the events, folded as they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loopwarden.processor.web.inspection import FoundRun
from loopwarden.processor.web.view import busiest, summary_view
from loopwarden.replay import PartitionReplay, Span
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import RESERVED
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Fleet", "RunLine"]


class RunLine(NamedTuple):
    """A run in a line.

    Attributes:
        run_id: The run.
        agent_id: Its agent, empty where none is named.
        calls: Calls so far.
        streak: How often its newest call gave one unchanged outcome.
        verdicts: Final verdicts on it, warnings and worse.
        last: The last of them.
        armed: Its context was compacted shortly before.
        aborted: A verdict has ended it.
    """

    run_id: str
    agent_id: str
    calls: int
    streak: int
    verdicts: int
    last: Verdict | None
    armed: bool
    aborted: bool


class Fleet:
    """Folds what comes.

    Args:
        topic: Events topic.
        spans: Partition to the configurations that hold there.
        expiry: Idle runs end.

    Attributes:
        events: Events so far.
        actions: Final verdicts so far, by action.
    """

    def __init__(self, topic: str, spans: Mapping[int, Sequence[Span]], *, expiry: bool) -> None:
        self._topic = topic
        self._spans = spans
        self._expiry = expiry
        self._replays: dict[int, PartitionReplay] = {}
        self._verdicts: Counter[str] = Counter()
        self._last: dict[str, Verdict] = {}
        self.events = 0
        self.actions: Counter[str] = Counter()

    def take(self, partition: int, records: Sequence[Any]) -> None:
        """Folds records of a partition."""
        if partition not in self._replays:
            spans = self._spans.get(partition) or [Span(0, Configuration())]
            self._replays[partition] = PartitionReplay(self._topic, partition, spans, expiry=self._expiry)
        for batch in self._replays[partition].fold(records):
            self.events += sum(batch.events.values())
            for _, verdict in batch.verdicts:
                if verdict.stage == "final" and verdict.level != "none":
                    self.actions[verdict.action] += 1
                    self._verdicts[verdict.run_id] += 1
                    self._last[verdict.run_id] = verdict
            for key, row in batch.history.items():
                if row is None:
                    run_id = key.decode("utf-8", "surrogatepass")
                    self._verdicts.pop(run_id, None)
                    self._last.pop(run_id, None)

    @property
    def live(self) -> int:
        """Runs that have not ended."""
        return sum(key[:1] != RESERVED for replay in self._replays.values() for key in replay.rows.ring)

    def top(self, limit: int) -> list[RunLine]:
        """The runs with the most calls, most first."""
        runs = (
            FoundRun(key.decode("utf-8", "surrogatepass"), partition, row, replay.rows.window(key))
            for partition, replay in self._replays.items()
            for key, row in replay.rows.ring.items()
            if key[:1] != RESERVED
        )
        return [self._line(found) for found in busiest(runs, limit)]

    def _line(self, found: FoundRun) -> RunLine:
        view = summary_view(found)
        return RunLine(
            found.run_id,
            view["agent_id"],
            view["calls"],
            view["streak"],
            self._verdicts[found.run_id],
            self._last.get(found.run_id),
            view["armed"],
            view["aborted"],
        )
