"""Logging of the long-running commands: one line an event, JSON where a machine reads it, repeated errors held back."""

from __future__ import annotations

import logging
import sys
import time

import structlog

__all__ = ["configure_logging"]

_QUIET = {
    # 7 % of the samples of a busy worker otherwise.
    "aiokafka": logging.WARNING,
    "faust": logging.WARNING,
    "mode": logging.WARNING,
    "aiohttp": logging.WARNING,
    "asyncio": logging.WARNING,
}
REPEATS_PER_MINUTE = 10
"""So many lines of one logging call are let through a minute; a broker that is away causes hundreds a second."""


class _HoldBack(logging.Filter):
    """Lets only so many lines of one call through a minute, and says how many it held back."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        if record.levelno < logging.WARNING:
            return True
        place = (record.pathname, record.lineno)
        now = time.monotonic()
        since, count = self._seen.get(place, (now, 0))
        if now - since > 60:
            if count > REPEATS_PER_MINUTE:
                record.msg = f"{record.msg} (and {count - REPEATS_PER_MINUTE} like it before)"
            since, count = now, 0
        self._seen[place] = (since, count + 1)
        return count < REPEATS_PER_MINUTE


def configure_logging(*, json: bool | None = None, level: str = "INFO") -> None:
    """Sets up logging to stderr.

    Args:
        json: JSON lines; by default wherever stderr is no terminal.
        level: Level of our own loggers.
    """
    if json is None:
        json = not sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            renderer,
        ]
        if json
        else [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(_HoldBack())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("loopwarden").setLevel(level)
    for name, quiet in _QUIET.items():
        logging.getLogger(name).setLevel(quiet)
