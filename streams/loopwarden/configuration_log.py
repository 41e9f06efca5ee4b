"""Which configuration a deployment's partitions were folded under, and from which offset on (design: delivery, 7)."""

from __future__ import annotations

from loopwarden.connection import Connection
from loopwarden.processor.rows import CONFIG_PREFIX, ConfigRow, read_config_row
from loopwarden.replay import Span
from loopwarden.topic_reading import open_reader
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import Topics

__all__ = ["read_spans"]


async def read_spans(connection: Connection, topics: Topics) -> dict[int, list[Span]]:
    """Reads the configurations that the workers wrote into history-ring's changelog.

    Returns:
        Partition to its configurations, by first offset; nothing for a partition that no worker ever had.

    Raises:
        BrokerError: The cluster cannot be reached, or has no such changelog.
    """
    rows: dict[int, dict[bytes, ConfigRow]] = {}
    async with open_reader(connection, topics.history_ring) as reader:
        async for partition, records in reader.to_end():
            for record in records:
                if record.key is None or not record.key.startswith(CONFIG_PREFIX):
                    continue
                kept = rows.setdefault(partition, {})
                row = read_config_row(record.key, record.value)
                if row is None:
                    kept.pop(record.key, None)
                else:
                    kept[record.key] = row
    return {
        partition: [
            Span(row.first_offset, Configuration.from_text(row.text))
            for row in sorted(kept.values(), key=lambda row: row.first_offset)
        ]
        for partition, kept in rows.items()
        if kept
    }
