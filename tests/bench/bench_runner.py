"""How long the runner library keeps an agent: time inside it per call, less that of a twin that does nothing.

    python -m tests.bench.bench_runner [--broker HOST:PORT] [--calls 2000]

Agents call tools that answer with 1 KB, then with 10 MB, as text and as JSON; each thinks between its calls. What is
measured is the time from asking to the answer of ``before_call``, and that of ``after_call``, in the agents' own
thread, while the library's threads work on the same cores. Agents that answer with 1 KB beside one that answers with
10 MB are measured, too: they must not pay for it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import time
from collections.abc import Iterator
from typing import Any, Protocol

from loopwarden.broker.embedded import EmbeddedBroker
from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.connection import Connection
from loopwarden.runner import LoopWarden
from loopwarden_schemas.topics import Topics

LINE = "2026-01-01 12:00:{second:02} INFO request {number} handled by worker 7, nothing else to say here\n"
KILOBYTE, TEN_MEGABYTES = 1_000, 10_000_000
THINK_SECONDS = 0.005


class Agent(Protocol):
    """What is measured."""

    def before_call(self, tool: str, args: object) -> Any:
        """Before a call."""

    def after_call(self, call: Any, *, result: object) -> Any:
        """After it."""


class Nothing:
    """The twin that does nothing."""

    def before_call(self, tool: str, args: object) -> Any:
        """Before a call."""

    def after_call(self, call: Any, *, result: object) -> Any:
        """After it."""


def text(size: int, seed: int) -> str:
    """A log of that size."""
    generator = random.Random(seed)
    lines = [LINE.format(second=index % 60, number=generator.randrange(10**6)) for index in range(size // 76 + 1)]
    return "".join(lines)[:size]


def document(size: int, seed: int) -> dict[str, Any]:
    """A tool result of that size: a text part, and details of many fields."""
    rows = [{"id": index, "name": f"row {index} of {seed}", "value": index * 1.5} for index in range(size // 400)]
    return {"content": [{"type": "text", "text": text(size * 4 // 5, seed)}], "details": {"rows": rows}}


async def agent(run: Agent, calls: int, results: list[object], spent: list[float]) -> None:
    """One agent's loop; appends the microseconds that each call spent in the library."""
    for number in range(calls):
        args = {"path": f"/srv/app/file{number}.py", "lines": [1, 200]}
        began = time.perf_counter()
        call = run.before_call("read", args)
        before = time.perf_counter() - began
        await asyncio.sleep(THINK_SECONDS)
        result = results[number % len(results)]
        began = time.perf_counter()
        run.after_call(call, result=result)
        spent.append((before + time.perf_counter() - began) * 1e6)


def percentile(values: list[float], share: float) -> float:
    """A percentile, by the nearest rank."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def line(name: str, library: list[float], nothing: list[float]) -> str:
    """Figures of one case."""
    cells = []
    for share in (0.5, 0.99):
        with_it, without = percentile(library, share), percentile(nothing, share)
        cells.append(f"{with_it:9.0f} {without:9.1f} {with_it - without:9.0f}")
    return f"{name:38} {len(library):6} {'  '.join(cells)}"


async def measure(
    warden: LoopWarden, agents: int, calls: int, results: list[object]
) -> tuple[list[float], list[float]]:
    """Library and twin, one after the other, in microseconds a call."""
    nothing: list[float] = []
    library: list[float] = []
    await asyncio.gather(*(agent(Nothing(), calls, results, nothing) for _ in range(agents)))
    runs = [warden.run() for _ in range(agents)]
    await asyncio.gather(*(agent(run, calls, results, library) for run in runs))
    for run in runs:
        run.end()
    return library, nothing


async def measure_beside(warden: LoopWarden, calls: int, large: list[object]) -> tuple[list[float], list[float]]:
    """Agents with small results while another one has large results."""
    small: list[object] = [text(KILOBYTE, seed) for seed in range(50)]
    nothing: list[float] = []
    library: list[float] = []
    ignored: list[float] = []
    await asyncio.gather(*(agent(Nothing(), calls, small, nothing) for _ in range(4)))
    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(warden.run()) for _ in range(5)]
        await asyncio.gather(
            agent(runs[0], 5, large, ignored), *(agent(run, calls, small, library) for run in runs[1:])
        )
    return library, nothing


@contextlib.contextmanager
def started_broker(given: str | None) -> Iterator[str]:
    """The broker named, or one of our own."""
    if given:
        yield given
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap


async def main(broker: str, calls: int) -> None:
    """Prints the table."""
    prefix = f"bench{int(time.time())}."
    await ensure_topics(Connection(broker), Topics(prefix, 4).specs())
    print(f"{'microseconds a call':38} {'calls':>6} {'p50: with':>9} {'without':>9} {'less':>9}  {'p99: with':>9}")
    small: list[object] = [text(KILOBYTE, seed) for seed in range(50)]
    small_documents: list[object] = [document(KILOBYTE, seed) for seed in range(50)]
    texts: list[object] = [text(TEN_MEGABYTES, seed) for seed in range(2)]
    documents: list[object] = [document(TEN_MEGABYTES, seed) for seed in range(2)]
    async with LoopWarden(broker, topic_prefix=prefix, agent_id="bench") as warden:
        await measure(warden, 1, 20, small)
        cases = [
            ("1 KB of text, one agent", 1, calls, small),
            ("1 KB of text, 20 agents", 20, calls // 20, small),
            ("1 KB of JSON, 20 agents", 20, calls // 20, small_documents),
            ("10 MB of text, one agent", 1, 10, texts),
            ("10 MB of JSON, one agent", 1, 5, documents),
        ]
        for name, agents, number, results in cases:
            print(line(name, *await measure(warden, agents, number, results)), flush=True)
            await warden.aflush(60)
        print(line("1 KB of text beside 10 MB of text", *await measure_beside(warden, calls // 8, texts)), flush=True)
        await warden.aflush(60)
        print(warden.stats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--broker", metavar="HOST:PORT", help="a cluster; by default an embedded broker is started")
    parser.add_argument("--calls", type=int, default=2000, help="calls per case with small results")
    options = parser.parse_args()
    with started_broker(options.broker) as address:
        asyncio.run(main(address, options.calls))
