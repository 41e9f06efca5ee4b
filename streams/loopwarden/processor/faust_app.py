"""For ``faust -A loopwarden.processor.faust_app worker``: the app, made from the environment when it is imported."""

from __future__ import annotations

import os

from loopwarden.processor.app import create_app
from loopwarden.processor.preflight import run_preflight
from loopwarden.processor.settings import WorkerSettings

__all__ = ["app"]

_settings = WorkerSettings.from_environment(os.environ)
app = create_app(_settings, run_preflight(_settings))
