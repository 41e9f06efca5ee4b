"""Faust's transport with our consumer; what a stream gets is a chunk, untouched."""

from __future__ import annotations

import logging
from typing import Any

from faust.serializers.schemas import Schema
from faust.transport.drivers import aiokafka as driver

from loopwarden.processor.consumer import ChunkConsumer

__all__ = ["ChunkSchema", "ChunkTransport"]

_faust_log = logging.getLogger("faust.loopwarden")


class ChunkSchema(Schema):  # type: ignore[misc]
    """Hands key and value through: records are decoded by the fold, each in its own try."""

    def loads_key(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> Any:
        """The key as it is."""
        return message.key

    def loads_value(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> Any:
        """The chunk as it is."""
        return message.value


class _Producer(driver.Producer):  # type: ignore[misc]
    """Faust's own producer, which nothing is sent with: see ``writer``."""

    logger = _faust_log

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: topics are created, and checked, by ``broker.topics_admin``."""


class ChunkTransport(driver.Transport):  # type: ignore[misc]
    """Transport of chunks.

    Attributes:
        fetch_max_wait_ms: How long a fetch waits for new records, in milliseconds.
    """

    Consumer = ChunkConsumer
    Producer = _Producer
    fetch_max_wait_ms = 500
