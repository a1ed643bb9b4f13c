"""The command line's entry. Commands import what is heavy only when they run, so that help is instant."""

from __future__ import annotations

import sys

import click

from millstream.cli import failures
from millstream.cli.cluster.commands import cluster
from millstream.cli.completion import completion
from millstream.cli.daemons import DAEMONS
from millstream.cli.dashboard import dashboard
from millstream.cli.doctor import doctor
from millstream.cli.events import events
from millstream.cli.exceptions import exceptions
from millstream.cli.explain_idle import explain_idle
from millstream.cli.jobs import cancel, list_jobs
from millstream.cli.logs import logs
from millstream.cli.profiles.commands import profile, thread_dump
from millstream.cli.programs.programs import info, run
from millstream.cli.programs.standalone_job import standalone_job
from millstream.cli.rescale import rescale
from millstream.cli.security.commands import security
from millstream.cli.snapshots import checkpoint, savepoint, stop
from millstream.cli.state.commands import state
from millstream.cli.top.command import top


def _print_version(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"millstream {version('millstream')}")
        ctx.exit()


@click.group(cls=failures.Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Prints it.")
def millstream() -> None:
    """Run stateful stream processing jobs written in Python."""


_COMMANDS = (
    run, info, list_jobs, top, exceptions, events, explain_idle, logs, profile, thread_dump, cancel, stop, savepoint,
    checkpoint, rescale, state, cluster, dashboard, security, doctor, completion, standalone_job, *DAEMONS,
)  # fmt: skip
for _command in _COMMANDS:
    millstream.add_command(_command)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns the exit status."""
    return failures.run(millstream, arguments)


if __name__ == "__main__":
    sys.exit(main())
