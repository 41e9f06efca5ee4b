"""The runner library without its broker: away, back, topic missing, queue full, process ending."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from loopwarden.broker.embedded import EmbeddedBroker, free_port
from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden.runner import LoopWarden, Run
from loopwarden.runner.verdict_feed import VerdictFeed
from loopwarden_schemas.events import RunEnded, ToolCall
from loopwarden_schemas.topics import Topics
from tests.brokers.plain_worker import PlainWorker, plain_worker
from tests.integration.test_runner import script, until

pytestmark = pytest.mark.integration

NOBODY = f"127.0.0.1:{free_port()}"


def distinct(run: Run, calls: int) -> None:
    for number in range(calls):
        decision = run.before_call("read", {"page": number})
        assert not decision.refused
        run.after_call(decision, result=number)


def of_pages(worker: PlainWorker, run_id: str) -> list[str]:
    return [event.call_id for event in worker.of_run(run_id, ToolCall)]


def test_a_broker_that_was_away_gets_everything_in_order() -> None:
    broker = EmbeddedBroker(port=free_port())
    with LoopWarden(f"127.0.0.1:{broker._port}") as client:
        run = client.run("r")
        distinct(run, 50)
        assert not client.flush(0.2)
        with broker, plain_worker(broker.bootstrap, "") as worker:
            until(lambda: len(worker.of_run("r", ToolCall)) == 50, 30)
            assert [event.seq for event in worker.of_run("r")] == list(range(101))
        # Again, in the middle of the run: killed, and started again with nothing in it.
        distinct(run, 50)
        with broker, plain_worker(broker.bootstrap, "") as worker:
            run.end()
            until(lambda: worker.of_run("r", RunEnded), 60)
            seqs = [event.seq for event in worker.of_run("r")]
            assert sorted(set(seqs)) == list(range(101, 202))
            assert not worker.dead
        assert client.stats.dropped == 0


def test_a_looping_run_is_refused_again_once_the_broker_is_back() -> None:
    broker = EmbeddedBroker(port=free_port())
    with LoopWarden(f"127.0.0.1:{broker._port}") as client:
        run = client.run("r")
        with broker, plain_worker(broker.bootstrap, ""):
            repeat_until_refused(run)
        with broker, plain_worker(broker.bootstrap, ""):
            other = client.run("s")
            repeat_until_refused(other)


def repeat_until_refused(run: Run) -> None:
    def refused() -> bool:
        decision = run.before_call("read", {"path": "/a"})
        if not decision.refused:
            run.after_call(decision, result="same")
            time.sleep(0.1)
        return decision.refused

    until(refused, 60)


def test_a_full_queue_drops_events_and_says_so() -> None:
    broker = EmbeddedBroker(port=free_port())
    with LoopWarden(f"127.0.0.1:{broker._port}", queue_size=100) as client:
        run = client.run("r")
        distinct(run, 500)
        until(lambda: client.stats.dropped >= 800)
        assert client.stats.queued <= 200
        with broker, plain_worker(broker.bootstrap, "") as worker:
            run.end()
            until(lambda: worker.of_run("r", RunEnded), 30)
            reports = [event.publisher for event in worker.of_run("r") if event.publisher]
            assert sum(report.dropped for report in reports) == client.stats.dropped
            assert max(report.queue_high for report in reports) == 100
            assert client.stats.dropped + len(worker.of_run("r")) == 1002


def test_events_wait_for_a_topic_that_is_missing() -> None:
    with EmbeddedBroker() as broker, LoopWarden(broker.bootstrap, topic_prefix="later.") as client:
        run = client.run("r")
        distinct(run, 3)
        assert not client.flush(0.5)
        with plain_worker(broker.bootstrap, "later.") as worker:
            until(lambda: len(worker.of_run("r", ToolCall)) == 3, 30)


def test_verdicts_that_cannot_be_followed_hold_up_no_event_and_are_followed_later() -> None:
    broker = EmbeddedBroker(port=free_port())
    topics = Topics("", 4)
    late: list[str] = []

    async def follow() -> None:
        connection = Connection(f"127.0.0.1:{broker._port}")
        feed = VerdictFeed(connection, topics.verdicts, deliver=lambda key, verdict: None, followed_late=late.append)
        running = asyncio.create_task(feed.run())
        async with asyncio.timeout(10):  # of a hundred keys, not each waits for its own failure
            for number in range(100):
                await feed.follow(f"r{number}", number % 4)
        assert late == []
        async with broker, asyncio.timeout(30):
            await ensure_topics(connection, topics.specs())
            while len(late) < 100:  # noqa: ASYNC110 - the feed tells a plain list
                await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(follow())
    assert late == [f"r{number}" for number in range(100)]


def test_without_a_broker_strict_fails_open_or_closed_after_its_bound() -> None:
    for fail, action in (("open", "allow"), ("closed", "block")):
        options: dict[str, Any] = {"strict": True, "strict_timeout": 0.05, "strict_fail": fail, "flush_timeout": 0.1}
        with LoopWarden(NOBODY, **options) as client:
            decision = client.run().before_call("read", {})
            assert decision.action == action
            assert decision.unanswered
            assert client.stats.unanswered == 1


def test_a_process_without_a_broker_ends_within_its_bound() -> None:
    child = script(f"""
        client = LoopWarden({NOBODY!r}, flush_timeout=0.5)
        run = client.run()
        with run.call("read", {{}}) as call:
            call.result("x" * 100_000)
    """)
    try:
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.communicate()


def test_after_closing_calls_go_on_unjudged() -> None:
    client = LoopWarden(NOBODY, flush_timeout=0.0)
    run = client.run()
    client.close()
    distinct(run, 10)
    run.end()
    assert client.stats.dropped >= 20
