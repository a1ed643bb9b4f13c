"""`millstream logs`: what the tasks of a job, a task manager or a service logged and printed."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from millstream.cli.completion import complete_job
from millstream.cli.failures import Command
from millstream.cli.options import client_configuration, client_options
from millstream.core.errors import MillstreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.cli.log_sources import LogSource
    from millstream.cli.rest import RestClient
    from millstream.core.logs.log_events import LogFilter

_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@click.command(cls=Command)
@client_options
@click.option("-f", "--follow", is_flag=True, help="Prints new lines as they come, until Ctrl-C.")
@click.option(
    "-n", "--lines", type=click.IntRange(min=0), default=1000, show_default=True,
    help="How many of the last events; with --out, the last lines of each file.",
)  # fmt: skip
@click.option("--vertex", default="", metavar="VERTEX", help="Only of tasks with this in their name, or id.")
@click.option("--subtask", type=click.IntRange(min=0), metavar="N", help="Only of this subtask, counted from 0.")
@click.option("--level", type=click.Choice(_LEVELS, case_sensitive=False), help="Only from this level on.")
@click.option("--since", metavar="TIME", help="Only from then on: '10 min', '2 h', 2026-01-31 or '2026-01-31 12:00'.")
@click.option("--out", is_flag=True, help="The files of standard output as they are, with those of print sinks.")
@click.argument("name", metavar="JOB|TASKMANAGER|SERVICE", shell_complete=complete_job)
def logs(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    follow: bool,
    lines: int,
    vertex: str,
    subtask: int | None,
    level: str | None,
    since: str | None,
    out: bool,
    name: str,
) -> int:
    """Show what was logged and printed: by the tasks of a job, a task manager and its workers, or another service.

    A job is named by its id, by the beginning of it, or by its name; a task manager by its id or as `millstream cluster
    status` shows it, services as dispatcher, jobmanager or resourcemanager, and one of these that stands by as
    dispatcher@HOST:PORT. Events are in the order of their times.
    """
    from millstream.cli.job_names import job_named
    from millstream.cli.rest import RestClient
    from millstream.cli.since import moment_since
    from millstream.core.logs.log_events import LogFilter

    if out and (vertex or subtask is not None or level or since):
        raise click.UsageError("--out shows files as they are, and takes no --vertex, --subtask, --level or --since")
    client = RestClient(client_configuration(config_dir, overrides, address))
    wanted = LogFilter("", vertex, subtask, (level or "").upper(), moment_since(since) if since else 0)
    name = job_named(client, name)
    shown = _printed(client, name, lines, follow) if out else _logged(client, name, wanted, lines, follow, verbose)
    for text in shown:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
    return 0


def _logged(
    client: RestClient, name: str, wanted: LogFilter, number: int, follows: bool, verbose: bool
) -> Iterator[bytes]:
    """The last events of all files in their order, then what comes."""
    from millstream.cli.log_reader import follow, last_events
    from millstream.cli.log_sources import LOGS, sources_of
    from millstream.cli.progress import progress_on_terminal
    from millstream.core.logs.log_events import LogFilter

    with progress_on_terminal(verbose) as show:
        show("looking for log files")
        sources = sources_of(client, name, LOGS)
        found = []
        for index, source in enumerate(sources):
            show(f"reading log file {index + 1} of {len(sources)}: {source.name}")
            found += last_events(client, source, _of(source, name, wanted), number)
    found.sort(key=lambda event: event.line.time)
    for event in found[-number:] if number else []:
        yield "".join(f"{line}\n" for line in event.lines).encode(errors="surrogateescape")
    if number and not found:
        less = " that passes these filters" if wanted != LogFilter() else ""
        click.echo(f"Nothing was logged{less}; `millstream logs --out {name}` shows what was printed.", err=True)
    if follows:
        for source, line in follow(client, sources, lambda: _there_now(client, name, LOGS)):
            if _passes(source, line, _of(source, name, wanted)):
                yield line


def _printed(client: RestClient, name: str, number: int, follows: bool) -> Iterator[bytes]:
    """The last lines of each file of what was printed, with its name above it, then what comes."""
    from millstream.cli.log_reader import follow, last_lines
    from millstream.cli.log_sources import PRINTS, sources_of

    sources = sources_of(client, name, PRINTS)
    last: list[LogSource] = []

    def with_name(source: LogSource, line: bytes) -> bytes:
        is_other = len(sources) > 1 and last != [source]
        last[:] = [source]
        return (f"==> {source.name} <==\n".encode() if is_other else b"") + line

    for source in sources:
        for line in last_lines(client, source, number):
            yield with_name(source, line if line.endswith(b"\n") or follows else line + b"\n")
    if number and not last:
        click.echo(f"Nothing was printed; `millstream logs {name}` shows what was logged.", err=True)
    if follows:
        for source, line in follow(client, sources, lambda: _there_now(client, name, PRINTS)):
            yield with_name(source, line)


def _of(source: LogSource, name: str, wanted: LogFilter) -> LogFilter:
    """Of a file that has events of several jobs, those of this one."""
    from msgspec.structs import replace

    return replace(wanted, job_id=name) if source.is_shared else wanted


def _passes(source: LogSource, line: bytes, wanted: LogFilter) -> bool:
    from millstream.core.logs.log_events import LogFilter, parsed

    event = parsed(line.decode(errors="replace"))
    if event is not None:
        source.passes = wanted.passes(event)
        return source.passes
    passes = wanted == LogFilter() if source.passes is None else source.passes
    return passes and source.continues


def _there_now(client: RestClient, name: str, suffixes: tuple[str, ...]) -> list[LogSource]:
    from millstream.cli.log_sources import sources_of

    with contextlib.suppress(MillstreamError):  # none at this moment
        return sources_of(client, name, suffixes)
    return []
