"""Two calls that take turns (rules 5.3 and 5, fifth and sixth row)."""

from __future__ import annotations

from loopwarden.detection.documented.detectors.finding import Finding, Look
from loopwarden_schemas.configuration import DocumentedSettings

__all__ = ["DETECTOR", "check"]

DETECTOR = "ping_pong"


def check(look: Look, settings: DocumentedSettings) -> Finding | None:
    """Critical from ``criticalThreshold`` on where neither side brings news, else a warning; the call itself counts."""
    if not settings.ping_pong:
        return None
    found = look.history.alternation(look.signature)
    if found is None or found.count < settings.warning:
        return None
    key = ("pingpong", *sorted((look.signature, found.signature)))
    if found.count >= settings.critical and found.stable:
        message = (
            f"CRITICAL: {found.count} consecutive calls alternate between {look.tool} and {found.tool} with no "
            "progress. This is a ping-pong loop; the call is blocked."
        )
        return Finding("critical", DETECTOR, found.count, message, key, found.tool)
    message = (
        f"WARNING: {found.count} consecutive calls alternate between {look.tool} and {found.tool}. "
        "This looks like a ping-pong loop; stop it and report failure."
    )
    return Finding("warning", DETECTOR, found.count, message, key, found.tool)
