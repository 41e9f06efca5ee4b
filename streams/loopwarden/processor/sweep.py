"""The sweep: frees memory of runs that idled out. It decides nothing: the fold takes such a run for over anyway."""

from __future__ import annotations

from itertools import islice

from loopwarden.detection import kin
from loopwarden.processor.partitions import Partition
from loopwarden_schemas.configuration import Configuration

__all__ = ["Sweep"]

SLICE = 200
"""Rows looked at per batch, so that no batch waits for a whole table."""
PAUSE_MS = 60_000
"""Stream time between two passes over a partition, in milliseconds."""


class Sweep:
    """Looks through the rows of each partition, a slice per batch."""

    def __init__(self) -> None:
        self._keys: dict[int, tuple[Partition, list[bytes]]] = {}
        self._passed: dict[int, int] = {}

    def expired(self, partition: Partition, stream_time: int, configuration: Configuration) -> list[bytes]:
        """Keys of runs in the next slice that were idle for longer than their agent's settings allow.

        Args:
            partition: The partition.
            stream_time: Its stream time after the batch, epoch milliseconds.
            configuration: Whose time-outs hold.
        """
        if stream_time <= 0:
            return []
        owner, keys = self._keys.get(partition.number, (None, []))
        if owner is not partition or not keys:
            if owner is partition and stream_time - self._passed.get(partition.number, 0) < PAUSE_MS:
                return []
            keys = list(partition.rows.items())
            self._keys[partition.number] = (partition, keys)
            self._passed[partition.number] = stream_time
        found: list[bytes] = []
        for key in islice(iter(keys.pop, None), min(SLICE, len(keys))):
            row = partition.rows.history(key)
            seen = None if row is None else kin.peek(key, row)
            if seen is None:
                continue
            limit = configuration.settings_for(seen.agent_id or None).idle_timeout_ms
            if limit and stream_time - seen.last_time > limit:
                found.append(key)
        return found
