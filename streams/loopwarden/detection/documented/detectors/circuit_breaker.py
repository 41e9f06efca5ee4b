"""The global breaker: one call, one outcome, however often (rule 5, second row)."""

from __future__ import annotations

from loopwarden.detection.documented.detectors.finding import Finding, Look
from loopwarden_schemas.configuration import DocumentedSettings

__all__ = ["DETECTOR", "check"]

DETECTOR = "global_circuit_breaker"


def check(look: Look, settings: DocumentedSettings) -> Finding | None:
    """Critical from ``globalCircuitBreakerThreshold`` identical outcomes on; no switch turns it off."""
    if look.streak < settings.circuit_breaker:
        return None
    message = (
        f"CRITICAL: {look.tool} has {look.streak} identical no-progress outcomes. "
        "The global circuit breaker blocks its execution."
    )
    return Finding("critical", DETECTOR, look.streak, message, ("global", look.tool, look.signature, look.outcome))
