"""`millstream events`: what happened to a job, and why."""

from __future__ import annotations

import json

import click

from millstream.cli.failures import Command
from millstream.cli.options import checked_job_id, client_configuration, client_options
from millstream.cli.rest import RestClient
from millstream.cli.tables import moment
from millstream.core.logs.printable import printable


@click.command("events", cls=Command)
@client_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON, in the shape of the REST API.")
@click.argument("job_id", metavar="JOBID")
def events(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    as_json: bool,
    job_id: str,
) -> int:
    """Show what happened to a job, oldest first: restarts, rescales and decisions, with their reasons."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    found = client.get(f"/jobs/{checked_job_id(job_id)}/events")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return 0
    for event in found["events"]:
        click.echo(f"{moment(event['timestamp'])}  {event['kind']}: {printable(event['message'])}")
    if not found["events"]:
        click.echo("No events.")
    return 0
