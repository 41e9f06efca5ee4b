"""``loopwarden config``: what a configuration file comes to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from loopwarden.cli.options import json_option
from loopwarden.cli.output import printable

if TYPE_CHECKING:
    from loopwarden_schemas.configuration import Configuration

__all__ = ["command"]

EVERYBODY_ELSE = "(every other agent)"


@click.group("config")
def command() -> None:
    """Check a configuration file."""


@command.command("check")
@click.argument("file")
@click.option("--agent", metavar="ID", help="Only this agent.")
@json_option
def check(file: str, agent: str | None, as_json: bool) -> int:
    """Print the effective settings of every agent in FILE, and the thresholds that had to be raised.

    FILE is an openclaw.json (JSON5) or the same as YAML. Mistakes are named with file, path and value; exit code 2.
    """
    from loopwarden_schemas.configuration import Configuration

    configuration = Configuration.from_file(file)
    agents = [agent] if agent is not None else ["", *configuration.agent_ids]
    described = {name: configuration.describe(name or None) for name in agents}
    raised = [(name, item) for name, item in configuration.raised() if agent is None or name in ("", agent)]
    if as_json:
        document = {
            "version": configuration.version,
            "off": configuration.is_off,
            "agents": {name or EVERYBODY_ELSE: settings for name, settings in described.items()},
            "raised": [{"agent": name or None, **vars(item)} for name, item in raised],
        }
        click.echo(json.dumps(document, indent=2))
        return 0
    click.echo(f"{printable(file)}: configuration {configuration.version}")
    for name, settings in described.items():
        click.echo(f"\n{printable(name) or EVERYBODY_ELSE}")
        for path, value in _flat(settings):
            click.echo(f"  {path:<32} {value}")
    for name, item in raised:
        who = f"agent {printable(name)}" if name else "all agents"
        click.echo(f"\nraised for {who}: {item.field} {item.old} → {item.new} (thresholds must ascend)")
    _warn(configuration)
    return 0


def _warn(configuration: Configuration) -> None:
    if configuration.is_off:
        click.echo("\nThe detectors are OFF for every agent: `tools.loopDetection.enabled: true` switches them on.")


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}.")
        elif name != "config_version":
            yield f"{prefix}{name}", printable(json.dumps(value, ensure_ascii=False))
