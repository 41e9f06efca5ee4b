"""The page in headless Chromium (Debian package ``chromium``)."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp.test_utils import TestServer

from loopwarden.processor.web import create_web
from tests.browser.chromium import CHROMIUM, dump_dom, screenshot
from tests.browser.fleet import CONFIGURATION, RUN, fleet
from tests.loads.worker import FoldedWorker, ReadingRoom, looping

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install --no-install-recommends chromium"),
]


class Page(HTMLParser):
    """Elements of a document: text of all, classes and texts by tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside.append(tag)

    def handle_data(self, data: str) -> None:
        if not self._inside or self._inside[-1] not in ("script", "style"):
            self.text += data

    def classed(self, name: str) -> int:
        """How many elements have a class."""
        return sum(name in (attrs.get("class") or "").split() for _, attrs in self.tags)


def page_of(worker: FoldedWorker, fragment: str = "", **options: Any) -> Page:
    async def look() -> str:
        app = create_web(worker, worker.metrics, worker, **options)
        async with TestServer(app) as server:
            return await dump_dom(str(server.make_url("/")) + fragment)

    return Page(asyncio.run(look()))


def test_the_fleet() -> None:
    worker, _ = fleet()
    page = page_of(worker)
    assert f"{len(worker.rows.ring)}live runs" in page.text
    assert "loops per 1,000 calls, 60 min" in page.text
    rate = worker.rates()[-1]
    assert f"{1000 * rate.loops / rate.calls:.1f}loops per 1,000 calls, 60 min" in page.text
    assert RUN in page.text
    assert ("a", {"class": "name", "href": f"#/run/{RUN}"}) in page.tags
    assert page.classed("critical") > 0


def test_one_run() -> None:
    worker, room = fleet()
    page = page_of(worker, f"#/run/{RUN}", records=room)
    ring = worker.find_run(RUN)
    assert ring is not None
    assert page.classed("repeat") == 6, "three laps of two calls"
    assert page.classed("evidence") > 0
    assert "Two calls took turns 7 times or more, and neither brought anything new" in page.text, "the rule in words"
    assert "call_refused" in page.text
    assert "outcomes until the guard disarms" in page.text
    assert page.classed("is-critical") > 0


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=\"document.title='owned'\">",
        "</script><script>document.title='owned'</script>",
        "\u202egnp.exe\x1b[31m",
    ],
)
def test_hostile_names_are_shown_and_not_executed(name: str) -> None:
    worker = FoldedWorker(CONFIGURATION)
    events = looping(name, 9, agent=name, tool=name)
    worker.feed(events)
    room = ReadingRoom(CONFIGURATION, events)
    for fragment in ("", "#/run/" + quote(name, safe="")):
        page = page_of(worker, fragment, records=room)
        titles = [index for index, (tag, _) in enumerate(page.tags) if tag == "title"]
        assert len(titles) == 1
        assert page.text.strip().startswith("LoopWarden"), "the title was changed"
        assert not [attrs for tag, attrs in page.tags if tag in ("img", "iframe") or "onerror" in attrs]
        assert sum(tag == "script" for tag, _ in page.tags) == 1
        shown = name.replace("\u202e", "\\u202e").replace("\x1b", "\\u001b")
        assert shown in page.text


def test_without_the_token_it_asks_for_it_and_shows_nothing() -> None:
    worker, _ = fleet()
    page = page_of(worker, token="s3cret")
    assert RUN not in page.text
    assert [attrs for tag, attrs in page.tags if attrs.get("id") == "login" and "hidden" not in attrs]


def test_screenshot(tmp_path: Path) -> None:
    async def draw() -> bytes:
        worker, _ = fleet()
        app = create_web(worker, worker.metrics, worker)
        async with TestServer(app) as server:
            await screenshot(str(server.make_url("/")), tmp_path / "page.png", width=800, height=600)
        return (tmp_path / "page.png").read_bytes()

    picture = asyncio.run(draw())
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20]) == 800
    assert len(picture) > 10_000, "an empty page"
