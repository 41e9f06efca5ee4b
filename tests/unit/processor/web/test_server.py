"""The web of workers that hold really folded runs, asked over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from loopwarden.errors import BrokerError
from loopwarden.processor.web import create_web, peers
from loopwarden_schemas.configuration import Configuration
from tests.loads.records import STRICT
from tests.loads.worker import FoldedWorker, ReadingRoom, looping

CONFIGURATION = Configuration.from_block(STRICT)
Client = TestClient[web.Request, web.Application]


@asynccontextmanager
async def serving(worker: FoldedWorker, **options: Any) -> AsyncIterator[Client]:
    app = create_web(worker, worker.metrics, worker, **options)
    async with TestClient(TestServer(app)) as client:
        yield client


def run(check: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await check()

    asyncio.run(bounded())


async def get(client: Client, path: str, status: int = 200, **options: Any) -> Any:
    async with client.get(path, **options) as response:
        assert response.status == status, await response.text()
        return await response.json()


def url(client: Client) -> str:
    return str(client.make_url("/"))


def test_metrics_and_health() -> None:
    async def check() -> None:
        worker = FoldedWorker(CONFIGURATION)
        worker.feed(looping("r", 3))
        async with serving(worker) as client:
            async with client.get("/metrics") as response:
                assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
                assert 'loopwarden_agent_calls_total{agent="coder"} 3.0' in await response.text()
            for path in ("/healthz", "/readyz"):
                async with client.get(path) as response:
                    assert response.status == 200
            worker.sick = "lag of 5 records and no batch finished for 70 s"
            for path in ("/healthz", "/readyz"):
                async with client.get(path) as response:
                    assert response.status == 503
                    assert await response.text() == worker.sick + "\n"

    run(check)


def test_three_workers_answer_alike_whoever_is_asked() -> None:
    async def check() -> None:
        workers = [FoldedWorker(CONFIGURATION, partition) for partition in range(3)]
        workers[0].feed(looping("one", 2))
        workers[1].feed(looping("parent", 1) + looping("child", 5, root="parent", tool="fetch"))
        workers[2].feed(looping("three", 3))
        async with serving(workers[0]) as a, serving(workers[1]) as b, serving(workers[2]) as c:
            clients = [a, b, c]
            for worker, own in zip(workers, clients, strict=True):
                worker.others = [url(client) for client in clients if client is not own]
            for client in clients:
                fleet = await get(client, "/api/fleet")
                assert fleet["silent"] == []
                assert fleet["workers"] == 3
                assert fleet["live_runs"] == 4
                assert [(one["run_id"], one["calls"], one["streak"]) for one in fleet["runs"]] == [
                    ("child", 5, 3),  # what was judged critical is not recorded, so the streak stays
                    ("three", 3, 3),
                    ("one", 2, 2),
                    ("parent", 1, 1),
                ]
                loops = sum(
                    verdict.stage == "final" and verdict.level != "none"
                    for worker in workers
                    for verdict in worker.verdicts()
                )
                assert fleet["rates"][0] == {"minutes": 1, "calls": 11, "loops": loops}
                child = await get(client, "/api/run/child")
                assert child["silent"] == []
                assert child["state"] == "live"
                assert child["key"] == "parent"
                assert child["partition"] == 1
                assert {one["tool"] for one in child["ring"]} == {"fetch"}

    run(check)


@asynccontextmanager
async def mute() -> AsyncIterator[str]:
    """A worker that takes connections and never answers."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_a_worker_that_does_not_answer_makes_it_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "TIMEOUT_S", 0.3)

    async def check() -> None:
        worker, other = FoldedWorker(CONFIGURATION), FoldedWorker(CONFIGURATION, 1)
        worker.feed(looping("here", 1))
        other.feed(looping("there", 1))
        gone = "http://127.0.0.1:9"
        async with mute() as silent, serving(worker) as client, serving(other) as second:
            worker.others = [silent, url(second), gone, "worker-without-an-address"]
            expected = [silent, gone, "worker-without-an-address"]
            fleet = await get(client, "/api/fleet")
            assert fleet["silent"] == expected
            assert fleet["live_runs"] == 2
            assert (await get(client, "/api/run/there"))["silent"] == expected
            assert (await get(client, "/api/run/here"))["silent"] == []
            missing = await get(client, "/api/run/nowhere", 404)
            assert missing["silent"] == expected, "it may be there"

    run(check)


def test_a_worker_that_answers_nonsense_is_named() -> None:
    async def check() -> None:
        async def nonsense(request: web.Request) -> web.Response:
            return web.json_response({"workers": "many"})

        app = web.Application()
        app.router.add_get("/api/fleet", nonsense)
        worker = FoldedWorker(CONFIGURATION)
        async with TestClient(TestServer(app)) as liar, serving(worker) as client:
            worker.others = [url(liar)]
            assert (await get(client, "/api/fleet"))["silent"] == [url(liar)]

    run(check)


def test_a_live_run_with_verdicts_evidence_and_rule() -> None:
    async def check() -> None:
        worker = FoldedWorker(CONFIGURATION)
        events = looping("r", 4)
        events.insert(6, {"run_id": "r", "type": "call_refused", "tool": "search", "args": {"q": "same"}})
        worker.feed(events)
        room = ReadingRoom(CONFIGURATION, events)
        async with serving(worker, records=room) as client:
            got = await get(client, "/api/run/r")
            await get(client, "/api/run/r")
        assert room.asked == [("r", 0)], "read up once, in the partition that the tables know"
        assert [one["repeats"] for one in got["ring"]] == [len(got["ring"])] * len(got["ring"])
        critical = [one for one in got["verdicts"] if one["level"] == "critical" and one["stage"] == "final"]
        assert critical[0]["detector"] == "generic_repeat"
        assert "3 times or more" in critical[0]["rule"]
        assert critical[0]["evidence"]
        assert {one["call"] for one in critical[0]["evidence"]} <= {one["call"] for one in got["ring"]}
        assert [(deed["kind"], deed["what"]) for deed in got["deeds"]] == [("call_refused", "search")]
        assert "nothing" not in str(got), "a result was shown"

    run(check)


def test_an_ended_run_is_answered_from_the_topics() -> None:
    async def check() -> None:
        worker = FoldedWorker(CONFIGURATION)
        events = [*looping("4711", 4), {"run_id": "4711", "type": "run_ended", "outcome": "aborted"}]
        worker.feed(events)
        assert worker.find_run("4711") is None
        room = ReadingRoom(CONFIGURATION, events)
        worker.others = ["http://127.0.0.1:9"]
        async with serving(worker, records=room) as client:
            got = await get(client, "/api/run/4711")
        assert got["state"] == "ended"
        assert got["silent"] == [], "it has ended: nobody can hold it"
        assert got["ring"]
        assert {one["detector"] for one in got["verdicts"] if one["level"] == "critical"} == {"generic_repeat"}
        assert got["deeds"][-1]["what"] == "aborted"

    run(check)


def test_topics_that_cannot_be_read_are_said_so() -> None:
    async def check() -> None:
        worker = FoldedWorker(CONFIGURATION)
        worker.feed(looping("r", 3))
        room = ReadingRoom(CONFIGURATION, [])

        def fail() -> None:
            raise BrokerError("no broker at 127.0.0.1:9")

        room.failing = fail
        async with serving(worker, records=room) as client:
            got = await get(client, "/api/run/r")
            assert "no broker" in got["trouble"]
            assert got["verdicts"], "those that the worker remembers"
            missing = await get(client, "/api/run/other", 502)
            assert "no broker" in missing["error"]

    run(check)


def test_token() -> None:
    async def check() -> None:
        a, b = FoldedWorker(CONFIGURATION), FoldedWorker(CONFIGURATION, 1)
        b.feed(looping("there", 1))
        good = {"Authorization": "Bearer s3cret"}
        async with serving(a, token="s3cret") as client, serving(b, token="s3cret") as other:
            a.others = [url(other)]
            for path in ("/api/fleet", "/api/run/there", "/metrics"):
                for headers in (
                    {},
                    {"Authorization": "Bearer wrong"},
                    {"Authorization": "Basic s3cret"},
                    {"Authorization": "Bearer é"},
                ):
                    async with client.get(path, headers=headers) as response:
                        assert response.status == 401
                        assert response.headers["WWW-Authenticate"] == "Bearer"
                async with client.get(path, headers=good) as response:
                    assert response.status == 200
            for path in ("/", "/page.js", "/page.css", "/healthz", "/readyz"):
                async with client.get(path) as response:
                    assert response.status == 200
            assert (await get(client, "/api/run/there", headers=good))["run_id"] == "there", "the token was passed on"

    run(check)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("[::1]:80", 200),
        ("localhost", 200),
        ("worker-1:6066", 200),
        ("loopwarden.example.org", 200),
        ("evil.example.com", 403),
        ("evil.example.com:6066", 403),
        ("", 403),
    ],
)
def test_a_foreign_host_name_reads_nothing(host: str, status: int) -> None:
    async def check() -> None:
        async with serving(FoldedWorker(CONFIGURATION), hosts=["LoopWarden.example.org"]) as client:
            await get(client, "/api/fleet", status, headers={"Host": host})

    run(check)


def test_read_only_and_nothing_to_run() -> None:
    async def check() -> None:
        worker = FoldedWorker(CONFIGURATION)
        hostile = "../<script>/#?&%2e"
        worker.feed(looping(hostile, 2, tool="<img src=x onerror=alert(1)>"))
        async with serving(worker) as client:
            for method in ("POST", "PUT", "DELETE", "PATCH"):
                async with client.request(method, "/api/fleet") as response:
                    assert response.status == 405
            fleet = await get(client, "/api/fleet")
            assert fleet["runs"][0]["run_id"] == hostile
            path = client.make_url("/api/run/").join(URL(quote(hostile, safe=""), encoded=True))
            async with client.session.get(path) as response:
                assert response.content_type == "application/json"
                assert (await response.json())["ring"][0]["tool"] == "<img src=x onerror=alert(1)>"
            for page in ("/", "/page.js", "/api/fleet", "/nowhere", "/metrics"):
                async with client.get(page) as response:
                    policy = response.headers["Content-Security-Policy"]
                    assert policy.startswith("default-src 'none'; script-src 'self';")
                    assert response.headers["X-Content-Type-Options"] == "nosniff"

    run(check)
