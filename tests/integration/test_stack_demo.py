"""The stack's demo load, played natively against a real worker."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import aiohttp

from tests.brokers.under_test import BrokerUnderTest
from tests.loads.worker_process import running_worker

DOCKER = Path(__file__).parents[2] / "docker"
COMMANDS = Path(sys.executable).parent


def test_the_load_loops_under_the_stack_s_configuration(broker: BrokerUnderTest, topic_prefix: str) -> None:
    environment = {
        **os.environ,
        "PATH": f"{COMMANDS}:{os.environ['PATH']}",
        "LOOPWARDEN_BROKER": broker.bootstrap,
        "LOOPWARDEN_TOPIC_PREFIX": topic_prefix,
        "PAUSE": "0",
    }

    async def check() -> None:
        options = {"config": str(DOCKER / "config" / "loopwarden.yaml"), "partitions": "4"}
        async with (
            running_worker(broker.bootstrap, topic_prefix, **options) as worker,
            aiohttp.ClientSession() as session,
            asyncio.timeout(60),
        ):
            load = await asyncio.create_subprocess_exec("sh", str(DOCKER / "demo" / "load.sh"), "2", env=environment)
            assert await load.wait() == 0
            rules: set[tuple[str, str]] = set()
            runs: set[str] = set()
            while len(rules) < 5 or len(runs) < 6:  # each round under ids of its own
                async with session.get(f"{worker.url}/api/fleet") as response:
                    fleet = await response.json()
                runs = {one["run_id"] for one in fleet["verdicts"]}
                rules = {(one["detector"], one["level"]) for one in fleet["verdicts"]}
                await asyncio.sleep(0.2)
            assert rules == {
                ("ping_pong", "warning"),
                ("generic_repeat", "warning"),
                ("generic_repeat", "critical"),
                ("compaction_loop_persisted", "critical"),
                ("verdict_ignored", "critical"),
            }
            assert len(runs) == 6

    asyncio.run(check())
