"""How commands fail: one line on stderr that begins with the command, and the exit status. Details with -v."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import click

from millstream.core.errors import MillstreamError
from millstream.core.settings.secrets import without_secrets

FAILED = 1
MISUSED = 2
INTERRUPTED = 130


class CommandFailedError(Exception):
    """A user's error, with the command that raised it. The cause is the error."""

    def __init__(self, command_path: str, verbose: bool, status: int) -> None:
        super().__init__(command_path)
        self.command_path = command_path
        self.verbose = verbose
        self.status = status


class Command(click.Command):
    """A command whose errors remember where they came from."""

    failure_status = FAILED

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Errors of the parser know no command by themselves."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. Returns the exit status."""
        try:
            return super().invoke(ctx)
        except MillstreamError as error:
            verbose = bool(ctx.params.get("verbose"))
            raise CommandFailedError(ctx.command_path, verbose, self.failure_status) from error


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


def run(group: click.Group, arguments: list[str] | None) -> int:
    """Runs the command line to its exit status, printing what failed."""
    try:
        status = group.main(args=arguments, prog_name="millstream", standalone_mode=False)
    except CommandFailedError as failed:
        if failed.verbose and failed.__cause__ is not None:
            print(without_secrets("".join(traceback.format_exception(failed.__cause__))), end="", file=sys.stderr)
        cause = failed.__cause__
        _print_failure(failed.command_path, str(cause), isinstance(cause, MillstreamError) and cause.keeps_lines)
        return failed.status
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return MISUSED
    except click.UsageError as error:
        _print_failure(error.ctx.command_path if error.ctx else "millstream", error.format_message())
        return MISUSED
    except click.ClickException as error:
        _print_failure("millstream", error.format_message())
        return FAILED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return FAILED
    return status if isinstance(status, int) else 0


def _print_failure(command_path: str, message: str, keeps_lines: bool = False) -> None:
    shown = without_secrets(message if keeps_lines else " ".join(message.split()))
    print(f"{command_path}: {shown}", file=sys.stderr)
