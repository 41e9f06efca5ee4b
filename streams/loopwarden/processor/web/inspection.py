"""What the page asks of its worker, and of the topics. The worker implements it with its tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Deed", "FoundRun", "HealthCheck", "Inspection", "PastRun", "Rate", "Records", "Sizes"]


class FoundRun(NamedTuple):
    """A run that is alive.

    Attributes:
        run_id: The run.
        partition: Its partition.
        history: Its row of history-ring.
        window: Its row of post-compaction-window, None where its guard is not armed.
    """

    run_id: str
    partition: int
    history: bytes
    window: bytes | None = None


class Rate(NamedTuple):
    """Loops in some time.

    Attributes:
        minutes: The time.
        calls: Calls attempted in it.
        loops: Final verdicts of level warning or critical in it.
    """

    minutes: int
    calls: int
    loops: int


class Sizes(NamedTuple):
    """How many runs a worker holds.

    Attributes:
        live_runs: Runs in history-ring.
        armed: Runs in post-compaction-window.
    """

    live_runs: int
    armed: int


class Inspection(Protocol):
    """One worker as the page sees it. Called from the event loop; must not take long."""

    def configuration(self) -> Configuration:
        """The configuration in force."""

    def find_run(self, run_id: str) -> FoundRun | None:
        """A run that this worker holds."""

    def sizes(self) -> Sizes:
        """How many runs this worker holds."""

    def live_runs(self) -> Iterator[Sequence[FoundRun]]:
        """All runs that this worker holds, a part at a time: others have their turn in between."""

    def recent_verdicts(self) -> Sequence[Verdict]:
        """The last verdicts that this worker published, oldest first."""

    def rates(self) -> Sequence[Rate]:
        """Loops of this worker over the last 1, 5 and 60 minutes."""

    def peers(self) -> Sequence[str]:
        """Base addresses of the other workers, such as ``http://worker-2:6066``; the name of one without an address."""


class Deed(NamedTuple):
    """What the runner, or an operator, did.

    Attributes:
        ts: When, epoch milliseconds.
        kind: Type of the event: ``call_refused``, ``verdict_ack``, ``run_released``, ``run_ended``.
        what: In a few words: the tool, the ack's result, who released, the outcome.
        verdict_id: The verdict that it answers, empty where none is named.
    """

    ts: int
    kind: str
    what: str
    verdict_id: str = ""


class PastRun(NamedTuple):
    """What the topics still say of a run.

    Attributes:
        run_id: The run.
        partition: Its partition.
        history: Its row of history-ring after its last retained event before the end, None where no event is left.
        window: Its row of post-compaction-window then.
        verdicts: Its verdicts, oldest first.
        deeds: What was done, oldest first.
        ended: It ended.
        complete: Everything from its first event on is still there.
    """

    run_id: str
    partition: int
    history: bytes | None
    window: bytes | None
    verdicts: Sequence[Verdict]
    deeds: Sequence[Deed]
    ended: bool
    complete: bool


class Records(Protocol):
    """The topics, for runs that have ended and for what the runner did."""

    async def __call__(self, run_id: str, partition: int | None) -> PastRun | None:
        """Reads up on a run; None if the topics do not know it.

        Args:
            run_id: The run.
            partition: Its partition, None where nobody knows it: then all are read.

        Raises:
            LoopWardenError: The broker cannot be asked.
        """


class HealthCheck(Protocol):
    """Health of the worker, see ``processor.health``."""

    def healthy(self) -> tuple[bool, str]:
        """Whether it makes progress, and in words."""

    def ready(self) -> tuple[bool, str]:
        """Whether it is assigned and recovered, and in words."""
