"""A worker in a child process, for ``up`` and ``demo``."""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from loopwarden.broker.child_process import ChildProcess
from loopwarden.broker.embedded import free_port
from loopwarden.errors import LoopWardenError

__all__ = ["WorkerChild"]

HOST = "127.0.0.1"
READY_S = 60.0
DRAIN_S = 15.0
_POLL_S = 0.05


class WorkerChild:
    """Starts a worker; a context manager. It ends with this process.

    Args:
        bootstrap: The broker; log-in and TLS it takes from the environment.
        topic_prefix: Prefix of the topics.
        config: Configuration file.
        partitions: Partitions of the topics.
        port: Port of its page and metrics; None chooses a free one.
        session_timeout_s: See ``WorkerSettings``.

    Raises:
        LoopWardenError: It did not become ready; with its last words.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        topic_prefix: str = "",
        config: str | Path,
        partitions: int | None = None,
        port: int | None = None,
        session_timeout_s: float | None = None,
    ) -> None:
        self._port = port or free_port()
        self.url = f"http://{HOST}:{self._port}"
        command = [sys.executable, "-m", "loopwarden.cli", "worker", "--broker", bootstrap]
        command += ["--config", str(Path(config).resolve()), "--port", str(self._port), "--log-text"]
        if topic_prefix:
            command += ["--topic-prefix", topic_prefix]
        if partitions is not None:
            command += ["--partitions", str(partitions)]
        if session_timeout_s is not None:
            command += ["--session-timeout", str(session_timeout_s)]
        self._command = command
        self._process: ChildProcess | None = None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.returncode is None

    def start(self) -> Self:
        """Starts it; returns at once."""
        self._process = ChildProcess("the worker", self._command, env=os.environ)
        return self

    def wait_ready(self, timeout: float = READY_S) -> None:
        """Waits until its partitions can be processed.

        Raises:
            LoopWardenError: It ended, or took too long.
        """
        deadline = time.monotonic() + timeout
        while not self._is_ready():
            self.check()
            if time.monotonic() > deadline:
                raise LoopWardenError(f"the worker was not ready within {timeout:.0f} s; {self.describe()}")
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Raises if it has ended.

        Raises:
            LoopWardenError: It has.
        """
        if not self.running:
            raise LoopWardenError(self.describe())

    def describe(self) -> str:
        """How it does or ended, with its last words."""
        return "the worker was not started" if self._process is None else self._process.describe_exit()

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self._port, timeout=2)
        with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def stop(self) -> None:
        """Stops it as SIGTERM does; kills it if it takes too long."""
        if self._process is not None:
            self._process.stop(DRAIN_S)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
