"""`millstream events`: what happened to a job, and why."""

from __future__ import annotations

import json

import click

from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import client_configuration, client_options, job_argument
from millstream.cli.rest import RestClient
from millstream.cli.tables import moment
from millstream.core.logs.printable import printable


@click.command("events", cls=Command)
@client_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON, in the shape of the REST API.")
@job_argument
def events(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    as_json: bool,
    job: str,
) -> int:
    """Show what happened to a job, oldest first: restarts, rescales and decisions, with their reasons."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    found = client.get(f"/jobs/{job_id_of(client, job)}/events")
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return 0
    for event in found["events"]:
        click.echo(f"{moment(event['timestamp'])}  {event['kind']}: {printable(event['message'])}")
    if not found["events"]:
        click.echo("No events.")
    return 0
