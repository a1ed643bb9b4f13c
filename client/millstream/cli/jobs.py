"""Commands about jobs on a cluster: `list` and `cancel`."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click

from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import client_configuration, client_options, job_argument
from millstream.cli.progress import progress_on_terminal
from millstream.cli.rest import RestClient
from millstream.cli.tables import print_table
from millstream.core.errors import MillstreamError
from millstream.core.logs.failure_texts import shortened
from millstream.core.logs.times import duration

SCHEDULED = frozenset({"CREATED", "INITIALIZING"})
ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
_TOLD_BY_FAILURE = frozenset({"RESTARTING", "FAILING", "FAILED"})
_POLL = 0.2
_CAUSE_LENGTH = 120
_COLUMNS = ("JOB ID", "NAME", "STATE", "STARTED", "DURATION", "RESTARTS")


@click.command("list", cls=Command)
@client_options
@click.option("-r", "--running", is_flag=True, help="Only jobs that run.")
@click.option("-s", "--scheduled", is_flag=True, help="Only jobs that wait to run.")
@click.option("-a", "--all", "everything", is_flag=True, help="Ended jobs too.")
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
def list_jobs(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    running: bool,
    scheduled: bool,
    everything: bool,
    as_json: bool,
) -> int:
    """List the jobs of a cluster: those that run or wait to run, unless asked otherwise."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    found = client.get("/jobs/overview")["jobs"]
    jobs = [job for job in found if _wanted(job["state"], running, scheduled, everything)]
    jobs.sort(key=lambda job: job["start-time"])
    if as_json:
        click.echo(json.dumps(jobs, indent=2))
    elif jobs:
        print_table(_COLUMNS, [_row(job) for job in jobs], shortens=["NAME"])
    else:
        click.echo("No jobs." if everything else "No running or scheduled jobs.")
    return 0


def _wanted(state: str, running: bool, scheduled: bool, everything: bool) -> bool:
    if everything:
        return True
    if state in ENDED:
        return False
    if running == scheduled:
        return True
    return (state in SCHEDULED) == scheduled


def _row(job: dict[str, Any]) -> list[str]:
    started = datetime.fromtimestamp(job["start-time"] / 1000).strftime("%Y-%m-%d %H:%M:%S")
    waiting = "" if job["state"] in _TOLD_BY_FAILURE else job.get("message")  # what a job waits for that does not run
    state = f"{job['state']} ({waiting})" if waiting else job["state"]
    restarts, cause = str(job.get("restarts", 0)), job.get("last-failure")
    told = f"{restarts} ({shortened(cause, _CAUSE_LENGTH)})" if cause else restarts
    return [job["jid"], job["name"], state, started, duration(job["duration"]), told]


@click.command(cls=Command)
@client_options
@click.option("--wait", is_flag=True, help="Waits until the job has ended.")
@job_argument
def cancel(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    wait: bool,
    job: str,
) -> int:
    """Cancel a job."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    job_id = job_id_of(client, job)
    state = client.get(f"/jobs/{job_id}")["state"]
    client.patch(f"/jobs/{job_id}?mode=cancel")
    if not wait:
        click.echo(f"Job {job_id} is {state} already." if state in ENDED else f"Cancelling job {job_id}.")
        return 0
    with progress_on_terminal(verbose) as progress:
        while (state := client.get(f"/jobs/{job_id}")["state"]) not in ENDED:
            progress(f"job {job_id} is {state}")
            time.sleep(_POLL)
    if state != "CANCELED":
        raise MillstreamError(f"job {job_id} was not cancelled: it is {state}")
    click.echo(f"Job {job_id} is {state}.")
    return 0
