"""The same call again and again (rules 5.4 and 5, seventh and eighth row)."""

from __future__ import annotations

from loopwarden.detection.documented.detectors.finding import Finding, Look
from loopwarden_schemas.configuration import DocumentedSettings

__all__ = ["DETECTOR", "check"]

DETECTOR = "generic_repeat"


def check(look: Look, settings: DocumentedSettings) -> Finding | None:
    """Critical by identical outcomes, a warning by repeats alone; never for a known poll."""
    if look.poll or not settings.generic_repeat:
        return None
    if look.streak >= settings.critical:
        message = (
            f"CRITICAL: {look.tool} was called {look.streak} times with identical arguments and identical outcomes. "
            "The call is blocked; do something else or report failure."
        )
        key = ("generic", look.tool, look.signature, look.outcome)
        return Finding("critical", DETECTOR, look.streak, message, key)
    if look.repeats >= settings.warning:
        message = (
            f"WARNING: {look.tool} was called {look.repeats} times with identical arguments. "
            "If this brings no progress, stop and do something else."
        )
        return Finding("warning", DETECTOR, look.repeats, message, ("generic", look.tool, look.signature))
    return None
