"""``loopwarden acl``: the access rules, as commands of Apache Kafka's own tool."""

from __future__ import annotations

import click

from loopwarden.cli.options import broker_options, connection_of

__all__ = ["command"]


@click.command("acl")
@broker_options
@click.argument("role", type=click.Choice(["runner", "worker", "reader", "operator"]))
@click.argument("principal")
@click.option("--create-topics", is_flag=True, help="The worker may create the topics that are missing.")
def command(broker: str | None, topic_prefix: str, role: str, principal: str, create_topics: bool) -> int:
    """Print what an administrator runs so that PRINCIPAL (such as User:agents) may do a ROLE's work, and no more.

    runner: publish events, follow verdicts. worker: the only one that writes verdicts. reader: tail, explain, replay.
    operator: what readers may, release, doctor.
    """
    from loopwarden.broker.access import ROLES, access_rules, acl_commands
    from loopwarden.errors import UsageError
    from loopwarden_schemas.topics import Topics

    if not principal.partition(":")[2]:
        raise UsageError(f"principal {principal!r} is not KIND:NAME", hint="such as User:agents")
    (known,) = (name for name in ROLES if name == role)
    rules = access_rules(Topics(topic_prefix), known, principal, create_topics=create_topics)
    for line in acl_commands(connection_of(broker).bootstrap, rules):
        click.echo(line)
    return 0
