"""Asks the other workers: a run's id does not say which of them holds it (design: following and asking)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

__all__ = ["HOP_HEADER", "Answers", "Peers"]

log = logging.getLogger(__name__)

HOP_HEADER = "LoopWarden-Hop"
"""Marks a question that a worker passed on: whoever gets it answers for itself alone."""
TIMEOUT_S = 2.0
"""So long a worker may take; then the answer goes out without it, marked partial."""
ANSWER_BYTES = 8 * 1024 * 1024
"""Largest answer that is taken from a worker."""


class Answers:
    """What the others said.

    Attributes:
        found: Address and answer of those that had one.
        silent: Addresses of those that gave none.
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, Any]]] = []
        self.silent: list[str] = []


class Peers:
    """Client of the other workers.

    Args:
        token: Passed on, where the deployment has one.
    """

    def __init__(self, token: str | None) -> None:
        self._headers = {HOP_HEADER: "1"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(self, peers: Sequence[str], *path: str) -> Answers:
        """Asks all of them at once.

        Args:
            peers: Base addresses.
            path: Parts of the path; quoted here.

        Returns:
            Answers, without those that said 404.
        """
        if self._session is None:
            # Made in the loop; environment proxies are for the outside, not for our own workers.
            self._session = aiohttp.ClientSession(
                headers=self._headers, timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), trust_env=False
            )
        answers = Answers()
        wanted = "/".join(quote(part, safe="") for part in path)
        results = await asyncio.gather(
            *(self._one(self._session, f"{peer.rstrip('/')}/{wanted}") for peer in peers), return_exceptions=True
        )
        for peer, result in zip(peers, results, strict=True):
            if isinstance(result, dict):
                answers.found.append((peer, result))
            elif isinstance(result, BaseException):
                if isinstance(result, asyncio.CancelledError):
                    raise result
                log.warning("worker %s did not answer: %s", peer, result or type(result).__name__)
                answers.silent.append(peer)
        return answers

    async def _one(self, session: aiohttp.ClientSession, url: str) -> dict[str, Any] | None:
        async with session.get(URL(url, encoded=True), allow_redirects=False) as response:
            if response.status == 404:
                return None
            if response.status != 200:
                raise ValueError(f"status {response.status}")
            data = await response.content.read(ANSWER_BYTES + 1)
            while not response.content.at_eof() and len(data) <= ANSWER_BYTES:
                data += await response.content.read(ANSWER_BYTES + 1 - len(data))
            if len(data) > ANSWER_BYTES:
                raise ValueError("the answer is too long")
            found = msgspec.json.decode(data)
            if not isinstance(found, dict):
                raise ValueError("the answer is no object")
            return found
