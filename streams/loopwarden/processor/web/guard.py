"""Who may read: the token, the host that was asked for, and headers that keep a browser from doing more than show."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

__all__ = ["OPEN_PATHS", "guard"]

OPEN_PATHS = frozenset(["/", "/page.js", "/page.css", "/healthz", "/readyz"])
"""The empty page, which asks for the token, and what an orchestrator's probes call: nothing about any run."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def guard(token: str | None, hosts: Collection[str]) -> Middleware:
    """Makes the middleware.

    Args:
        token: Bearer token; None lets everybody read who reaches the port.
        hosts: Host names, beside addresses and names without a dot, under which the worker is asked. Without a token
            others are refused: a web page elsewhere could have its own name point here (DNS rebinding) and read.
    """
    expected = None if token is None else token.encode()
    known = {host.lower() for host in hosts}

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        response: web.StreamResponse
        if request.path not in OPEN_PATHS and (refusal := refused(request)) is not None:
            response = refusal
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                # Its default body is HTML.
                response = web.json_response({"error": error.reason}, status=error.status)
        response.headers.update(_HEADERS)
        return response

    def refused(request: web.Request) -> web.Response | None:
        if expected is not None:
            scheme, _, given = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), expected):
                return None
            answer = web.json_response({"error": "a token is needed: Authorization: Bearer …"}, status=401)
            answer.headers["WWW-Authenticate"] = "Bearer"
            return answer
        if _host_name(request.host) in known or _is_near(_host_name(request.host)):
            return None
        return web.json_response({"error": "asked for under a host name that is not this worker's"}, status=403)

    return middleware


def _host_name(host: str) -> str:
    name = host.lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def _is_near(name: str) -> bool:
    """An address, or a name without a dot: nobody outside can have either point here."""
    if "." not in name and ":" not in name:
        return bool(name)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
