"""`millstream security`: an authority with certificates and the configuration that uses them, and tokens for REST."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import click

from millstream.cli.failures import Command, Group
from millstream.cli.options import configuration_options, role_option, verbose_option
from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import REST_AUTH_TOKENS_FILE

_NAME = re.compile(r"[A-Za-z0-9._@-]{1,100}\Z")


@click.group(cls=Group)
def security() -> None:
    """Make certificates for a cluster, and tokens for its REST API."""


@security.command(cls=Command)
@verbose_option
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name or address of a host of the cluster; may be repeated.",
)
@click.option(
    "--days", type=click.IntRange(min=1, max=3650), default=825, show_default=True, help="How long they are valid."
)
@click.argument("directory", metavar="DIR")
def init(verbose: bool, hosts: tuple[str, ...], days: int, directory: str) -> int:
    """Make an authority and certificates in DIR, and a configuration that uses them.

    The certificates are for this host, loopback and every --host. Copy DIR, without authority.key, to the same place on
    all hosts, and give it to services and commands with --configDir. In a folder that has an authority, new
    certificates are signed by it, and all else stays as it is.
    """
    from millstream.cli.security.folder import SecurityFolder

    folder = SecurityFolder(Path(os.path.abspath(Path(directory).expanduser())))
    names = tuple(dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts]))
    for line in folder.fill(names, days):
        click.echo(line)
    return 0


@security.command(cls=Command)
@configuration_options
@verbose_option
@role_option("read")
@click.option("--file", "file", metavar="FILE", help="The tokens file; default security.rest.auth.tokens-file.")
@click.argument("name")
def token(
    config_dir: str | None, overrides: tuple[str, ...], verbose: bool, role: str, file: str | None, name: str
) -> int:
    """Add a token for NAME to the tokens of a cluster, and print it: it is stored nowhere, only its hash is.

    A running dispatcher takes it at once. To take a token back, remove its line from the file.
    """
    from millstream.cli.security.folder import add_token

    where = file or Configuration.load(config_dir, overrides).get(REST_AUTH_TOKENS_FILE)
    if not where:
        raise MillstreamError("name the tokens file: --file FILE, or the option 'security.rest.auth.tokens-file'")
    if not _NAME.match(name):
        raise click.UsageError(f"'{name}' is no name for a token: write letters, digits and any of . _ @ -")
    click.echo(add_token(Path(where), name, role))
    return 0
