"""`millstream explain-idle`: why nothing comes out of a job, in words that a user can act on."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import click

from millstream.cli.failures import Command
from millstream.cli.job_names import job_id_of
from millstream.cli.options import client_configuration, client_options, job_argument
from millstream.cli.rest import RestClient
from millstream.core.logs.printable import printable

_WIDTH = 100


@click.command("explain-idle", cls=Command)
@client_options
@click.option("--json", "as_json", is_flag=True, help="Prints JSON, in the shape of the REST API.")
@job_argument
def explain_idle(
    config_dir: str | None,
    overrides: tuple[str, ...],
    address: str | None,
    verbose: bool,
    as_json: bool,
    job: str,
) -> int:
    """Explain why nothing comes out of a job: what holds it back, since when, and what to do about it."""
    client = RestClient(client_configuration(config_dir, overrides, address))
    stall = client.get(f"/jobs/{job_id_of(client, job)}/stall")
    if as_json:
        click.echo(json.dumps(stall, indent=2))
        return 0
    for line in _told(stall):
        click.echo(line)
    return 0


def _told(stall: dict[str, Any]) -> list[str]:
    lines = [f"Job '{printable(stall['name'])}' ({stall['jid']}) is {stall['state']}. {printable(stall['summary'])}"]
    for number, found in enumerate(stall["findings"], 1):
        if found["message"] != stall["summary"]:
            lines += ["", *_wrapped(f"{number}. ", found["message"])]
        if found["advice"]:
            lines += _wrapped("   What to do: ", found["advice"])
    if stall["waiting"]:
        lines += ["", "What waits:"]
        for waits in stall["waiting"]:
            lines += _wrapped("- ", waits["message"])
    return lines


def _wrapped(head: str, text: str) -> list[str]:
    indent = " " * (3 if head.strip().endswith(":") else len(head))
    return textwrap.wrap(printable(text), _WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)
