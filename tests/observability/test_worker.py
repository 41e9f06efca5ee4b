"""A real worker behind a real broker under a steady load, scraped by a real Prometheus: every panel, every variable."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import yaml

from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import Topics
from tests.brokers.under_test import BrokerUnderTest
from tests.loads.publish import Publisher, publisher
from tests.loads.worker_process import running_worker
from tests.observability.check import RANGE_S, RATE_INTERVAL_S, check_panels, check_raw, check_variables
from tests.observability.expected import Exactly, Expectation, Within, expected
from tests.observability.load import BLOCK, PerTick, key_of, tick
from tests.observability.prometheus import PROMETHEUS, prometheus

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMETHEUS is None, reason="no Prometheus here: apt-get install --no-install-recommends prometheus"
    ),
]

TICKS_PER_S = 10
SECONDS = 30
PARTITIONS = 4


async def send(sender: Publisher, configuration: Path) -> float:
    """Publishes tick after tick, each at its time; changes the configuration on the way. Returns the end."""
    began = time.monotonic()
    for number in range(TICKS_PER_S * SECONDS):
        await sender.send([(key_of(message), message) for message in tick(number)])
        if number == TICKS_PER_S * (SECONDS - 12):
            await asyncio.to_thread(configuration.write_text, changed())
        await asyncio.sleep(max(0.0, began + (number + 1) / TICKS_PER_S - time.monotonic()))
    return time.time()


def changed() -> str:
    """Another configuration, under which everything is judged alike."""
    document = {"tools": {"loopDetection": BLOCK}, "loopwarden": {"agents": {"newcomer": {"mode": "enforce"}}}}
    return yaml.safe_dump(document)


def of_the_worker() -> dict[str, dict[str, Expectation]]:
    """Panels that depend on the machine's speed and on how the batches fall."""
    seconds = Within(0.0, 5.0)
    version = Configuration(yaml.safe_load(changed())).version
    return {
        "Workers": {"": Exactly(1)},
        "Lag": {"": Within(0, 2000)},
        "Event to verdict, p99": {"p99": seconds},
        "Since the last batch": {"": Within(-1, 5)},
        "Configuration": {version: Exactly(1)},
        "Lag by partition": {str(number): Within(0, 2000) for number in range(PARTITIONS)},
        "Event to verdict": {"p50": seconds, "p95": seconds, "p99": seconds},
        "Fold time of a batch": {"p50": seconds, "p99": seconds},
        "Events per batch": {"events per batch": Within(1, 4000)},
        "Changelog": {"history-ring": Within(100, 1e8), "post-compaction-window": Within(10, 1e7)},
        "Rows written": {"history-ring": Within(10, 1e4), "post-compaction-window": Within(1, 1e3)},
        # They happened before the first scrape.
        "Recoveries and rebalances": {"recoveries": Exactly(0), "rebalances": Exactly(0)},
        "Time spent on them": {"recovering": Exactly(0), "rebalancing": Exactly(0)},
        "Rows restored": {"rows": Exactly(0)},
        "Commits": {"commits": Within(0.5, 3 * PARTITIONS)},
        "Time to halt": {"p50": Within(0, 1), "p95": Within(0, 1)},
    }


def test_every_panel_and_variable(broker: BrokerUnderTest, topic_prefix: str, tmp_path: Path) -> None:
    configuration = tmp_path / "loopwarden.yaml"
    configuration.write_text(yaml.safe_dump({"tools": {"loopDetection": BLOCK}}))

    async def check() -> None:
        per_tick = PerTick()
        options = {"config": str(configuration), "partitions": str(PARTITIONS)}
        async with (
            running_worker(broker.bootstrap, topic_prefix, **options) as worker,
            publisher(broker.bootstrap, Topics(topic_prefix).events) as sender,
            prometheus([worker.url.removeprefix("http://")], tmp_path) as asked,
        ):
            await asked.wait_for("loopwarden_build_info")
            at = await send(sender, configuration) - 2.5
            growing = TICKS_PER_S * (SECONDS - RATE_INTERVAL_S), TICKS_PER_S * SECONDS
            panels = expected(
                per_tick,
                ticks_per_s=TICKS_PER_S,
                range_s=RANGE_S,
                gauges={"live runs": Within(2 * growing[0], 2 * growing[1]), "armed guards": Within(*growing)},
                worker=of_the_worker(),
            )
            panels["Calls by agent"]["newcomer"] = Exactly(0)
            problems = await check_panels(asked, at, panels, annotations={"Configuration changed"})
            agents = set(per_tick.calls("agent_id")) | {"none", "other", "newcomer"}
            tools = set(per_tick.calls("tool")) | {"none", "other"}
            problems += await check_variables(asked, {"job": {"loopwarden"}, "agent": agents, "tool": tools})
            assert not problems, "\n".join(problems)
            await check_raw(asked, per_tick, TICKS_PER_S * SECONDS)

    asyncio.run(check())
