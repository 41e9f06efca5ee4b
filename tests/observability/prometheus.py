"""A real Prometheus (Debian package ``prometheus``) that scrapes a target of ours, and its query API."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

__all__ = ["PROMETHEUS", "Prometheus", "prometheus"]

PROMETHEUS = shutil.which("prometheus")
RULES = Path(__file__).parents[2] / "docker" / "prometheus" / "rules"


class Prometheus:
    """The query API of a running Prometheus."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def get(self, path: str, **parameters: str) -> Any:
        """Asks the API; fails on anything but success."""
        async with self._session.get(f"{self.url}/api/v1/{path}", params=parameters) as response:
            answer = await response.json()
        assert answer["status"] == "success", f"{parameters}: {answer.get('error')}"
        return answer["data"]

    async def query(self, expr: str, at: float) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series at a time, seconds since 1970."""
        data = await self.get("query", query=expr, time=f"{at:.3f}")
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]

    async def wait_for(self, expr: str, *, timeout_s: float = 15.0) -> None:
        """Waits until a query has an answer."""
        async with asyncio.timeout(timeout_s):
            while not await self.query(expr, time.time()):  # noqa: ASYNC110 - another process has to scrape
                await asyncio.sleep(0.1)

    async def query_range(
        self, expr: str, start: float, end: float, step: float = 1.0
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Labels and points of each series."""
        data = await self.get("query_range", query=expr, start=f"{start:.3f}", end=f"{end:.3f}", step=f"{step:g}")
        return [
            (series["metric"], [(float(when), float(value)) for when, value in series["values"]])
            for series in data["result"]
        ]

    async def label_values(self, metric: str, label: str) -> list[str]:
        """What Grafana's ``label_values(metric, label)`` asks for."""
        values: list[str] = await self.get(f"label/{label}/values", **{"match[]": metric})
        return values


@asynccontextmanager
async def prometheus(targets: list[str], folder: Path, *, scrape_s: int = 1) -> AsyncIterator[Prometheus]:
    """Starts Prometheus with our rules.

    Args:
        targets: ``host:port`` of what it scrapes, as job ``loopwarden``.
        folder: Where configuration and data go.
        scrape_s: Seconds between scrapes and between evaluations.
    """
    assert PROMETHEUS is not None
    interval = f"{scrape_s}s"
    configuration = {
        "global": {"scrape_interval": interval, "evaluation_interval": interval, "scrape_timeout": interval},
        "rule_files": [f"{RULES}/*.yml"],
        "scrape_configs": [{"job_name": "loopwarden", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
    port = _free_port()
    process = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}"
            async with asyncio.timeout(30):
                while not await _is_ready(session, url):
                    assert process.returncode is None, "Prometheus ended"
                    await asyncio.sleep(0.1)
            yield Prometheus(session, url)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/-/ready") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
