"""Who may do what on the cluster: the access rules (ACLs) of runners, workers, readers and operators, stated once.

Read and Write on a topic each imply Describe. Nobody needs anything on the cluster itself: an idempotent producer may
start wherever it may write (Kafka 3.0 and newer). Nobody but the worker may write verdicts, so a runner that is taken
over can publish nonsense of its own runs and nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from loopwarden_schemas.topics import Topics

__all__ = ["ROLES", "AccessRule", "Operation", "Resource", "Role", "access_rules", "acl_commands"]

Role = Literal["runner", "worker", "reader", "operator"]
Resource = Literal["topic", "group", "transactional-id"]
Operation = Literal["Read", "Write", "Create", "Delete", "DescribeConfigs"]

ROLES: Mapping[Role, str] = {
    "runner": "agent runners: publish events, follow verdicts; no group",
    "worker": "the stream processor: the only one that writes verdicts, dead letters and changelogs",
    "reader": "tail, explain, replay: read everything, write nothing",
    "operator": "what readers may, publish events (release), and try out a topic of their own (doctor)",
}
"""Role → who has it and for what."""


@dataclass(frozen=True)
class AccessRule:
    """What one principal may do with one resource, or with all whose names begin so.

    Attributes:
        principal: Such as ``User:agents``.
        resource: Kind of the resource.
        name: Its name, or the beginning of it.
        prefixed: ``name`` is a beginning.
        operations: What is allowed.
    """

    principal: str
    resource: Resource
    name: str
    operations: tuple[Operation, ...]
    prefixed: bool = False


def access_rules(topics: Topics, role: Role, principal: str, *, create_topics: bool = False) -> list[AccessRule]:
    """The rules of a role: exactly what it needs.

    Args:
        topics: The deployment.
        role: The role.
        principal: Who has it, such as ``User:agents``.
        create_topics: Whether a worker may create missing topics (``LOOPWARDEN_CREATE_TOPICS``); without it an
            administrator creates them before.
    """

    def topic(name: str, *operations: Operation) -> AccessRule:
        return AccessRule(principal, "topic", name, operations)

    if role == "runner":
        return [topic(topics.events, "Write"), topic(topics.verdicts, "Read")]
    read = [topics.events, topics.verdicts, topics.shadow_verdicts, topics.dead_letters]
    changelogs = [topics.history_ring, topics.post_compaction_window]
    if role == "worker":
        create: tuple[Operation, ...] = ("Create",) if create_topics else ()
        return [
            topic(topics.events, "Read", "DescribeConfigs", *create),
            # The page answers for runs that have ended out of their verdicts.
            topic(topics.verdicts, "Read", "Write", "DescribeConfigs", *create),
            topic(topics.shadow_verdicts, "Write", "DescribeConfigs", *create),
            topic(topics.dead_letters, "Write", "DescribeConfigs", *create),
            *(topic(name, "Read", "Write", "DescribeConfigs", *create) for name in changelogs),
            AccessRule(principal, "group", topics.app_id, ("Read",)),
            # One id a partition: <app id>-<partition>.
            AccessRule(principal, "transactional-id", f"{topics.app_id}-", ("Write",), prefixed=True),
        ]
    rules = [topic(name, "Read", "DescribeConfigs") for name in [*read, *changelogs]]
    if role == "operator":
        scratch = f"{topics.app_id}-doctor-"
        rules += [
            topic(topics.events, "Write"),
            AccessRule(
                principal, "topic", scratch, ("Create", "Delete", "Read", "Write", "DescribeConfigs"), prefixed=True
            ),
            AccessRule(principal, "transactional-id", scratch, ("Write",), prefixed=True),
        ]
    return rules


def acl_commands(bootstrap: str, rules: Iterable[AccessRule]) -> list[str]:
    """The rules as commands of Apache Kafka's own tool.

    Args:
        bootstrap: ``HOST:PORT`` of the cluster.
        rules: The rules.
    """
    commands = []
    for rule in rules:
        words = ["kafka-acls.sh", "--bootstrap-server", bootstrap, "--add", "--allow-principal", rule.principal]
        for operation in rule.operations:
            words += ["--operation", operation]
        words += [f"--{rule.resource}", rule.name]
        if rule.prefixed:
            words += ["--resource-pattern-type", "prefixed"]
        commands.append(shlex.join(words))
    return commands
