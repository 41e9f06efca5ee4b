"""A fleet worth looking at, for the browser test and the pictures of the README.

``python -m tests.browser.fleet grafana/screenshots`` draws the pictures.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer

from loopwarden.processor.web import create_web
from loopwarden_schemas.configuration import Configuration
from tests.browser.chromium import screenshot
from tests.loads.records import recorded_events
from tests.loads.worker import FoldedWorker, ReadingRoom

CONFIGURATION = Configuration.from_block({"enabled": True, "warningThreshold": 3, "criticalThreshold": 7})
RUN = "ticket-4711"


def ping_pong() -> list[dict[str, Any]]:
    """A run that reads and writes, then goes back and forth between two calls, and is refused."""
    base = {"run_id": RUN, "agent_id": "support"}
    steps = [("read_ticket", 1), ("search_orders", 2), ("read_order", 3), ("draft_reply", 4)]
    steps += [("check_status", 5), ("refresh_cache", 6)] * 3
    events: list[dict[str, Any]] = [{**base, "type": "run_started"}]
    for index, (tool, argument) in enumerate(steps):
        call = {**base, "tool": tool, "call_id": f"c{index}", "args": {"n": argument}}
        events += [{**call, "type": "tool_call"}, {**call, "type": "tool_result", "result": f"outcome {argument}"}]
    refused = {**base, "type": "call_refused", "tool": "check_status", "call_id": f"c{len(steps)}", "args": {"n": 5}}
    return [*events, refused, {**base, "type": "compaction"}]


def fleet() -> tuple[FoldedWorker, ReadingRoom]:
    """Recorded runs that are still going, and the one above."""
    events = [event for event in recorded_events(60) if event["type"] != "run_ended"] + ping_pong()
    worker = FoldedWorker(CONFIGURATION)
    worker.feed(events)
    return worker, ReadingRoom(CONFIGURATION, events)


async def draw(folder: Path) -> None:
    """Draws fleet and run."""
    worker, room = fleet()
    app = create_web(worker, worker.metrics, worker, records=room)
    async with TestServer(app) as server:
        base = str(server.make_url("/"))
        await screenshot(base, folder / "fleet.png", height=820)
        await screenshot(f"{base}#/run/{RUN}", folder / "run.png", height=1000)


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1])))
