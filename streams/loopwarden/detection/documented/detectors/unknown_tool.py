"""A tool that does not exist is called again and again (rules 5.1 and 5, first row)."""

from __future__ import annotations

from loopwarden.detection.documented.detectors.finding import Finding, Look
from loopwarden_schemas.configuration import DocumentedSettings

__all__ = ["DETECTOR", "check"]

DETECTOR = "unknown_tool_repeat"


def check(look: Look, settings: DocumentedSettings) -> Finding | None:
    """Critical from ``unknownToolThreshold`` misses in a row on; no switch turns it off."""
    count, name = look.history.unknown_tool(look.tool)
    if count < settings.unknown_tool:
        return None
    message = (
        f"CRITICAL: the tool {name} does not exist and was called {count} times in a row. "
        "Stop retrying it and answer without it."
    )
    return Finding("critical", DETECTOR, count, message, ("unknown-tool", look.tool, name))
