"""Reads runs up in the topics for the worker's page: implements ``web.Records``."""

from __future__ import annotations

from collections.abc import Sequence

from loopwarden.explain import explain
from loopwarden.processor.app import LoopWardenApp
from loopwarden.processor.web import PastRun
from loopwarden.replay import Span
from loopwarden_schemas.configuration import Configuration

__all__ = ["Past"]


class Past:
    """The topics of a worker's deployment.

    Args:
        app: Its app.
        expiry: Idle runs end (the broker stamps records itself).
    """

    def __init__(self, app: LoopWardenApp, *, expiry: bool) -> None:
        self._app = app
        self._expiry = expiry

    async def __call__(self, run_id: str, partition: int | None) -> PastRun | None:
        """Reads up on a run."""
        settings = self._app.settings
        return await explain(settings.connection, settings.topics, run_id, partition, self._spans, expiry=self._expiry)

    def _spans(self, number: int) -> Sequence[Span]:
        """What a partition was folded under, where it is ours; else the present configuration stands for it."""
        partition = self._app.partitions.get(number)
        rows = partition.rows.configurations() if partition is not None and partition.ready else []
        known = [Span(row.first_offset, Configuration.from_text(row.text)) for row in rows]
        return known or [Span(0, self._app.partitions.configuration)]
