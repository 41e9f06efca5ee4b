"""A known poll whose answer does not change (rule 5, third and fourth row)."""

from __future__ import annotations

from loopwarden.detection.documented.detectors.finding import Finding, Look
from loopwarden_schemas.configuration import DocumentedSettings

__all__ = ["DETECTOR", "check"]

DETECTOR = "known_poll_no_progress"


def check(look: Look, settings: DocumentedSettings) -> Finding | None:
    """Critical from ``criticalThreshold`` unchanged answers on, a warning from ``warningThreshold`` on."""
    count = look.streak
    if not (look.poll and settings.known_poll) or count < settings.warning:
        return None
    key = ("poll", look.tool, look.signature, look.outcome)
    if count >= settings.critical:
        message = (
            f"CRITICAL: {look.tool} was polled {count} times with identical arguments and no progress. "
            "This is a stuck polling loop; the call is blocked."
        )
        return Finding("critical", DETECTOR, count, message, key)
    message = (
        f"WARNING: {look.tool} was polled {count} times and the answer never changed. "
        "Wait longer between checks, or report failure."
    )
    return Finding("warning", DETECTOR, count, message, key)
