"""The Faust app, put together. ``create_app`` is the one way to make one; ``faust_app`` makes it for ``faust -A``."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import Any

import faust
from faust.types import TP

from loopwarden.broker.capabilities import Capabilities
from loopwarden.processor.batches import BatchProcessor
from loopwarden.processor.errors import PartitionLost
from loopwarden.processor.health import Health
from loopwarden.processor.observer import Observer, Silent
from loopwarden.processor.partitions import Partitions
from loopwarden.processor.preflight import fit
from loopwarden.processor.settings import WorkerSettings
from loopwarden.processor.tables import ChangelogTable, ChunkTableManager
from loopwarden.processor.transport import ChunkSchema, ChunkTransport
from loopwarden_schemas.configuration import Configuration

__all__ = ["LoopWardenApp", "create_app"]

_faust_log = logging.getLogger("faust.loopwarden")

log = logging.getLogger(__name__)

CHUNKS_PER_STREAM = 16
CHUNKS_PER_TOPIC = 3
_HEARTBEATS_PER_SESSION = 5
_HOUSEKEEPING_S = 1.0


class LoopWardenApp(faust.App):  # type: ignore[misc]
    """The worker's Faust app.

    Attributes:
        settings: What it was started with.
        partitions: Its partitions.
        processor: What processes their chunks.
        observer: What counts.
        health: Whether it is well.
        failure: Why it stopped, if it did by itself.
    """

    logger = _faust_log

    def __init__(
        self, settings: WorkerSettings, capabilities: Capabilities, observer: Observer, **options: Any
    ) -> None:
        self.settings = settings
        self.observer = observer
        self.failure: BaseException | None = None
        self._rebalance_began: float | None = None
        self.partitions = Partitions(settings, capabilities, self._forget, observer)
        self.processor = BatchProcessor(settings, self.partitions, observer, expiry=capabilities.append_time)
        self.health = Health(self, stall_timeout_s=settings.stall_timeout_s)
        super().__init__(settings.topics.app_id, **options)

    def _new_transport(self) -> ChunkTransport:
        transport = ChunkTransport(self.conf.broker_consumer, self)
        transport.fetch_max_wait_ms = self.settings.fetch_max_wait_ms
        return transport

    def _new_producer_transport(self) -> ChunkTransport:
        return ChunkTransport(self.conf.broker_producer, self)

    def _create_directories(self) -> None:
        """Nothing lies on disk: tables are rebuilt from their changelogs."""

    def _forget(self, tp: TP) -> None:
        self.tables.recovery.revoke(tp)
        self.observer.partition_lost(tp.partition)

    def on_rebalance_start(self) -> None:
        """Called when a rebalance begins."""
        self._rebalance_began = time.monotonic()
        super().on_rebalance_start()

    def on_rebalance_end(self) -> None:
        """Called when a rebalance, recovery included, is over."""
        super().on_rebalance_end()
        if self._rebalance_began is not None:
            self.observer.rebalanced(time.monotonic() - self._rebalance_began)
            self._rebalance_began = None

    async def on_start(self) -> None:
        """Connects the writers before the group can hand out partitions."""
        await self.partitions.start()
        await super().on_start()

    async def on_stop(self) -> None:
        """Commits what is finished and disconnects."""
        await super().on_stop()
        await self.partitions.stop()

    def reconfigure(self, configuration: Configuration) -> None:
        """Takes a changed configuration."""
        self.partitions.reconfigure(configuration)
        self.observer.reconfigured(configuration)

    def fail(self, error: BaseException) -> None:
        """Stops the worker: what went wrong must not be skipped. Whoever starts it again goes on where it stood."""
        if self.failure is None:
            self.failure = error
            log.error("stopping: %s", error, exc_info=None if str(error) else error)
            task = asyncio.ensure_future(self.crash(error))
            self._failing = task

    # -- what health looks at

    def total_lag(self) -> int:
        """Records in the log beyond the applied watermarks."""
        topic = self.settings.topics.events
        total = 0
        for partition in self.partitions.active():
            highwater = self.consumer.highwater(TP(topic, partition.number))
            if highwater is not None:
                total += max(0, highwater - self.partitions.start_offset(partition.number))
        return total

    def finished_at(self) -> float:
        """When a batch was last finished, ``time.monotonic()``."""
        return self.processor.finished_at

    def is_assigned(self) -> bool:
        """Whether the group has given an assignment."""
        return bool(self.consumer_generation_id >= 0 and self.tables.recovery.completed.is_set())

    def is_recovered(self) -> bool:
        """Whether all tables of active partitions are restored."""
        return all(partition.ready for partition in self.partitions.active())

    def is_rebalancing(self) -> bool:
        """Whether a rebalance is going on."""
        return bool(self.rebalancing)


def create_app(
    settings: WorkerSettings,
    capabilities: Capabilities,
    observer: Observer | None = None,
    *,
    url: str | None = None,
) -> LoopWardenApp:
    """Makes the app.

    Args:
        settings: What the worker is started with.
        capabilities: What its broker can do (``preflight``).
        observer: Told of what happens; nobody by default.
        url: Address of this worker's page, which the group's metadata tells the others.
    """
    settings = fit(settings, capabilities)
    topics = settings.topics
    session = settings.session_timeout_s
    app = LoopWardenApp(
        settings,
        capabilities,
        observer or Silent(),
        broker=[f"kafka://{server}" for server in settings.connection.bootstrap.split(",")],
        broker_credentials=_credentials(settings),
        # Chunks reach streams and recovery as they are; the rows are kept by `partitions`.
        store="memory://",
        Table=ChangelogTable,
        TableManager=ChunkTableManager,
        # Topics are created and checked by ourselves, with their retention and partition count.
        topic_partitions=topics.partitions,
        topic_disable_leader=True,
        table_standby_replicas=settings.standby_replicas,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=settings.instance_id,
        broker_session_timeout=session,
        broker_heartbeat_interval=session / _HEARTBEATS_PER_SESSION,
        broker_rebalance_timeout=max(session, 10.0) if capabilities.wakes_fetches else session,
        broker_request_timeout=max(40.0, session + 5.0),
        broker_commit_interval=settings.commit_interval_s,
        broker_max_poll_records=settings.max_poll_records,
        consumer_max_fetch_size=1 << 20,
        # Buffers count chunks here, not messages.
        stream_buffer_maxsize=CHUNKS_PER_STREAM,
        # A rebalance waits for the batches in hand: they are short, and bounded by the delivery time-out.
        stream_wait_empty=True,
        stream_recovery_delay=0.0,
        # Faust complains about quiet partitions otherwise; `health` knows better.
        stream_processing_timeout=3600.0,
        broker_commit_livelock_soft_timeout=3600.0,
        # Ours serves loopback, and shows no table.
        web_enabled=False,
        # Faust keeps what members hold by this address: it must be another one for each.
        canonical_url=url or f"page-of://{uuid.uuid4().hex}",
        worker_redirect_stdouts=False,
    )
    source = app.topic(
        topics.events,
        schema=ChunkSchema(key_type=bytes, value_type=bytes),
        partitions=topics.partitions,
        maxsize=CHUNKS_PER_TOPIC,
    )
    for name, changelog in (
        ("history-ring", topics.history_ring),
        ("post-compaction-window", topics.post_compaction_window),
    ):
        app.Table(
            name,
            partitions=topics.partitions,
            changelog_topic=app.topic(
                changelog,
                schema=ChunkSchema(key_type=bytes, value_type=bytes),
                partitions=topics.partitions,
                compacting=True,
                internal=True,
            ),
        )

    @app.agent(source, name="detect", isolated_partitions=True)  # type: ignore[untyped-decorator]
    async def detect(stream: Any) -> None:
        async for event in stream.noack().events():
            try:
                await app.processor.process(event.message.partition, event.value)
            except PartitionLost:
                log.info("partition %d went to another worker; its batch is dropped", event.message.partition)
            except Exception as error:
                # Raised here, it would stop this partition for good while the worker lives on.
                app.fail(error)
            finally:
                await stream.ack(event)

    @app.task  # type: ignore[untyped-decorator]
    async def housekeeping() -> None:
        while not app.should_stop:
            await app.sleep(_HOUSEKEEPING_S)
            try:
                await app.partitions.refresh_barriers()
            except Exception as error:
                app.fail(error)
            for partition in app.partitions.active():
                app.observer.lag(partition.number, app.consumer.lag(TP(topics.events, partition.number)))

    return app


def _credentials(settings: WorkerSettings) -> Any:
    connection = settings.connection
    context = connection.ssl_context()
    if connection.sasl_mechanism == "OAUTHBEARER":
        return faust.auth.OAuthCredentials(oauth_cb=connection.provider(), ssl_context=context)
    if connection.sasl:
        return faust.SASLCredentials(
            username=connection.username,
            password=connection.password,
            mechanism=connection.sasl_mechanism,
            ssl_context=context,
        )
    return None if context is None else faust.SSLCredentials(context)
