"""The command `rescale`: a running job continues at another parallelism."""

from __future__ import annotations

import json
import time
from typing import Any

import click

from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import client_configuration, client_options, job_argument
from millstream.cli.progress import progress_on_terminal
from millstream.cli.rest import RestClient, RestError
from millstream.core.backoff import Backoff
from millstream.core.errors import MillstreamError

_POLLS = Backoff(0.05, 1.0, 1.5)  # seconds between two looks at an operation


@click.command(cls=Command)
@client_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON.")
@click.option("-detached", "--detached", is_flag=True, help="Prints the trigger id and does not wait.")
@click.option(
    "-p",
    "--parallelism",
    type=click.IntRange(min=1),
    required=True,
    help="Of all operators whose parallelism the program leaves open.",
)
@job_argument
def rescale(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    as_json: bool,
    detached: bool,
    parallelism: int,
    job: str,
) -> int:
    """Run a job at another parallelism: it continues from a checkpoint that it takes for that."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    job_id = job_id_of(client, job)
    path = f"/jobs/{job_id}/rescaling"
    trigger_id = client.patch(f"{path}?parallelism={parallelism}")["request-id"]
    if detached:
        click.echo(json.dumps({"request-id": trigger_id}) if as_json else f"Triggered: {trigger_id}")
        return 0
    with progress_on_terminal(verbose) as progress:
        progress(f"job {job_id} gets parallelism {parallelism}")
        trigger_id, outcome = _outcome(client, path, parallelism, trigger_id)
    if failure := outcome.get("failure-cause"):
        raise MillstreamError(str(failure["stack-trace"]))
    message = str(outcome.get("message", ""))
    click.echo(json.dumps({"request-id": trigger_id, **outcome}) if as_json else f"{message[:1].upper()}{message[1:]}.")
    return 0


def _outcome(client: RestClient, path: str, parallelism: int, trigger_id: str) -> tuple[str, dict[str, Any]]:
    """The id under which it came to its end, and what came of it.

    A dispatcher that has followed another one does not know the id. It is requested once more then, which changes
    nothing where it has been carried out.
    """
    pauses = _POLLS.delays()
    while True:
        try:
            status = client.get(f"{path}/{trigger_id}")
        except RestError as error:
            if error.status != 404:
                raise
            trigger_id = client.patch(f"{path}?parallelism={parallelism}")["request-id"]
            continue
        if status["status"]["id"] == "COMPLETED":
            return trigger_id, status.get("operation") or {}
        time.sleep(next(pauses))
