"""The runner library on a real broker: refused ahead of the call, families, restarts, forks, many processes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden.runner import Decision, LoopWarden, Run
from loopwarden_schemas.codec import encode_verdict
from loopwarden_schemas.events import CallRefused, RunEnded, RunStarted, ToolCall, VerdictAck
from loopwarden_schemas.partitioning import partition_of
from loopwarden_schemas.topics import Topics
from loopwarden_schemas.verdicts import Cause, Verdict
from tests.brokers.plain_worker import PlainWorker, plain_worker
from tests.brokers.under_test import BrokerUnderTest

pytestmark = pytest.mark.integration


@pytest.fixture
def worker(broker: BrokerUnderTest, topic_prefix: str) -> Iterator[PlainWorker]:
    with plain_worker(broker.bootstrap, topic_prefix) as worker:
        yield worker


def until(true: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)


def once(run: Run, tool: str = "read") -> Decision:
    decision = run.before_call(tool, {"path": "/a"})
    run.after_call(decision, result="same")
    return decision


def forecasts(worker: PlainWorker, run_id: str) -> list[Verdict]:
    found = [verdict for batch in worker.batches for _, verdict in batch.verdicts]
    return [verdict for verdict in found if verdict.run_id == run_id and verdict.stage == "forecast"]


def script(body: str) -> subprocess.Popen[str]:
    """A process of its own that runs some Python; ``say`` prints at once."""
    head = "import asyncio, os, sys, time\nfrom loopwarden.runner import *\ndef say(*a): print(*a, flush=True)\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(body)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )


def test_a_repeat_is_refused_before_it_runs(broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str) -> None:
    with LoopWarden(broker.bootstrap, topic_prefix=topic_prefix, agent_id="a") as client, client.run("r") as run:
        assert not once(run).refused
        assert not once(run).refused
        until(lambda: client.stats.verdicts >= 1)  # the standing: one more is warned of
        warned = once(run)
        assert warned.action == "warn"
        until(lambda: client.stats.verdicts >= 3)  # the final warning, and the next standing
        refused = [run.before_call("read", {"path": "/a"}) for _ in range(3)]
        assert {decision.action for decision in refused} == {"block"}
        assert len({decision.message for decision in refused}) == 1
        assert not once(run, "write").refused
    until(lambda: worker.of_run("r", RunEnded))
    assert [event.call_id for event in worker.of_run("r", CallRefused)] == [decision.call_id for decision in refused]
    assert [event.result for event in worker.of_run("r", VerdictAck)] == ["applied"] * 4
    assert len(worker.of_run("r", ToolCall)) == 4
    assert [event.seq for event in worker.of_run("r")] == list(range(len(worker.of_run("r"))))
    assert not worker.dead


def test_strict_refuses_at_the_threshold_without_any_pause(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    options: dict[str, Any] = {"topic_prefix": topic_prefix, "strict": True, "strict_timeout": 10.0}
    with LoopWarden(broker.bootstrap, **options) as client, client.run("r") as run:
        actions = [once(run).action for _ in range(5)]
        assert client.stats.unanswered == 0
    assert actions == ["allow", "allow", "warn", "block", "block"]

    async def agent() -> list[str]:
        async with LoopWarden(broker.bootstrap, **options) as client, client.run("s") as run:
            actions = []
            for _ in range(5):
                decision = await run.abefore_call("read", {"path": "/a"})
                run.after_call(decision, result="same")
                actions.append(decision.action)
            return actions

    assert asyncio.run(agent()) == actions


def test_a_process_that_starts_again_knows_what_is_refused(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    options: dict[str, Any] = {"topic_prefix": topic_prefix}
    with LoopWarden(broker.bootstrap, strict=True, strict_timeout=10.0, **options) as first:
        run = first.run("r")
        for _ in range(4):
            decision = once(run)
        assert decision.refused
    with LoopWarden(broker.bootstrap, **options) as second:
        run = second.run("r")
        until(lambda: second.stats.verdicts)
        assert run.before_call("read", {"path": "/a"}).action == "block"
        assert run.before_call("write", {}).action == "allow"


def test_a_process_follows_only_the_partitions_of_its_own_runs(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    with LoopWarden(broker.bootstrap, topic_prefix=topic_prefix) as client:
        run = client.run("r")
        once(run)
        assert client.flush(10)
        bus: Any = client._host.bus
        assert [tp.partition for tp in bus._feed._positions] == [partition_of(b"r", 4)]
        assert set(bus._feed._keys) == {b"r"}
        run.end()
        until(lambda: not bus._feed._keys)


def test_an_abort_of_a_family_stops_its_runs_in_two_processes(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    with LoopWarden(broker.bootstrap, topic_prefix=topic_prefix) as client:
        top = client.run("top")
        stranger = client.run("stranger")
        child = script(f"""
            with LoopWarden({broker.bootstrap!r}, topic_prefix={topic_prefix!r}) as client:
                run = client.run("child", **{top.context()!r})
                client.flush(10)
                say("ready")
                try:
                    for number in range(2000):
                        with run.call("read", {{"page": number}}) as call:
                            call.result(number)
                        time.sleep(0.01)
                    say("went on")
                except RunAborted as error:
                    say(error.scope, error.detector, error.run_id)
        """)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            assert client.flush(10)
            verdict = Verdict(
                id="v1",
                run_id="top",
                root_run_id="top",
                level="critical",
                action="abort",
                scope="root",
                stage="final",
                mode="enforce",
                profile="progress",
                cause=Cause(Topics(topic_prefix).events, partition_of(b"top", 4), 10),
                config_version="c",
                ts=0,
                detector="delegation_repeat",
                message="across the runs of one task: the same call ran again and again",
            )
            asyncio.run(publish_verdict(broker.bootstrap, Topics(topic_prefix, 4), b"top", verdict))
            assert child.stdout.readline() == "root delegation_repeat child\n"
            until(lambda: top.aborted)
            assert once(top).aborted
            assert not once(stranger).refused
        finally:
            child.kill()
            child.communicate()


async def publish_verdict(bootstrap: str, topics: Topics, key: bytes, verdict: Verdict) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        partition = partition_of(key, topics.partitions)
        await producer.send_and_wait(topics.verdicts, encode_verdict(verdict), key=key, partition=partition)
    finally:
        await producer.stop()


def test_a_verdict_topic_made_anew_is_followed_again(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    topics = Topics(topic_prefix, 4)

    async def make_anew() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
        await admin.start()
        await admin.delete_topics([topics.verdicts])
        await admin.close()
        await asyncio.sleep(0.5)
        await ensure_topics(Connection(broker.bootstrap), topics.specs())

    with LoopWarden(broker.bootstrap, topic_prefix=topic_prefix) as client:
        run = client.run("r")
        once(run)
        once(run)
        until(lambda: client.stats.verdicts >= 1)
        asyncio.run(make_anew())
        once(run)

        def refused() -> bool:
            decision = run.before_call("read", {"path": "/a"})
            if not decision.refused:
                run.after_call(decision, result="same")
                time.sleep(0.2)
            return decision.refused

        until(refused, 30)


def test_what_is_queued_goes_out_when_the_process_exits(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    child = script(f"""
        client = LoopWarden({broker.bootstrap!r}, topic_prefix={topic_prefix!r})
        for number in range(20):
            run = client.run(f"r{{number}}")
            with run.call("read", {{}}) as call:
                call.result("x" * 10_000)
            run.end()
    """)
    assert child.wait(30) == 0
    child.communicate()
    until(lambda: all(worker.of_run(f"r{number}", RunEnded) for number in range(20)))
    assert len(worker.events) == 80


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_starts_a_client_of_its_own(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str
) -> None:
    # In a process of its own: a fork of the test's would take its threads' locks along.
    child = script(f"""
        client = LoopWarden({broker.bootstrap!r}, topic_prefix={topic_prefix!r})
        run = client.run("parent")
        def once(run):
            with run.call("read", {{}}) as call:
                call.result("same")
        once(run)
        client.flush(10)
        pid = os.fork()
        mine = run if pid else client.run("child", parent=run)
        once(mine)
        assert client.flush(10)
        mine.end()
        client.close()
        if not pid:
            os._exit(0)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """)
    assert child.wait(30) == 0
    child.communicate()
    until(lambda: worker.of_run("parent", RunEnded) and worker.of_run("child", RunEnded))
    assert len(worker.of_run("parent", ToolCall)) == 2
    assert len(worker.of_run("child", ToolCall)) == 1
    ids = [event.event_id for event in worker.events]
    assert len(set(ids)) == len(ids)


@pytest.mark.slow
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "thinking"])
def test_of_200_runs_in_ten_processes_exactly_the_looping_ones_are_halted(
    broker: BrokerUnderTest, worker: PlainWorker, topic_prefix: str, strict: bool
) -> None:
    """With 200 ms of thinking before its second call after the threshold, or without any pause in strict mode."""
    processes = [
        script(f"""
            import json, random
            async def agent(client, number):
                run = client.run(f"p{process}-r{{number}}")
                loops = number % 5 == 0
                for step in range(9):
                    if {not strict}:
                        # Connecting takes as long as it takes; from then on 200 ms have to do.
                        while step == 2 and not client.stats.verdicts:
                            await asyncio.sleep(0.02)
                        await asyncio.sleep(0.2)
                    args = {{"path": "/a"}} if loops else {{"path": f"/file{{step}}"}}
                    try:
                        async with run.call("read", args) as call:
                            call.result("same" if loops else step)
                    except CallRefusedError:
                        run.end("refused")
                        return run.id, step
                run.end()
                return run.id, None
            async def main():
                options = dict(strict={strict}, strict_timeout=20.0)
                async with LoopWarden({broker.bootstrap!r}, topic_prefix={topic_prefix!r}, **options) as client:
                    say(json.dumps(dict(await asyncio.gather(*(agent(client, n) for n in range(20))))))
            asyncio.run(main())
        """)
        for process in range(10)
    ]
    halted: dict[str, int | None] = {}
    for child in processes:
        out, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        halted |= json.loads(out)
    assert len(halted) == 200
    looping = {run_id for run_id in halted if int(run_id.rpartition("-r")[2]) % 5 == 0}
    assert {run_id for run_id, step in halted.items() if step is not None} == looping
    if strict:
        assert {halted[run_id] for run_id in looping} == {3}  # the fourth call, and never a later one
    else:
        assert max(halted[run_id] or 0 for run_id in looping) <= 4
    assert len({event.run_id for event in worker.events if isinstance(event, RunStarted)}) == 200
