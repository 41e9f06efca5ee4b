"""What Faust knows of our two tables: their changelogs, how far they are read, and when a recovery is over.

Faust assigns, seeks and reads the changelogs; the rows themselves are in ``partitions``, as bytes, and are written by
the partition's writer. A Faust table would write a record per event and forget nothing it wrote itself (design: traps).
"""

from __future__ import annotations

import logging
from typing import Any

import faust
from faust.tables.manager import TableManager
from faust.tables.recovery import Recovery
from faust.types import TP

from loopwarden.processor.transport import ChunkSchema

__all__ = ["ChangelogTable", "ChunkTableManager"]

_faust_log = logging.getLogger("faust.loopwarden")

BUFFERED_CHUNKS = 4
"""Chunks that recovery collects before it applies them. With 1 the owner would read its own changelog for ever."""


class ChangelogTable(faust.Table):  # type: ignore[misc]
    """A changelog topic whose rows ``partitions`` holds."""

    logger = _faust_log

    def __init__(self, app: Any, **options: Any) -> None:
        options.setdefault("schema", ChunkSchema(key_type=bytes, value_type=bytes))
        options.setdefault("recovery_buffer_size", BUFFERED_CHUNKS)
        super().__init__(app, **options)

    def persisted_offset(self, tp: TP) -> int | None:
        """Last offset read from, or written to, a partition of the changelog."""
        offset: int | None = self.app.partitions.last_read(tp.topic, tp.partition)
        return offset

    def apply_changelog_batch(self, batch: Any) -> None:
        """Applies chunks. Each goes where its topic says: Faust hands late ones to the table of the event before."""
        for event in batch:
            message = event.message
            try:
                self.app.partitions.load(message.topic, message.partition, message.value)
            except Exception as error:
                # Recovery logs and goes on whatever is raised here: a table with a hole must not.
                self.app.fail(error)

    async def on_recovery_completed(self, active_tps: set[TP], standby_tps: set[TP]) -> None:
        """Calls the callbacks; the rows need no completion of their own, see ``ChunkRecovery``."""
        await self.call_recover_callbacks()


class ChunkRecovery(Recovery):  # type: ignore[misc]
    """Recovery that checks the tables against the log before the first event is folded."""

    logger = _faust_log

    async def on_recovery_completed(self, generation_id: int = 0) -> None:
        """Called when both changelogs of all active partitions are read."""
        self.flush_buffers()
        if self.app.consumer_generation_id == generation_id:
            try:
                await self.app.partitions.recovered(self.app.consumer)
            except Exception as error:
                self.app.fail(error)
                return
        await super().on_recovery_completed(generation_id)


class ChunkTableManager(TableManager):  # type: ignore[misc]
    """Table manager that takes and loses partitions before Faust looks at its tables."""

    logger = _faust_log

    _recovery: Recovery | None

    @property
    def recovery(self) -> Recovery:
        """The recovery service."""
        if self._recovery is None:
            self._recovery = ChunkRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Starts recovery at once; stock waits a second."""
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()

    async def on_rebalance(
        self, assigned: set[TP], revoked: set[TP], newly_assigned: set[TP], generation_id: int = 0
    ) -> None:
        """Takes the new assignment: rows and writers first, so that recovery sees our barriers."""
        topic = self.app.settings.topics.history_ring
        active = {tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == topic}
        standby = {tp.partition for tp in self.app.assignor.assigned_standbys() if tp.topic == topic}
        member = await self.app.partitions.on_rebalance(self.app.consumer, generation_id, active, standby)
        if member:
            await super().on_rebalance(assigned, revoked, newly_assigned, generation_id)
