"""The worker's web: metrics, health, and a page for the fleet and for one run. Reads, and changes nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection
from importlib.resources import files
from typing import Any, Literal, Protocol

import msgspec
from aiohttp import web

from loopwarden.processor.web import view
from loopwarden.processor.web.guard import guard
from loopwarden.processor.web.inspection import FoundRun, HealthCheck, Inspection, PastRun, Records
from loopwarden.processor.web.library import Library
from loopwarden.processor.web.peers import HOP_HEADER, Peers

__all__ = ["Exposition", "create_web"]

log = logging.getLogger(__name__)

RUNS_SHOWN = 50
VERDICTS_SHOWN = 100
_FLEET_S = 1.5
"""So long one look over all rows is shown."""
_TYPES = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}


class Exposition(Protocol):
    """What ``/metrics`` shows, see ``processor.metrics.Metrics``."""

    def exposition(self) -> bytes:
        """Prometheus's text format, version 0.0.4."""


def create_web(
    inspection: Inspection,
    metrics: Exposition,
    health: HealthCheck,
    *,
    token: str | None = None,
    records: Records | None = None,
    hosts: Collection[str] = (),
) -> web.Application:
    """Makes the application; whoever runs it binds loopback unless told otherwise.

    Args:
        inspection: The worker's runs, verdicts and peers.
        metrics: Its metrics.
        health: Its health.
        token: Bearer token for everything but the empty page and the health checks; None asks for none.
        records: Reads ended runs up in the topics; None shows runs that are alive only.
        hosts: Further host names that the worker is asked under.
    """
    pages = _Web(inspection, metrics, health, token, records)
    app = web.Application(middlewares=[guard(token, hosts)])
    app.add_routes(
        [
            web.get("/metrics", pages.metrics),
            web.get("/healthz", pages.healthz),
            web.get("/readyz", pages.readyz),
            web.get("/api/fleet", pages.fleet),
            web.get("/api/run/{run_id}", pages.run),
        ]
    )
    for name, kind in _TYPES.items():
        body = (files("loopwarden.processor.web") / "static" / name).read_bytes()
        app.router.add_get("/" if name == "index.html" else f"/{name}", _static(body, kind))
    app.on_cleanup.append(pages.close)
    return app


def _static(body: bytes, kind: str) -> Any:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return handler


class _Web:
    def __init__(
        self,
        inspection: Inspection,
        metrics: Exposition,
        health: HealthCheck,
        token: str | None,
        records: Records | None,
    ) -> None:
        self._inspection = inspection
        self._metrics = metrics
        self._health = health
        self._library = Library(records)
        self._peers = Peers(token)
        self._looking = asyncio.Lock()
        self._fleet: tuple[float, dict[str, Any]] | None = None

    async def close(self, app: web.Application) -> None:
        await self._peers.close()

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=self._metrics.exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def healthz(self, request: web.Request) -> web.Response:
        return _check(*self._health.healthy())

    async def readyz(self, request: web.Request) -> web.Response:
        return _check(*self._health.ready())

    # -- the fleet

    async def fleet(self, request: web.Request) -> web.Response:
        own = await self._own_fleet()
        if HOP_HEADER in request.headers:
            return _json(own)
        answers = await self._peers.ask(self._inspection.peers(), "api", "fleet")
        fleets = [msgspec.convert(own, _Fleet)]
        for peer, answer in answers.found:
            try:
                fleets.append(msgspec.convert(answer, _Fleet))
            except msgspec.ValidationError as error:
                log.warning("worker %s gave an answer that cannot be taken: %s", peer, error)
                answers.silent.append(peer)
        return _json(_merged(fleets) | {"silent": answers.silent})

    async def _own_fleet(self) -> dict[str, Any]:
        async with self._looking:
            if self._fleet is None or self._fleet[0] < time.monotonic():
                # However many look at the page: all rows are gone through once in that time.
                self._fleet = (time.monotonic() + _FLEET_S, await self._look())
            return self._fleet[1]

    async def _look(self) -> dict[str, Any]:
        sizes = self._inspection.sizes()
        busiest: list[FoundRun] = []
        for part in self._inspection.live_runs():
            busiest = view.busiest([*busiest, *part], RUNS_SHOWN)
            await asyncio.sleep(0)
        verdicts = [verdict for verdict in self._inspection.recent_verdicts() if verdict.stage == "final"]
        return {
            "workers": 1,
            "live_runs": sizes.live_runs,
            "armed": sizes.armed,
            "rates": [rate._asdict() for rate in self._inspection.rates()],
            "runs": [view.summary_view(found) for found in busiest],
            "verdicts": [view.verdict_brief(verdict) for verdict in reversed(verdicts[-VERDICTS_SHOWN:])],
        }

    # -- one run

    async def run(self, request: web.Request) -> web.Response:
        run_id = request.match_info["run_id"]
        silent: list[str] = []
        found = self._inspection.find_run(run_id)
        if found is not None:
            own = view.run_view(found)
            if HOP_HEADER in request.headers:
                return _json(own)
        elif HOP_HEADER in request.headers:
            raise web.HTTPNotFound
        else:
            answers = await self._peers.ask(self._inspection.peers(), "api", "run", run_id)
            silent = answers.silent
            own = answers.found[0][1] if answers.found else {}
        past, trouble = await self._library.read(run_id, own.get("partition"), lasting=not own)
        if not own:
            if past is None:
                return _json({"error": trouble or "no such run", "silent": silent}, 502 if trouble else 404)
            # Silent workers cannot hold it: only a live run is in somebody's tables, and this one has ended.
            own = view.past_view(past, self._inspection.configuration())
            if past.ended:
                silent = []
        else:
            own |= self._told(run_id, past)
        return _json(own | {"silent": silent, "trouble": trouble})

    def _told(self, run_id: str, past: PastRun | None) -> dict[str, Any]:
        """Verdicts of a live run: what the topics have, and what came since they were read."""
        known = {} if past is None else {verdict.id: verdict for verdict in past.verdicts}
        known |= {one.id: one for one in self._inspection.recent_verdicts() if one.run_id == run_id}
        in_order = sorted(known.values(), key=lambda one: one.cause.offset)
        told: dict[str, Any] = {
            "verdicts": [view.verdict_view(one, self._inspection.configuration()) for one in in_order]
        }
        if past is not None:
            told |= {"deeds": [deed._asdict() for deed in past.deeds], "retained": past.complete}
        return told


class _Fleet(msgspec.Struct):
    """A worker's own fleet, as another worker checks it before it is added to its own."""

    workers: int
    live_runs: int
    armed: int
    rates: list[dict[Literal["minutes", "calls", "loops"], int]]
    runs: list[dict[str, Any]]
    verdicts: list[dict[str, Any]]


def _merged(fleets: list[_Fleet]) -> dict[str, Any]:
    """One fleet out of the workers' own."""
    rates: dict[int, dict[str, int]] = {}
    for rate in (rate for fleet in fleets for rate in fleet.rates):
        minutes = rate.get("minutes", 0)
        total = rates.setdefault(minutes, {"minutes": minutes, "calls": 0, "loops": 0})
        total["calls"] += rate.get("calls", 0)
        total["loops"] += rate.get("loops", 0)
    runs = [run for fleet in fleets for run in fleet.runs]
    verdicts = [verdict for fleet in fleets for verdict in fleet.verdicts]
    return {
        "workers": sum(fleet.workers for fleet in fleets),
        "live_runs": sum(fleet.live_runs for fleet in fleets),
        "armed": sum(fleet.armed for fleet in fleets),
        "rates": list(rates.values()),
        "runs": sorted(runs, key=lambda run: _number(run, "calls"), reverse=True)[:RUNS_SHOWN],
        "verdicts": sorted(verdicts, key=lambda verdict: _number(verdict, "ts"), reverse=True)[:VERDICTS_SHOWN],
    }


def _number(entry: dict[str, Any], name: str) -> int:
    value = entry.get(name)
    return value if isinstance(value, int) else 0


def _check(good: bool, words: str) -> web.Response:
    return web.Response(text=words + "\n", status=200 if good else 503)


def _json(what: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(what), status=status, content_type="application/json")
