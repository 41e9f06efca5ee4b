"""Profile ``documented``: judges exactly as OpenClaw's ``tools.loopDetection`` (release 2026.7) does."""

from __future__ import annotations

from loopwarden.detection.documented.profile import DocumentedProfile

__all__ = ["DocumentedProfile"]
