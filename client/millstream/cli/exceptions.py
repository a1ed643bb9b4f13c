"""`millstream exceptions`: why a job failed or was restarted, whether it still runs or has ended."""

from __future__ import annotations

import json
from typing import Any

import click

from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import client_configuration, client_options, job_argument
from millstream.cli.rest import RestClient
from millstream.cli.tables import moment
from millstream.core.logs.failure_texts import ordinal
from millstream.core.logs.printable import printable

_ALL = 1_000_000


@click.command("exceptions", cls=Command)
@client_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON, in the shape of the REST API.")
@job_argument
def exceptions(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    as_json: bool,
    job: str,
) -> int:
    """Show why a job failed or was restarted, oldest first: your traceback, operator, record, task and attempt."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    job_id = job_id_of(client, job)
    history = client.get(f"/jobs/{job_id}/exceptions?maxExceptions={_ALL}")
    if as_json:
        click.echo(json.dumps(history, indent=2))
        return 0
    for line in _told(client.get(f"/jobs/{job_id}"), history["exceptionHistory"]):
        click.echo(line)
    return 0


def _told(job: dict[str, Any], history: dict[str, Any]) -> list[str]:
    """The whole story. A traceback that was shown before is only referred to."""
    restarts = job.get("restarts", 0)
    lines = [f"Job '{printable(job['name'])}' ({job['jid']}) is {job['state']}, restarts: {restarts}"]
    if job.get("message"):
        lines.append(f"  {printable(job['message'])}")
    if not history["entries"]:
        return [*lines, "No exceptions."]
    if history["truncated"]:
        lines.append("Older exceptions are forgotten (web.exception-history-size).")
    shown: set[str] = set()
    for entry in reversed(history["entries"]):
        lines += ["", *_entry(entry, shown)]
        for other in entry["concurrentExceptions"]:
            where = f" in {printable(other['taskName'])}" if other["taskName"] else ""
            lines.append(f"  along with it: {printable(other.get('exception') or other['exceptionName'])}{where}")
    return lines


def _entry(entry: dict[str, Any], shown: set[str]) -> list[str]:
    lines = [f"{moment(entry['timestamp'])}  {printable(entry.get('exception') or entry['exceptionName'])}"]
    times = entry.get("timesInARow") or 0
    if times > 1:
        lines.append(f"  the same error, {ordinal(times)} time in a row")
    for label, key in (
        ("operator", "operator"), ("record", "record"), ("task", "taskName"), ("subtask", "subtask"),
        ("attempt", "attempt"), ("task manager", "taskManagerId"),
    ):  # fmt: skip
        if entry.get(key) is not None:
            lines.append(f"  {label}: {printable(str(entry[key]))}")
    if entry.get("restart"):
        lines.append(f"  led to restart {entry['restart']}, after {entry['restartDelay'] / 1000:.1f} s")
    else:
        lines.append("  led to no restart")
    stacktrace = entry["stacktrace"].rstrip()
    if stacktrace in shown:
        lines.append("  the traceback is the one above")
    elif stacktrace != (entry.get("exception") or "").rstrip():
        shown.add(stacktrace)
        lines += [f"  {line}" for line in stacktrace.splitlines()]
    return lines
