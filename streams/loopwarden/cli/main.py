"""``loopwarden``: the group of all commands, and how errors become one line and an exit code.

A command's module is imported when it is asked for, and a command imports what is heavy (aiokafka, Faust, the fold)
when it runs, so that help and mistakes are answered at once.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from loopwarden.cli.output import printable
from loopwarden.errors import LoopWardenError
from loopwarden_schemas.errors import ConfigurationError, WireError

__all__ = ["cli", "main"]

COMMANDS = (
    "demo",
    "up",
    "worker",
    "tail",
    "top",
    "explain",
    "release",
    "publish",
    "replay",
    "backtest",
    "topics",
    "config",
    "doctor",
    "acl",
)
"""In the order of the help; command NAME is ``command`` in ``loopwarden.cli.NAME``."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""
_EPILOG = """\b
Exit codes:
  0    done
  1    an error of another kind, or what `demo` expected did not come
  2    input that cannot be taken: an option, a file, a configuration
  3    the broker: not reached, refused, or a topic is not as it must be
  4    the tables do not match the log
  130  interrupted (Ctrl-C)

How the cluster is reached (TLS, SASL) stands in the environment: LOOPWARDEN_BROKER, LOOPWARDEN_SECURITY_PROTOCOL,
LOOPWARDEN_SSL_…, LOOPWARDEN_SASL_….
"""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"loopwarden.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loopwarden", prog_name="loopwarden")
@click.option("--debug", is_flag=True, help="Show where an error came from, and what the client libraries log.")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Sees agents that are stuck in a tool loop, for a whole fleet."""
    context.obj = debug
    if debug:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    else:
        # Errors of client libraries arrive as exceptions; without a handler they would be printed twice.
        logging.getLogger().addHandler(logging.NullHandler())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: Its name and arguments; those of the process by default.

    Returns:
        Exit code, see ``loopwarden --help``.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = cli.main(arguments, prog_name="loopwarden", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        # click's, on a pipe whose reader has what it wanted (`| head`); it also sees to it that nothing is flushed.
        return 0
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _report(error)


def _report(error: Exception) -> int:
    """Says an error in one line (one a problem, of a configuration), and what to do about it."""
    match error:
        case ConfigurationError(problems=problems):
            for problem in problems:
                _say("error", problem)
            return 2
        case WireError():
            _say("error", str(error))
            return 2
        case LoopWardenError():
            _say("error", str(error))
            if error.hint:
                _say("hint", error.hint)
            return error.exit_code
        case _:
            _say("error", f"unexpected {type(error).__name__}: {error}")
            _say("hint", "`loopwarden --debug …` shows where it came from")
            return 1


def _say(what: str, text: str) -> None:
    click.echo(f"{what}: {printable(' '.join(text.split()))}", err=True)
