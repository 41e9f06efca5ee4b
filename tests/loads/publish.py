"""Publishes messages as a runner would, without the runner library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer

__all__ = ["Publisher", "keyed", "publisher"]

Message = tuple[bytes, bytes]


def keyed(events: Iterable[dict[str, Any]]) -> list[Message]:
    """Events as messages, by root run or run."""
    return [((event.get("root_run_id") or event["run_id"]).encode(), json.dumps(event).encode()) for event in events]


class Publisher:
    """Sends to one topic."""

    def __init__(self, producer: AIOKafkaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    async def send(self, messages: Iterable[Message]) -> None:
        """Sends messages in order and waits until all are acknowledged."""
        sent = [await self._producer.send(self._topic, value, key=key) for key, value in messages]
        for one in sent:
            await one


@asynccontextmanager
async def publisher(bootstrap: str, topic: str) -> AsyncIterator[Publisher]:
    """A publisher of a topic."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=2)
    await producer.start()
    try:
        yield Publisher(producer, topic)
    finally:
        await producer.stop()
