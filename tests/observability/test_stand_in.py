"""Metrics that are fed real batches at a steady pace, scraped by a real Prometheus: every panel, every variable.

``test_worker`` does the same with a real worker; this one needs no broker, and shows exact latencies.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer

from loopwarden.processor import metric_definitions as define
from loopwarden.processor.web import create_web
from loopwarden_schemas.configuration import Configuration
from tests.loads.worker import FoldedWorker
from tests.observability.check import RANGE_S, RATE_INTERVAL_S, check_panels, check_raw, check_variables
from tests.observability.expected import Exactly, Expectation, Roughly, Within, expected, quantile
from tests.observability.load import CONFIGURATION, PerTick, as_records, tick
from tests.observability.prometheus import PROMETHEUS, prometheus

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMETHEUS is None, reason="no Prometheus here: apt-get install --no-install-recommends prometheus"
    ),
]

TICKS_PER_S = 10
SECONDS = 30
AFTER_MS = 6
"""From an event's broker time to the end of its batch, for the last event of a tick."""


async def feed(worker: FoldedWorker) -> float:
    """Feeds tick after tick, each at its time. Returns when the last but one scrape fits before."""
    began = time.monotonic()
    for number in range(TICKS_PER_S * SECONDS):
        messages = as_records(tick(number), int(time.time() * 1000))
        worker.fold(messages, now_ms=messages[-1].timestamp + AFTER_MS, fold_seconds=0.002)
        worker.metrics.changelog_written("history-ring", 2000, 4)
        worker.metrics.changelog_written("post-compaction-window", 100, 1)
        worker.metrics.commit(0)
        if number % TICKS_PER_S == 0:
            worker.metrics.recovered(0, 50, 0.4)
            worker.metrics.rebalanced(0.2)
        if number == TICKS_PER_S * (SECONDS - 5):
            worker.metrics.reconfigured(Configuration.from_text(CONFIGURATION.text))
        await asyncio.sleep(max(0.0, began + (number + 1) / TICKS_PER_S - time.monotonic()))
    return time.time()


def of_the_worker(per_tick: PerTick) -> dict[str, dict[str, Expectation]]:
    """Panels that depend on how the batches are made: here one a tick."""
    events = sum(per_tick.types().values())
    messages = len(per_tick.messages)
    waits = [(messages - 1 - verdict.cause.offset + AFTER_MS) / 1000 for verdict in per_tick.verdicts]

    def latency(definition: define.Definition, values: list[float], *shares: float) -> dict[str, Expectation]:
        return {f"p{s * 100:g}": Roughly(quantile(s, definition.buckets, values)) for s in shares}

    return {
        "Workers": {"": Exactly(1)},
        "Lag": {"": Exactly(0)},
        "Event to verdict, p99": latency(define.VERDICT_SECONDS, waits, 0.99),
        "Since the last batch": {"": Within(-1, 3)},
        "Configuration": {CONFIGURATION.version: Exactly(1)},
        "Lag by partition": {"0": Exactly(0)},
        "Event to verdict": latency(define.VERDICT_SECONDS, waits, 0.5, 0.95, 0.99),
        "Fold time of a batch": latency(define.FOLD_SECONDS, [0.002], 0.5, 0.99),
        "Events per batch": {"events per batch": Roughly(events)},
        "Changelog": {
            "history-ring": Roughly(2000 * TICKS_PER_S),
            "post-compaction-window": Roughly(100 * TICKS_PER_S),
        },
        "Rows written": {"history-ring": Roughly(4 * TICKS_PER_S), "post-compaction-window": Roughly(TICKS_PER_S)},
        "Recoveries and rebalances": {"recoveries": Within(26, 31), "rebalances": Within(26, 31)},
        "Time spent on them": {"recovering": Within(0.4 * 26, 0.4 * 31), "rebalancing": Within(0.2 * 26, 0.2 * 31)},
        "Rows restored": {"rows": Within(50 * 26, 50 * 31)},
        "Commits": {"commits": Roughly(TICKS_PER_S)},
    }


def test_every_panel_and_variable(tmp_path: Path) -> None:
    async def check() -> None:
        worker = FoldedWorker(CONFIGURATION)
        per_tick = PerTick()
        app = create_web(worker, worker.metrics, worker)
        async with TestServer(app) as server, prometheus([f"127.0.0.1:{server.port}"], tmp_path) as asked:
            await asked.wait_for("loopwarden_build_info")
            at = await feed(worker) - 1.5
            panels = expected(
                per_tick,
                ticks_per_s=TICKS_PER_S,
                range_s=RANGE_S,
                gauges={
                    "live runs": Within(*_at(2, SECONDS)),
                    "armed guards": Within(*_at(1, SECONDS)),
                },
                worker=of_the_worker(per_tick),
            )
            problems = await check_panels(asked, at, panels)
            agents = set(per_tick.calls("agent_id")) | {"none", "other"}
            tools = set(per_tick.calls("tool")) | {"none", "other"}
            problems += await check_variables(asked, {"job": {"loopwarden"}, "agent": agents, "tool": tools})
            assert not problems, "\n".join(problems)
            await check_raw(asked, per_tick, TICKS_PER_S * SECONDS)
            firing = {alert["labels"]["alertname"] for alert in (await asked.get("alerts"))["alerts"]}
            # Whatever waits for minutes cannot be there yet; promtool shows it.
            assert {
                "LoopWardenVerdictsIgnored",
                "LoopWardenLoopsAfterCompaction",
                "LoopWardenRunnerDrops",
            } <= firing
            assert "LoopWardenWorkerDown" not in firing

    asyncio.run(check())


def _at(per_tick: int, seconds: int) -> tuple[float, float]:
    """A gauge that grows with each tick, up to a scrape before the end."""
    return per_tick * TICKS_PER_S * (seconds - RATE_INTERVAL_S), per_tick * TICKS_PER_S * seconds
