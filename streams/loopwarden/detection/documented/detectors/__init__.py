"""The detectors, one file a rule, and their precedence: the first that finds something decides (rule 5)."""

from __future__ import annotations

from collections.abc import Callable

from loopwarden.detection.documented.detectors import (
    circuit_breaker,
    generic_repeat,
    known_poll,
    ping_pong,
    unknown_tool,
)
from loopwarden.detection.documented.detectors.finding import Finding, Look
from loopwarden.detection.documented.history import History
from loopwarden_schemas.configuration import DocumentedSettings

__all__ = ["PRECEDENCE", "Finding", "Look", "detect"]

PRECEDENCE: tuple[Callable[[Look, DocumentedSettings], Finding | None], ...] = (
    unknown_tool.check,
    circuit_breaker.check,
    known_poll.check,
    ping_pong.check,
    generic_repeat.check,
)


def detect(history: History, tool: str, signature: bytes, poll: bool, settings: DocumentedSettings) -> Finding | None:
    """Judges a call against the history before it (rule 5).

    Args:
        history: The run's ring; the call itself is not in it.
        tool: Tool of the call.
        signature: Signature of the call.
        poll: It is a known poll.
        settings: Effective settings.
    """
    if not settings.enabled:
        return None
    repeats = history.signatures.count(signature)
    # Nearly all calls are new or seldom: a streak is no longer than the repeats, and half of an alternation is repeats.
    if repeats < (settings.warning - 1) // 2 or not repeats:
        if not history.missing or not history.missing[-1]:
            return None
        return unknown_tool.check(Look(history, tool, signature, poll, repeats, 0, b""), settings)
    streak, outcome = history.no_progress(signature)
    look = Look(history, tool, signature, poll, repeats, streak, outcome)
    for check in PRECEDENCE:
        finding = check(look, settings)
        if finding is not None:
            return finding
    return None
