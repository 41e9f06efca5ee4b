"""What a worker is started with. The only place of the processor that reads the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from loopwarden.connection import Connection
from loopwarden.errors import UsageError
from loopwarden_schemas.configuration import Configuration
from loopwarden_schemas.topics import Topics

__all__ = ["ENVIRONMENT", "WorkerSettings"]


@dataclass(frozen=True, kw_only=True)
class WorkerSettings:
    """Settings of one worker process.

    Attributes:
        connection: The cluster.
        topics: Names and partition count; the same for every worker of a deployment, fixed for life.
        configuration: What counts as a loop, per agent.
        configuration_path: File that it came from: read again on SIGHUP and when it changes.
        replication_factor: Replicas of topics that have to be created; -1 is the broker's default. 3 in production.
        standby_replicas: Workers that keep a warm copy of each partition's tables. 1 with two workers or more; each
            copy costs the memory of the partition once more.
        instance_id: Stable name of this worker: a restart within the session time-out causes no rebalance.
        session_timeout_s: Seconds without a heartbeat after which the group takes a worker for dead. 6 and more; on the
            embedded broker 6, because it holds the first join for half of it.
        commit_interval_s: Seconds between commits of finished offsets. A crash folds at most so much again.
        max_poll_records: Records per fetched chunk and turn. 4,000 measured better than 1,000.
        fetch_max_wait_ms: How long a fetch waits for new records; on the embedded broker 20, which wakes no fetch.
        delivery_timeout_s: Seconds after which an unacknowledged write stops the worker.
        drain_timeout_s: Seconds that SIGTERM may take, whatever the broker does.
        stall_timeout_s: Seconds with lag and without progress after which the worker is unhealthy.
        rejected_ratio: Share of rejected events, over the last ``rejected_window``, above which the worker stops; 1 is
            never.
        rejected_window: Number of events that the share is taken over.
        accept_state_loss: Go on although the tables do not belong to the log.
        create_topics: Create topics that are missing.
        web_host: Address that the page, metrics and health are served on. Loopback unless told otherwise.
        web_port: Its port; 0 is a free one, None serves nothing.
        web_token: Bearer token that the page and its data ask for.
        advertised_url: Address under which other workers reach this one's page.
    """

    connection: Connection
    topics: Topics = field(default_factory=Topics)
    configuration: Configuration = field(default_factory=Configuration)
    configuration_path: Path | None = None
    replication_factor: int = -1
    standby_replicas: int = 0
    instance_id: str | None = None
    session_timeout_s: float = 30.0
    commit_interval_s: float = 1.0
    max_poll_records: int = 4000
    fetch_max_wait_ms: int = 500
    delivery_timeout_s: float = 60.0
    drain_timeout_s: float = 25.0
    stall_timeout_s: float = 60.0
    rejected_ratio: float = 0.95
    rejected_window: int = 1000
    accept_state_loss: bool = False
    create_topics: bool = True
    web_host: str = "127.0.0.1"
    web_port: int | None = 0
    web_token: str | None = field(default=None, repr=False)
    advertised_url: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], **options: Any) -> Self:
        """Reads settings from environment variables (:data:`ENVIRONMENT`, and those of ``connection``).

        Args:
            environ: The environment.
            options: Settings that were given otherwise and win; None counts as not given. ``broker`` is the bootstrap
                address, ``config`` the path of the configuration file, ``topic_prefix`` and ``partitions`` make
                ``topics``.

        Raises:
            UsageError: A value that cannot be taken.
            ConfigurationError: The configuration file cannot be taken.
        """
        given = {name: value for name, value in options.items() if value is not None}
        for variable, (name, kind) in ENVIRONMENT.items():
            if variable in environ and name not in given:
                given[name] = _parse(variable, environ[variable], kind)
        broker = given.pop("broker", None)
        if "connection" not in given:
            extra = {} if broker is None else {"bootstrap": broker}
            given["connection"] = Connection.from_environment(environ, **extra)
        path = given.pop("config", None)
        if path is not None:
            given["configuration"] = Configuration.from_file(path)
            given["configuration_path"] = Path(path)
        prefix, partitions = given.pop("topic_prefix", ""), given.pop("partitions", None)
        if "topics" not in given:
            given["topics"] = Topics(prefix) if partitions is None else Topics(prefix, partitions)
        return cls(**given)


ENVIRONMENT: dict[str, tuple[str, type]] = {
    "LOOPWARDEN_CONFIG": ("config", str),
    "LOOPWARDEN_TOPIC_PREFIX": ("topic_prefix", str),
    "LOOPWARDEN_PARTITIONS": ("partitions", int),
    "LOOPWARDEN_REPLICATION_FACTOR": ("replication_factor", int),
    "LOOPWARDEN_STANDBY_REPLICAS": ("standby_replicas", int),
    "LOOPWARDEN_INSTANCE_ID": ("instance_id", str),
    "LOOPWARDEN_SESSION_TIMEOUT": ("session_timeout_s", float),
    "LOOPWARDEN_DELIVERY_TIMEOUT": ("delivery_timeout_s", float),
    "LOOPWARDEN_DRAIN_TIMEOUT": ("drain_timeout_s", float),
    "LOOPWARDEN_STALL_TIMEOUT": ("stall_timeout_s", float),
    "LOOPWARDEN_ACCEPT_STATE_LOSS": ("accept_state_loss", bool),
    "LOOPWARDEN_CREATE_TOPICS": ("create_topics", bool),
    "LOOPWARDEN_WEB_HOST": ("web_host", str),
    "LOOPWARDEN_WEB_PORT": ("web_port", int),
    "LOOPWARDEN_WEB_TOKEN": ("web_token", str),
    "LOOPWARDEN_ADVERTISED_URL": ("advertised_url", str),
}
"""Environment variable → setting and its type."""
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _parse(variable: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        raise UsageError(f"{variable}={text!r} is neither true nor false")
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{variable}={text!r} is not a number") from None
