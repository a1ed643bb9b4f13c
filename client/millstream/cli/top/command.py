"""`millstream top`: live on a terminal, once elsewhere, and as JSON for scripts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from millstream.cli.completion import complete_job
from millstream.cli.failures import Command
from millstream.cli.options import client_configuration, client_options
from millstream.core.errors import MillstreamError

if TYPE_CHECKING:
    from millstream.cli.rest import RestClient
    from millstream.cli.top.figures import ClusterFigures


@click.command(cls=Command)
@client_options
@click.option("--once", is_flag=True, help="Prints the figures of this moment and returns, as without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@click.option("-a", "--all", "everything", is_flag=True, help="Ended jobs too.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=2.0, show_default=True, metavar="SECONDS",
    help="Seconds between two refreshes.",
)  # fmt: skip
@click.argument("job", metavar="[JOB]", default="", shell_complete=complete_job)
def top(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    once: bool,
    as_json: bool,
    everything: bool,
    interval: float,
    job: str,
) -> int:
    """Show the jobs of a cluster, or the vertices of one: rates, busy, idle and backpressured time, event time.

    A job is named by its id, by the beginning of it, or by its name. The arrows choose a job, enter shows its vertices,
    backspace goes back, q ends it.
    """
    from millstream.cli.job_names import job_id_of
    from millstream.cli.rest import RestClient
    from millstream.cli.top.reader import read

    client = RestClient(client_configuration(config_dir, overrides, address))
    job_id = job_id_of(client, job) if job else ""
    if not (once or as_json) and sys.stdout.isatty() and sys.stdin.isatty():
        _live(client, job_id, everything, interval)
        return 0
    figures = read(client, job_id, everything)
    if as_json:
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(figures), indent=2))
    else:
        _print(figures, job_id)
    return 0


def _print(figures: ClusterFigures, job_id: str) -> None:
    from millstream.cli.tables import print_table
    from millstream.cli.top import cells
    from millstream.core.logs.printable import printable

    click.echo(cells.cluster_line(figures))
    if not job_id:
        print_table(cells.JOBS, [cells.job_cells(job) for job in figures.jobs])
    for job in figures.jobs if job_id else ():
        for line in cells.job_lines(job):
            click.echo(printable(line))
        print_table(cells.VERTICES, [cells.vertex_cells(vertex) for vertex in job.vertices])


def _live(client: RestClient, job_id: str, everything: bool, interval: float) -> None:
    from shutil import get_terminal_size

    from rich.live import Live

    from millstream.cli.top.keys import pressed, single_keys
    from millstream.cli.top.reader import read
    from millstream.cli.top.screen import Screen

    screen, trouble = Screen(job_id), ""
    figures = read(client, job_id, everything)
    first = screen.drawn(figures, width=get_terminal_size().columns)
    with single_keys(), Live(first, screen=True, auto_refresh=False) as live:
        while True:
            until = time.monotonic() + interval
            while (left := until - time.monotonic()) > 0:
                before = screen.job_id
                if not all(screen.press(key) for key in pressed(left)):
                    return
                live.update(screen.drawn(figures, trouble, live.console.width), refresh=True)
                if screen.job_id != before:
                    break
            try:
                figures, trouble = read(client, screen.job_id, everything), ""
            except MillstreamError as error:
                trouble = f"{error}; the next request follows in {interval:g} s"
            live.update(screen.drawn(figures, trouble, live.console.width), refresh=True)
