"""Before a worker joins the group: is the broker there, what can it do, are the topics as they must be?"""

from __future__ import annotations

import asyncio
import dataclasses
import logging

from loopwarden.broker.capabilities import Capabilities, probe_capabilities
from loopwarden.broker.topics_admin import ensure_topics
from loopwarden.processor.settings import WorkerSettings

__all__ = ["fit", "preflight", "run_preflight"]

log = logging.getLogger(__name__)

_EMBEDDED_SESSION_S = 6.0
_EMBEDDED_FETCH_WAIT_MS = 20


async def preflight(settings: WorkerSettings) -> Capabilities:
    """Checks broker and topics, creates missing topics, and says what is off.

    Raises:
        TopicMismatch: A topic is missing or not as it must be; the message says what to do.
        BrokerError: The broker cannot be reached or refuses.
    """
    await ensure_topics(
        settings.connection,
        settings.topics.specs(),
        replication_factor=settings.replication_factor,
        create=settings.create_topics,
    )
    capabilities = await probe_capabilities(settings.connection)
    if not capabilities.producer_ids:
        log.warning("this broker hands out no producer ids: nothing fences a second writer, and idle runs never expire")
    if settings.configuration.is_off:
        log.warning(
            "the detectors are OFF for every agent: that is the documented default without a configuration; "
            "set tools.loopDetection.enabled: true in the file given by --config"
        )
    for agent, raised in settings.configuration.raised():
        log.warning("agent %s: %s", agent, raised)
    return capabilities


def fit(settings: WorkerSettings, broker: Capabilities) -> WorkerSettings:
    """The settings that suit the broker: the embedded one wakes no waiting fetch, and holds a group's first join."""
    if broker.wakes_fetches:
        return settings
    return dataclasses.replace(
        settings,
        session_timeout_s=min(settings.session_timeout_s, _EMBEDDED_SESSION_S),
        fetch_max_wait_ms=_EMBEDDED_FETCH_WAIT_MS,
    )


def run_preflight(settings: WorkerSettings) -> Capabilities:
    """``preflight`` where no event loop runs."""
    return asyncio.run(preflight(settings))
