"""The worker's web: metrics, health checks, and a page for the fleet and for one run."""

from __future__ import annotations

from loopwarden.processor.web.activity import Activity
from loopwarden.processor.web.inspection import Deed, FoundRun, HealthCheck, Inspection, PastRun, Rate, Records, Sizes
from loopwarden.processor.web.server import create_web

__all__ = [
    "Activity",
    "Deed",
    "FoundRun",
    "HealthCheck",
    "Inspection",
    "PastRun",
    "Rate",
    "Records",
    "Sizes",
    "create_web",
]
