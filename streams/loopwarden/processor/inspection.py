"""What a worker's page sees of it: implements ``web.Inspection`` with the tables of the active partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from loopwarden.processor.app import LoopWardenApp
from loopwarden.processor.web import Activity, FoundRun, Rate, Sizes
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import RESERVED
from loopwarden_schemas.verdicts import Verdict

__all__ = ["WorkerInspection"]

_SLICE = 2_000


class WorkerInspection:
    """One worker.

    Args:
        app: Its app.
        activity: What happened lately.
        url: Address under which other workers reach its page.
    """

    def __init__(self, app: LoopWardenApp, activity: Activity, url: str) -> None:
        self._app = app
        self._activity = activity
        self._url = url

    def configuration(self) -> Configuration:
        """The configuration in force."""
        return self._app.partitions.configuration

    def find_run(self, run_id: str) -> FoundRun | None:
        """A run in the tables of a partition that is this worker's."""
        key = run_id.encode("utf-8", "surrogatepass")
        if key[:1] == RESERVED:
            return None
        for partition in self._app.partitions.active():
            row = partition.rows.history(key) if partition.ready else None
            if row is not None:
                return FoundRun(run_id, partition.number, row, partition.rows.window(key))
        return None

    def sizes(self) -> Sizes:
        """How many runs there are."""
        ready = [partition.rows for partition in self._app.partitions.active() if partition.ready]
        return Sizes(sum(rows.runs for rows in ready), sum(rows.armed for rows in ready))

    def live_runs(self) -> Iterator[Sequence[FoundRun]]:
        """All runs, as of when they come up."""
        for partition in self._app.partitions.active():
            rows = partition.rows
            # The keys as of now: the rows change while others have their turn.
            keys = iter(list(rows.items()) if partition.ready else ())
            while part := list(islice(keys, _SLICE)):
                yield [
                    FoundRun(key.decode("utf-8", "surrogatepass"), partition.number, row, rows.window(key))
                    for key in part
                    if key[:1] != RESERVED and (row := rows.history(key)) is not None
                ]

    def recent_verdicts(self) -> Sequence[Verdict]:
        """The last verdicts."""
        return self._activity.recent_verdicts()

    def rates(self) -> Sequence[Rate]:
        """Loops over the last 1, 5 and 60 minutes."""
        return self._activity.rates()

    def peers(self) -> Sequence[str]:
        """Addresses of the group's other members, as its leader handed them out with the last assignment."""
        return sorted(url for url in self._app.assignor.changelog_distribution if url != self._url)
