"""Runs a worker: preflight, app, signals, and an exit code that says why it ended."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from loopwarden.broker.capabilities import Capabilities
from loopwarden.errors import LoopWardenError
from loopwarden.past_runs import PastRuns
from loopwarden.processor.app import LoopWardenApp, create_app
from loopwarden.processor.inspection import WorkerInspection
from loopwarden.processor.metrics import Metrics
from loopwarden.processor.observer import Observer, Tee
from loopwarden.processor.preflight import preflight
from loopwarden.processor.reload import ConfigurationWatch
from loopwarden.processor.settings import WorkerSettings
from loopwarden.processor.site import Site
from loopwarden.processor.web import Activity, create_web

__all__ = ["run_worker"]

log = logging.getLogger(__name__)

_HARD_STOP_MARGIN_S = 5.0


def run_worker(
    settings: WorkerSettings,
    *,
    observer: Observer | None = None,
    on_ready: Callable[[LoopWardenApp], None] | None = None,
) -> int:
    """Runs a worker until it is told to stop or cannot go on.

    Args:
        settings: What it is started with.
        observer: Told of what happens.
        on_ready: Called once, when its first partitions can be processed.

    Returns:
        Exit code: 0 after SIGTERM or SIGINT, else that of the error (``loopwarden.errors``).

    Raises:
        LoopWardenError: It could not start.
    """
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.run(_main(settings, observer, on_ready))
    return asyncio.run(_main(settings, observer, on_ready))


async def _main(
    settings: WorkerSettings, observer: Observer | None, on_ready: Callable[[LoopWardenApp], None] | None
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stopper(stop, settings.drain_timeout_s))
    starting = asyncio.ensure_future(preflight(settings))
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return 0
    return await _serve(settings, starting.result(), observer, on_ready, stopping)


async def _serve(
    settings: WorkerSettings,
    broker: Capabilities,
    observer: Observer | None,
    on_ready: Callable[[LoopWardenApp], None] | None,
    stopping: asyncio.Future[Any],
) -> int:
    site, metrics, activity = None, None, Activity()
    if settings.web_port is not None:
        site, metrics = Site(settings), Metrics(settings.configuration)
        observer = Tee(metrics, activity, *([observer] if observer else []))
    app = create_app(settings, broker, observer, url=site.url if site else None)
    if site is not None and metrics is not None:
        inspection = WorkerInspection(app, activity, site.url)
        records = PastRuns(settings.connection, settings.topics)
        await site.start(
            create_web(inspection, metrics, app.health, token=settings.web_token, records=records, hosts=site.hosts)
        )
        log.info("page and metrics: %s", site.url)
    watch = ConfigurationWatch(settings, app.reconfigure)
    # What stands by now lives as long as the worker: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    starting = asyncio.ensure_future(app.start())
    crashed = asyncio.ensure_future(app._crashed.wait())
    watching = asyncio.ensure_future(watch.run())
    try:
        pending: set[asyncio.Future[Any]] = {stopping, crashed}
        await asyncio.wait([starting, *pending], return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not stopping.done() and not crashed.done():
            starting.result()
            log.info("ready on %s, group %s", settings.connection, settings.topics.app_id)
            if on_ready is not None:
                on_ready(app)
            await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        if app.failure is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(settings.drain_timeout_s):
                    await app.stop()
        if site is not None:
            await site.stop()
    return _exit_code(app)


def _exit_code(app: LoopWardenApp) -> int:
    error = app.failure or app.crash_reason
    if error is None:
        log.info("stopped")
        return 0
    hint = f"; {error.hint}" if isinstance(error, LoopWardenError) and error.hint else ""
    log.error("stopped: %s%s", error, hint)
    return error.exit_code if isinstance(error, LoopWardenError) else 1


def _stopper(stop: asyncio.Event, drain_timeout_s: float) -> Callable[[], None]:
    def on_signal() -> None:
        if not stop.is_set():
            log.info("asked to stop: finishing what is in hand")
            stop.set()
            # Whatever hangs, a client library or a broker that does not answer: the state outside is always whole.
            timer = threading.Timer(drain_timeout_s + _HARD_STOP_MARGIN_S, os._exit, args=[0])
            timer.daemon = True
            timer.start()

    return on_signal
