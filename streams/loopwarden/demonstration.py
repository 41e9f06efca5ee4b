"""What ``loopwarden demo`` does: plays scripted runs against a real broker and a real worker, and measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from loopwarden.connection import Connection
from loopwarden.runner import LoopWarden
from loopwarden.simulation import Outcome, Play, Script, play
from loopwarden.topic_reading import TopicReader, open_reader
from loopwarden.verdict_stream import VerdictReader
from loopwarden_schemas.topics import Topics
from loopwarden_schemas.verdicts import Verdict

__all__ = ["Summary", "demonstrate"]

_SETTLE_S = 0.5
_STAGGER_S = 0.05


@dataclass
class Summary:
    """What came of a demonstration.

    Attributes:
        plays: The runs.
        verdicts: Final verdicts seen.
        forecasts: Forecasts seen.
        waits: Milliseconds from each verdict's event, by the runner's clock, to its arrival here.
        seconds: How long the runs took together.
        dropped: Events that the runner library could not publish.
    """

    plays: list[Play] = field(default_factory=list)
    verdicts: int = 0
    forecasts: int = 0
    waits: list[float] = field(default_factory=list)
    seconds: float = 0.0
    dropped: int = 0

    @property
    def unexpected(self) -> list[Play]:
        """Runs that did not become what they must."""
        return [played for played in self.plays if not played.as_expected]

    def wait(self, share: float) -> float | None:
        """A percentile of ``waits``; None without any.

        Args:
            share: 0.5 is the median.
        """
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


async def demonstrate(
    connection: Connection,
    topics: Topics,
    scripts: Sequence[Script],
    *,
    speed: float,
    told: Outcome,
    on_verdict: Callable[[Verdict], None],
) -> Summary:
    """Plays the scripts, all at once, and follows the verdicts beside the runners.

    Args:
        connection: The broker; a worker must be ready.
        topics: Its topics.
        scripts: The runs.
        speed: 2 is twice as fast.
        told: Told of what happens to a run.
        on_verdict: Told of every verdict.

    Raises:
        BrokerError: The broker cannot be read.
    """
    summary = Summary()
    async with open_reader(connection, topics.verdicts) as reader:
        following = asyncio.ensure_future(_follow(reader, summary, {s.run_id for s in scripts}, on_verdict))
        try:
            async with LoopWarden(connection, topic_prefix=topics.prefix) as warden:
                began = time.monotonic()
                playing = asyncio.gather(
                    *(
                        _play_later(warden, script, told, speed, number * _STAGGER_S / speed)
                        for number, script in enumerate(scripts)
                    )
                )
                both: set[asyncio.Future[Any]] = {playing, following}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    playing.cancel()
                    following.result()
                summary.plays = playing.result()
                summary.seconds = time.monotonic() - began
                await warden.aflush()
                await asyncio.sleep(_SETTLE_S)
                summary.dropped = warden.stats.dropped
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    return summary


async def _play_later(warden: LoopWarden, script: Script, told: Outcome, speed: float, delay: float) -> Play:
    await asyncio.sleep(delay)
    return await play(warden, script, told, speed=speed)


async def _follow(reader: TopicReader, summary: Summary, runs: set[str], on_verdict: Callable[[Verdict], None]) -> None:
    verdicts = VerdictReader()
    # A broker that serves other runs, too, must not count.
    async for _, records in reader.follow():
        now = time.time() * 1000
        for verdict in verdicts.take(records):
            if verdict.run_id not in runs:
                continue
            summary.waits.append(now - verdict.ts)
            if verdict.stage == "forecast":
                summary.forecasts += 1
            else:
                summary.verdicts += 1
            on_verdict(verdict)
