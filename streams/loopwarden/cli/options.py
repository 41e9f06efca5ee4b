"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from loopwarden.connection import Connection
    from loopwarden_schemas.configuration import Configuration

__all__ = ["broker_options", "config_option", "connection_of", "json_option", "read_configuration"]

_F = TypeVar("_F", bound=Callable[..., Any])


def broker_options(function: _F) -> _F:
    """``--broker`` and ``--topic-prefix``."""
    function = click.option(
        "--topic-prefix",
        envvar="LOOPWARDEN_TOPIC_PREFIX",
        default="",
        metavar="PREFIX",
        help="What every topic's name begins with, such as `staging.`.",
    )(function)
    return click.option(
        "--broker", metavar="HOST:PORT", help="The Kafka cluster; several, separated by commas. [LOOPWARDEN_BROKER]"
    )(function)


def config_option(function: _F) -> _F:
    """``--config``."""
    return click.option(
        "--config",
        metavar="FILE",
        envvar="LOOPWARDEN_CONFIG",
        help="Configuration: an openclaw.json (JSON5) or the same as YAML.",
    )(function)


def json_option(function: _F) -> _F:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")(function)


def connection_of(broker: str | None) -> Connection:
    """The cluster that option and environment name.

    Raises:
        UsageError: Neither does, or they contradict each other.
    """
    from loopwarden.connection import Connection

    return Connection.from_environment(os.environ, bootstrap=broker)


def read_configuration(path: str | None) -> Configuration | None:
    """The configuration of a file; None where none is named.

    Raises:
        ConfigurationError: It cannot be taken.
    """
    from loopwarden_schemas.configuration import Configuration

    return None if path is None else Configuration.from_file(path)
