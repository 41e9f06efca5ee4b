"""``loopwarden up``: broker, topics and worker on this machine."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack
from importlib.resources import files

import click

from loopwarden.cli.options import config_option
from loopwarden.cli.output import printable

__all__ = ["command"]

_POLL_S = 0.5


@click.command("up")
@config_option
@click.option("--topic-prefix", envvar="LOOPWARDEN_TOPIC_PREFIX", default="", metavar="PREFIX")
@click.option("--broker", metavar="HOST:PORT", help="This cluster instead of the embedded broker. [LOOPWARDEN_BROKER]")
@click.option("--broker-port", type=click.IntRange(1, 65535), help="Port of the embedded broker. [a free one]")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of page and metrics. [a free one]")
@click.option("--partitions", type=click.IntRange(1, 10_000), help="Partitions of every topic. [8]")
def command(
    config: str | None,
    topic_prefix: str,
    broker: str | None,
    broker_port: int | None,
    port: int | None,
    partitions: int | None,
) -> int:
    """Start a broker (in memory: nothing survives), its topics and a worker, and stay until Ctrl-C.

    The documented detectors are on, with their defaults, unless --config names a file.
    """
    from loopwarden.broker.embedded import EmbeddedBroker
    from loopwarden.worker_child import WorkerChild

    broker = broker or os.environ.get("LOOPWARDEN_BROKER")
    # In good order also when a supervisor stops it, and when it was started in the background, where a shell has Ctrl-C
    # ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with ExitStack() as stack:
        embedded = None
        if broker is None:
            embedded = stack.enter_context(EmbeddedBroker(port=broker_port))
        bootstrap = embedded.bootstrap if embedded else str(broker)
        worker = stack.enter_context(
            WorkerChild(
                bootstrap,
                topic_prefix=topic_prefix,
                config=config or str(files("loopwarden").joinpath("data", "on.yaml")),
                partitions=partitions,
                port=port,
                session_timeout_s=6.0 if embedded else None,
            )
        )
        click.echo(f"broker    {bootstrap}" + (" (embedded, in memory)" if embedded else ""))
        worker.wait_ready()
        click.echo(f"page      {worker.url}/\nmetrics   {worker.url}/metrics")
        click.echo(f"runners   LOOPWARDEN_BROKER={bootstrap}")
        click.echo(f"verdicts  loopwarden tail --broker {bootstrap} {_prefix(topic_prefix)}\nCtrl-C stops it.".strip())
        while True:
            worker.check()
            if embedded is not None and not embedded.running:
                click.echo(printable(embedded.describe_exit()), err=True)
                return 3
            time.sleep(_POLL_S)


def _prefix(topic_prefix: str) -> str:
    return f"--topic-prefix {topic_prefix}" if topic_prefix else ""
