"""`millstream dashboard`: where the web dashboard is, with a token that lets its user in.

The token is in the address's fragment, which a browser does not send; the page takes it out of the address bar. But a
page of another program could read it there, so none is given to a server that has not proven itself.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import click

from millstream.cli.failures import Command
from millstream.cli.options import client_configuration, client_options, role_option
from millstream.cli.rest import RestClient, RestError
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.services.cluster_secret import cluster_secret, read_private
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import REST_ADDRESS, REST_AUTH_TOKEN_FILE, REST_PORT, SSL_REST_ENABLED


@click.command(cls=Command)
@client_options
@role_option("submit", "in")
@click.option("--open", "opens", is_flag=True, help="Opens it in the browser.")
def dashboard(
    config_dir: str | None, overrides: tuple[str, ...], address: str | None, verbose: bool, role: str, opens: bool
) -> int:
    """Print the address of the web dashboard, with a token for logging in. Keep it secret: it grants access."""
    configuration = client_configuration(config_dir, overrides, address)
    url = dashboard_url(configuration)
    token = _token(configuration, role)
    if token and url.startswith("http:"):  # with HTTPS, the browser checks the server
        _check_server(configuration, opens)
    click.echo(with_token := f"{url}#token={quote(token, safe='')}" if token else url)
    if opens:
        import webbrowser

        if not webbrowser.open(with_token):
            raise MillstreamError("there is no browser here that could be opened: open the address above in one")
    return 0


def dashboard_url(configuration: Configuration) -> str:
    """The address of the dashboard, without a token."""
    scheme = "https" if configuration.get(SSL_REST_ENABLED) else "http"
    return f"{scheme}://{configuration.get(REST_ADDRESS)}:{configuration.get(REST_PORT)}/"


def _check_server(configuration: Configuration, opens: bool) -> None:
    """Raises if another program has the port; nothing may have it yet, unless a browser is to be opened."""
    try:
        RestClient(configuration, advises=False).get("/whoami")
    except RestError as error:
        if error.status == HTTPStatus.UNAUTHORIZED:
            raise
    except UnreachableError as error:
        if opens or not isinstance(error.__cause__, ConnectionRefusedError):
            raise


def _token(configuration: Configuration, role: str) -> str:
    file = configuration.get(REST_AUTH_TOKEN_FILE)
    if file:
        return read_private(Path(file), REST_AUTH_TOKEN_FILE).strip()
    secret = cluster_secret(configuration)
    return "" if secret is None else secret.rest_token(role)
