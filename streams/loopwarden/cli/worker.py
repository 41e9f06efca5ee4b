"""``loopwarden worker``: the Faust worker."""

from __future__ import annotations

import os

import click

from loopwarden.cli.options import broker_options, config_option

__all__ = ["command"]


@click.command("worker")
@config_option
@broker_options
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Partitions of every topic: fixed for life. [8]")
@click.option(
    "--replication-factor", type=int, help="Copies of topics that are created; the broker's default. 3 in production."
)
@click.option("--standby-replicas", type=click.IntRange(0, 10), help="Workers with a warm copy of each partition. [0]")
@click.option("--instance-id", metavar="NAME", help="Stable name: a quick restart causes no rebalance.")
@click.option(
    "--session-timeout", type=float, metavar="SECONDS", help="Without a heartbeat for so long it is dead. [30]"
)
@click.option("--host", metavar="ADDRESS", help="Where page, metrics and health are served. [127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), help="Its port. [a free one]")
@click.option("--advertised-url", metavar="URL", help="Under which other workers reach the page.")
@click.option("--create-topics/--no-create-topics", default=None, help="Create topics that are missing. [create]")
@click.option("--accept-state-loss", is_flag=True, default=None, help="Go on although the tables do not fit the log.")
@click.option("--log-level", type=click.Choice(["DEBUG", "INFO", "WARNING"]), default="INFO", show_default=True)
@click.option("--log-json/--log-text", default=None, help="By default JSON unless standard error is a terminal.")
def command(
    config: str | None,
    broker: str | None,
    topic_prefix: str,
    partitions: int | None,
    replication_factor: int | None,
    standby_replicas: int | None,
    instance_id: str | None,
    session_timeout: float | None,
    host: str | None,
    port: int | None,
    advertised_url: str | None,
    create_topics: bool | None,
    accept_state_loss: bool | None,
    log_level: str,
    log_json: bool | None,
) -> int:
    """Run a worker until SIGTERM: it folds the events and publishes the verdicts.

    Every option can stand in the environment: LOOPWARDEN_CONFIG, LOOPWARDEN_PARTITIONS, LOOPWARDEN_WEB_PORT and so on;
    the page's token only there (LOOPWARDEN_WEB_TOKEN). SIGHUP reads the configuration again.
    """
    from loopwarden.logs import configure_logging
    from loopwarden.processor.settings import WorkerSettings
    from loopwarden.processor.worker import run_worker

    configure_logging(json=log_json, level=log_level)
    settings = WorkerSettings.from_environment(
        os.environ,
        config=config,
        broker=broker,
        topic_prefix=topic_prefix,
        partitions=partitions,
        replication_factor=replication_factor,
        standby_replicas=standby_replicas,
        instance_id=instance_id,
        session_timeout_s=session_timeout,
        web_host=host,
        web_port=port,
        advertised_url=advertised_url,
        create_topics=create_topics,
        accept_state_loss=accept_state_loss,
    )
    return run_worker(settings)
