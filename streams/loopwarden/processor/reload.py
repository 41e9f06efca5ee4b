"""The configuration without a restart: read again on SIGHUP and when its file changes (issue: an operator's hand)."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from loopwarden.processor.settings import WorkerSettings
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.errors import ConfigurationError

__all__ = ["ConfigurationWatch"]

log = logging.getLogger(__name__)

_POLL_S = 1.0


class ConfigurationWatch:
    """Watches the configuration file.

    Args:
        settings: Whose file.
        apply: Called with a configuration that differs from the one before.
    """

    def __init__(self, settings: WorkerSettings, apply: Callable[[Configuration], None]) -> None:
        self._path = settings.configuration_path
        self._version = settings.configuration.version
        self._apply = apply
        self._stamp = self._look()

    async def run(self) -> None:
        """Watches until it is cancelled. A file that cannot be taken changes nothing, and is said so."""
        if self._path is None:
            return
        hangup = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, hangup.set)
        while True:
            try:
                async with asyncio.timeout(_POLL_S):
                    await hangup.wait()
            except TimeoutError:
                pass
            stamp = self._look()
            if hangup.is_set() or stamp != self._stamp:
                hangup.clear()
                self._stamp = stamp
                self.reload()

    def reload(self) -> None:
        """Reads the file now."""
        assert self._path is not None
        try:
            configuration = Configuration.from_file(self._path)
        except ConfigurationError as error:
            log.error("the configuration stays %s: %s", self._version, error)
            return
        if configuration.version == self._version:
            log.info("configuration %s read again, nothing changed", self._version)
            return
        log.warning("configuration %s replaces %s", configuration.version, self._version)
        for agent, raised in configuration.raised():
            log.warning("agent %s: %s", agent, raised)
        self._version = configuration.version
        self._apply(configuration)

    def _look(self) -> tuple[int, int] | None:
        if self._path is None:
            return None
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
