"""`millstream logs`: what the workers of a job, a task manager or a service logged or printed."""

from __future__ import annotations

import contextlib
import sys

import click

from millstream.cli.failures import Command
from millstream.cli.options import client_configuration, client_options
from millstream.core.errors import MillstreamError


@click.command(cls=Command)
@client_options
@click.option("-f", "--follow", is_flag=True, help="Goes on with what comes, until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=1000, show_default=True, help="The last lines of each file."
)
@click.option("--out", is_flag=True, help="What was printed to standard output, in place of the log.")
@click.argument("name", metavar="JOBID|TASKMANAGER|SERVICE")
def logs(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    follow: bool,
    lines: int,
    out: bool,
    name: str,
) -> int:
    """Show logs: of the workers of a job, of a task manager and its workers, or of another service.

    A task manager is named by its id or as `millstream cluster status` shows it, services as dispatcher, jobmanager or
    resourcemanager.
    """
    from millstream.cli.log_reader import LogSource, last_lines, sources_of
    from millstream.cli.log_reader import follow as followed
    from millstream.cli.rest import RestClient

    client = RestClient(client_configuration(config_dir, overrides, address))
    suffix = ".out" if out else ".log"
    sources = sources_of(client, name, suffix)
    shown: list[LogSource] = []

    def listed() -> list[LogSource]:
        with contextlib.suppress(MillstreamError):  # none at this moment
            return sources_of(client, name, suffix)
        return []

    def show(source: LogSource, line: bytes) -> None:
        if len(sources) > 1 and shown[-1:] != [source]:
            click.echo(f"==> {source.name} <==")
        shown[:] = [source]
        sys.stdout.buffer.write(line if line.endswith(b"\n") or follow else line + b"\n")

    for source in sources:
        for line in last_lines(client, source, lines):
            show(source, line)
    sys.stdout.flush()
    if lines and not shown:
        kind, other, option = ("printed", "logged", "") if out else ("logged", "printed", "--out ")
        click.echo(f"Nothing was {kind}; `millstream logs {option}{name}` shows what was {other}.", err=True)
    if follow:
        for source, line in followed(client, sources, listed):
            show(source, line)
            sys.stdout.flush()
    return 0
