"""Folds units on all cores."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from loopwarden.backtest.judging import JudgedUnit, judge, observing
from loopwarden.backtest.reading import Unit
from loopwarden_schemas.configuration import Configuration

__all__ = ["judge_all"]

EVENTS_A_TASK = 5000
"""Events that a process is handed at a time."""
_AHEAD = 3
"""Tasks a process that may wait."""

_configurations: list[Configuration] = []


def judge_all(
    units: Iterable[Unit], configurations: Sequence[Configuration], *, processes: int | None = None
) -> Iterator[JudgedUnit]:
    """Judges units under each configuration, in any order.

    Args:
        units: The units.
        configurations: The configurations.
        processes: How many processes; as many as there are cores by default. 1 judges in this one.
    """
    processes = processes or _cores()
    if processes == 1:
        observed = [observing(configuration) for configuration in configurations]
        yield from (judge(unit, observed) for unit in units)
        return
    texts = [configuration.text for configuration in configurations]
    # A fork starts at once and imports nothing again, but is safe only from a process without threads.
    forks = "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1
    context = multiprocessing.get_context("fork" if forks else "spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_prepare, initargs=(texts,)) as pool:
        pending: set[Future[list[JudgedUnit]]] = set()
        for task in _tasks(units):
            pending.add(pool.submit(_judge, task))
            if len(pending) > processes * _AHEAD:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
        for future in pending:
            yield from future.result()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _tasks(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    task: list[Unit] = []
    events = 0
    for unit in units:
        task.append(unit)
        events += len(unit.records)
        if events >= EVENTS_A_TASK:
            yield task
            task, events = [], 0
    if task:
        yield task


def _prepare(texts: Sequence[str]) -> None:
    _configurations[:] = [observing(Configuration.from_text(text)) for text in texts]


def _judge(units: list[Unit]) -> list[JudgedUnit]:
    return [judge(unit, _configurations) for unit in units]
