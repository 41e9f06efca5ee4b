"""Profile ``progress``: asks whether a run still learns anything (progress, 1)."""

from __future__ import annotations

from loopwarden.detection.progress.profile import ProgressProfile

__all__ = ["ProgressProfile"]
