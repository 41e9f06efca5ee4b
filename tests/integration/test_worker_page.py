"""The page of three real workers: whichever is asked answers, and says so when one is silent."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from loopwarden_schemas.topics import Topics
from tests.brokers.under_test import BrokerUnderTest
from tests.loads.publish import keyed, publisher
from tests.loads.records import STRICT
from tests.loads.worker import looping
from tests.loads.worker_process import RunningWorker, running_worker

TOKEN = "s3cret"
RUNS = 24


async def get(session: aiohttp.ClientSession, url: str, status: int = 200) -> Any:
    async with session.get(url) as response:
        assert response.status == status, await response.text()
        return await response.json()


@pytest.mark.slow
def test_three_workers(broker: BrokerUnderTest, topic_prefix: str, tmp_path: Path) -> None:
    configuration = tmp_path / "loopwarden.yaml"
    configuration.write_text(yaml.safe_dump({"tools": {"loopDetection": STRICT}}))

    async def check() -> None:
        async with AsyncExitStack() as stack:
            options = {"config": str(configuration), "web_token": TOKEN, "session_timeout": "10", "partitions": "8"}
            first = await stack.enter_async_context(running_worker(broker.bootstrap, topic_prefix, **options))
            others = await asyncio.gather(
                *(
                    stack.enter_async_context(running_worker(broker.bootstrap, topic_prefix, **options))
                    for _ in range(2)
                )
            )
            workers = [first, *others]
            sender = await stack.enter_async_context(publisher(broker.bootstrap, Topics(topic_prefix).events))
            events = [event for n in range(RUNS) for event in looping(f"run-{n}", 4)]
            events += looping("child", 2, root="run-0", tool="fetch")
            ended = {"run_id": "ended"}
            refused = {**ended, "tool": "fetch", "args": {"q": "same"}, "type": "call_refused", "verdict_id": "v"}
            events += looping("ended", 4, tool="fetch")
            events += [refused, {**ended, "type": "verdict_ack", "verdict_id": "v", "result": "applied"}]
            events += [{**ended, "type": "run_ended", "outcome": "aborted"}]
            await sender.send(keyed(events))
            session = await stack.enter_async_context(
                aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"})
            )
            await everybody_knows(session, workers)
            await same_answers(session, workers)
            await the_next_morning(session, workers)
            await one_is_silent(session, workers)

    asyncio.run(check())


async def everybody_knows(session: aiohttp.ClientSession, workers: list[RunningWorker]) -> None:
    """Waits until every worker answers for the whole fleet, each with partitions of its own."""
    async with asyncio.timeout(60):
        for worker in workers:
            while True:
                fleet = await get(session, f"{worker.url}/api/fleet")
                if fleet["workers"] == 3 and fleet["live_runs"] == RUNS + 1 and not fleet["silent"]:
                    break
                await asyncio.sleep(0.3)


async def same_answers(session: aiohttp.ClientSession, workers: list[RunningWorker]) -> None:
    for run_id, key in (("run-3", "run-3"), ("child", "run-0")):
        answers = [await get(session, f"{worker.url}/api/run/{run_id}") for worker in workers]
        assert {answer["key"] for answer in answers} == {key}
        assert len({str(answer["ring"]) for answer in answers}) == 1
        assert all(answer["silent"] == [] for answer in answers)
    root = await get(session, f"{workers[0].url}/api/run/run-0")
    child = await get(session, f"{workers[1].url}/api/run/child")
    assert child["partition"] == root["partition"], "a family shares its partition"
    assert {one["tool"] for one in child["ring"]} == {"fetch"}
    async with session.get(f"{workers[0].url}/api/fleet", headers={"Authorization": "Bearer wrong"}) as response:
        assert response.status == 401


async def the_next_morning(session: aiohttp.ClientSession, workers: list[RunningWorker]) -> None:
    """A run that has ended: no table holds it, the topics do."""
    for worker in workers:
        got = await get(session, f"{worker.url}/api/run/ended")
        assert (got["state"], got["retained"], got["silent"]) == ("ended", True, [])
        assert [one["tool"] for one in got["ring"]] == ["fetch"] * 3, "the fourth was judged critical"
        assert got["abort"] is None
        rules = {(one["detector"], one["stage"]) for one in got["verdicts"] if one["level"] == "critical"}
        assert ("generic_repeat", "final") in rules
        deeds = [(deed["kind"], deed["what"]) for deed in got["deeds"]]
        assert deeds == [("call_refused", "fetch"), ("verdict_ack", "applied"), ("run_ended", "aborted")]
        assert got["deeds"][0]["verdict_id"] == "v"
    await get(session, f"{workers[0].url}/api/run/never", 404)


async def one_is_silent(session: aiohttp.ClientSession, workers: list[RunningWorker]) -> None:
    """A worker that is paused: what it holds is unknown for now, and the answer says who did not answer."""
    own = {worker.url: await get_own(session, worker.url) for worker in workers}
    assert all(own.values()), "each worker holds runs"
    paused = workers[2]
    paused.send(signal.SIGSTOP)
    try:
        asked = workers[0].url
        fleet = await get(session, f"{asked}/api/fleet")
        assert fleet["silent"] == [paused.url]
        assert fleet["live_runs"] == RUNS + 1 - len(own[paused.url])
        there = next(iter(own[workers[1].url]))
        assert (await get(session, f"{asked}/api/run/{there}"))["silent"] == [paused.url]
        held = next(iter(own[paused.url]))
        got = await get(session, f"{asked}/api/run/{held}")
        assert (got["state"], got["silent"]) == ("gone", [paused.url]), "from the topics, and marked as partial"
        assert got["verdicts"]
    finally:
        paused.send(signal.SIGCONT)
    async with asyncio.timeout(60):
        while True:
            if (await get(session, f"{asked}/api/fleet"))["live_runs"] == RUNS + 1:
                break
            await asyncio.sleep(0.3)


async def get_own(session: aiohttp.ClientSession, url: str) -> set[str]:
    """Runs that a worker holds itself."""
    async with session.get(f"{url}/api/fleet", headers={"LoopWarden-Hop": "1"}) as response:
        return {run["run_id"] for run in (await response.json())["runs"]}
