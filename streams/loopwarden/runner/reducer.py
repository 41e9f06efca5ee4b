"""Reduces large results in a thread, one after the other, within a bound of memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

__all__ = ["Reducer"]

log = logging.getLogger(__name__)

PENDING_JOBS = 256
"""Results that may wait for the thread; beyond it a result is published without its outcome."""


class Reducer:
    """One thread, which does nothing until a large result comes.

    Args:
        pending_jobs: Results that may wait.

    Attributes:
        unreduced: Results that were published without their outcome.
    """

    def __init__(self, *, pending_jobs: int = PENDING_JOBS) -> None:
        self._pending_jobs = pending_jobs
        self._pending = 0
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self.unreduced = 0

    def start(self) -> None:
        """Starts the thread. The first large result must not wait for that: it would wait for its own reduction."""
        if self._executor is None:
            self.submit(_nothing)

    def submit(self, job: Callable[[], None]) -> Future[None] | None:
        """Runs a job in the thread.

        Returns:
            None where too many wait, or the process ends: then it is not run.
        """
        with self._lock:
            if self._pending >= self._pending_jobs:
                self.unreduced += 1
                return None
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="loopwarden-reduce")
            try:
                future = self._executor.submit(self._run, job)
            except RuntimeError:  # the interpreter is going down
                self.unreduced += 1
                return None
            self._pending += 1
        future.add_done_callback(self._done)
        return future

    def drain(self, timeout: float) -> bool:
        """Waits for what was submitted; whether all of it was done in so many seconds."""
        with self._lock:
            executor = self._executor
            if executor is None or not self._pending:
                return True
            try:
                last = executor.submit(_nothing)
            except RuntimeError:
                return False
        try:
            last.result(timeout)
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Ends the thread; what waits is not run."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as error:
            # The text of the error may hold content.
            self.unreduced += 1
            log.error("a result could not be reduced: %s", type(error).__name__)

    def _done(self, _: Future[None]) -> None:
        with self._lock:
            self._pending -= 1


def _nothing() -> None:
    """A job that is none."""
