"""A worker in a process of its own, set up by its environment: ``python -m tests.loads.worker_process``.

Prints the address of its page when it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from loopwarden.processor.settings import WorkerSettings
from loopwarden.processor.worker import run_worker

__all__ = ["RunningWorker", "running_worker"]

_READY_S = 60.0
_ROOT = Path(__file__).parents[2]


class RunningWorker:
    """A worker that runs.

    Attributes:
        url: Address of its page.
    """

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process = process
        self.url = url

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Waits for its end; its exit code."""
        return await self._process.wait()


@asynccontextmanager
async def running_worker(bootstrap: str, prefix: str, **environment: str) -> AsyncIterator[RunningWorker]:
    """Starts a worker and waits until it is ready; stops it in the end.

    Args:
        bootstrap: The broker.
        prefix: Prefix of its topics.
        environment: More of its environment, without ``LOOPWARDEN_``, in lower case.
    """
    own = {f"LOOPWARDEN_{name.upper()}": value for name, value in environment.items()}
    own |= {"LOOPWARDEN_BROKER": bootstrap, "LOOPWARDEN_TOPIC_PREFIX": prefix}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.loads.worker_process",
        cwd=_ROOT,
        env={**os.environ, **own},
        stdin=DEVNULL,
        stdout=PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(_READY_S):
            line = (await process.stdout.readline()).decode().strip()
        assert line, f"the worker ended with code {await process.wait()}"
        yield RunningWorker(process, line)
    finally:
        if process.returncode is None:
            # A test may have stopped it with SIGSTOP.
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
            try:
                async with asyncio.timeout(15):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


def _say(app: Any) -> None:
    print(app.conf.canonical_url, flush=True)


if __name__ == "__main__":
    sys.exit(run_worker(WorkerSettings.from_environment(os.environ), on_ready=_say))
