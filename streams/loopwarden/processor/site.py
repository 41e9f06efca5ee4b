"""Where the worker's page is served: the socket is bound before the group is joined, so that its address is known."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp import web

from loopwarden.errors import UsageError
from loopwarden.processor.settings import WorkerSettings

__all__ = ["Site"]

_SHUTDOWN_S = 1.0


class Site:
    """The page's address, and its server.

    Attributes:
        url: Address under which this worker's page is reached, by people and by other workers.

    Args:
        settings: Host, port (0 is a free one) and advertised address.

    Raises:
        UsageError: The address cannot be listened on.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        host, port = settings.web_host, settings.web_port or 0
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise UsageError(
                f"the page cannot be served on {host}:{port}: {error.strerror or error}",
                hint="choose another with --web-port; 0 takes a free one",
            ) from None
        bound: int = self._socket.getsockname()[1]
        self.url = settings.advertised_url or f"http://{_reachable(host)}:{bound}"
        self._runner: web.AppRunner | None = None

    @property
    def hosts(self) -> list[str]:
        """The host name of its address."""
        name = urlsplit(self.url).hostname
        return [name] if name else []

    async def start(self, app: web.Application) -> None:
        """Serves."""
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, shutdown_timeout=_SHUTDOWN_S).start()

    async def stop(self) -> None:
        """Stops serving."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._socket.close()


def _reachable(host: str) -> str:
    """The host as others may call it: an address that means "all of mine" is none."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return socket.gethostname()
    return f"[{host}]" if address.version == 6 else host
