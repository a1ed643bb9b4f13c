"""A client of the cluster's REST API. Every failure is a `MillstreamError` that names the address.

With high availability the client follows the leader: a repeated request does nothing twice, and is, for as long as
programs wait for a dispatcher. With an address that the user named it stays there.

No token is sent to a process that has merely taken the port of the cluster. With the cluster's secret, each connection
is TLS with a server that has the secret, too; with HTTPS, with one that has a certificate. With a token alone, the
server first shows that it knows the token (`challenge`).
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import os
import re
import socket
import ssl
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from millstream.cli.options import cluster_directory
from millstream.core.errors import NO_CLUSTER, MillstreamError, UnreachableError
from millstream.core.services import challenge
from millstream.core.services.cluster_secret import SECRET_FILE, cluster_secret, read_private
from millstream.core.services.identity import CLUSTER_NAME, client_context, identity_of_secret, user_name
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    REST_ADDRESS,
    REST_AUTH_TOKEN_FILE,
    REST_PORT,
    SSL_REST_AUTHENTICATION_ENABLED,
    SSL_REST_CA,
    SSL_REST_CERT,
    SSL_REST_ENABLED,
    SSL_REST_KEY,
)
from millstream.core.store.high_availability import is_highly_available, leader_patience

_REPEATABLE = frozenset({"GET", "PATCH"})
_PAUSE = 0.2
_NO_TLS_ANSWER = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_MESSAGE"})


class RestError(MillstreamError):
    """The cluster responded with an error; the message is its own."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RestClient:
    """One request, one connection. Blocks for at most `timeout` seconds a step, and while a leader is looked up."""

    def __init__(self, configuration: Configuration, timeout: float = 30.0, advises: bool = True) -> None:
        host, port = configuration.get(REST_ADDRESS), configuration.get(REST_PORT)
        self._host = host
        self._port = port
        self._configuration = configuration
        self._follows = advises and is_highly_available(configuration)
        self._patience = leader_patience(configuration)
        self._was_answered = False
        self._timeout = timeout
        self._advises = advises  # false for those who start or watch the cluster, and need no advice
        own = identity_of_secret(configuration)
        self._secured_by_secret = own is not None and not configuration.get(SSL_REST_ENABLED)
        self._tls = client_context(own) if own is not None and self._secured_by_secret else _tls(configuration)
        token = configuration.get(REST_AUTH_TOKEN_FILE)
        self._token = read_private(Path(token), REST_AUTH_TOKEN_FILE).strip() if token else ""
        self._secret = None if token else cluster_secret(configuration)

    @property
    def address(self) -> str:
        """Where the last request was sent."""
        return f"{self._host}:{self._port}"

    def get(self, path: str) -> Any:
        """The JSON that the path returns."""
        return self._request("GET", path)

    def get_bytes(self, path: str, part: str) -> tuple[bytes, int, int]:
        """A part of a file, given as a `Range`: its content, where it begins, and the size of the file."""
        body, headers = self._send("GET", path, None, {"Range": part})
        given = re.match(r"bytes (?:(\d+)-\d+|\*)/(\d+)", headers.get("Content-Range", ""))
        if given is None:
            raise MillstreamError(f"{self.address} responds to {path} without a range: is it a Millstream cluster?")
        size = int(given.group(2))
        return body, int(given.group(1)) if given.group(1) is not None else size, size

    def patch(self, path: str) -> Any:
        """The JSON that the path returns to PATCH without a body."""
        return self._request("PATCH", path)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The JSON that the path returns to POST with a JSON body."""
        return self._request("POST", path, json.dumps(body))

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls is not None and self._secured_by_secret:
            return _SecretConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _request(self, method: str, path: str, content: str | None = None) -> Any:
        body, _ = self._send(method, path, content, {"Accept": "application/json"})
        try:
            return json.loads(body) if body.strip() else {}
        except ValueError as error:
            raise MillstreamError(f"{self.address}{path} returns no JSON: is it a Millstream cluster?") from error

    def _send(
        self, method: str, path: str, content: str | None, headers: dict[str, str]
    ) -> tuple[bytes, http.client.HTTPMessage]:
        deadline = time.monotonic() + self._patience
        while True:
            try:
                response = self._send_once(method, path, content, dict(headers))
            except (UnreachableError, RestError) as error:
                if not self._may_ask_again(method, error) or time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
                tried = self.address
                if self._follows and not self._found_leader() and not self._was_answered:
                    raise
                if isinstance(error.__cause__, TimeoutError) and self.address == tried:
                    raise  # it leads, and did not respond within the timeout
            else:
                self._was_answered = True
                return response

    def _may_ask_again(self, method: str, error: UnreachableError | RestError) -> bool:
        """Whether the next leader may respond, and a repeated request does nothing twice."""
        if isinstance(error, RestError):
            return error.status == 503 and method in _REPEATABLE and (self._follows or self._was_answered)
        never_sent = isinstance(error.__cause__, ConnectionRefusedError)
        return self._follows and (never_sent or method in _REPEATABLE)

    def _found_leader(self) -> bool:
        """Whether there is a leader, which requests are sent to from now on."""
        from millstream.cli.leading_rest import leading_rest

        try:
            found = self._configuration.merged(leading_rest(self._configuration))
        except UnreachableError:
            return False
        self._host, self._port = found.get(REST_ADDRESS), found.get(REST_PORT)
        return True

    def _send_once(
        self, method: str, path: str, content: str | None, headers: dict[str, str]
    ) -> tuple[bytes, http.client.HTTPMessage]:
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self._token:
            if self._tls is None:
                self._challenge()
            headers["Authorization"] = f"Bearer {self._token}"
        elif self._secret is not None:
            headers["Authorization"] = f"Bearer {self._secret.rest_token('submit')}"
            headers["Millstream-User"] = quote(user_name())
        response, body = self._exchange(method, path, content, headers)
        if response.status == 401 and "Authorization" not in headers:
            missing = f"set '{SECRET_FILE}' as the cluster has it, or '{REST_AUTH_TOKEN_FILE}'"
            raise RestError(f"the cluster at {self.address} requires credentials: {missing}", 401)
        if response.status >= 400:
            raise RestError(self._reason(response.status, response.reason, body), response.status)
        return body, response.headers

    def _challenge(self) -> None:
        """Raises unless the server proves that it has the token, which is not sent before."""
        nonce = os.urandom(16).hex()
        query = urlencode({"token": challenge.name_of_token(self._token), "nonce": nonce})
        response, body = self._exchange("GET", f"{challenge.PATH}?{query}", None, {"Accept": "application/json"})
        shown = ""
        with contextlib.suppress(ValueError, KeyError, TypeError):
            shown = str(json.loads(body)["proof"]) if response.status == 200 else ""
        expected = challenge.proof(challenge.hash_of(self._token), nonce)
        if not hmac.compare_digest(shown.encode(), expected.encode()):
            raise RestError(
                f"the server at {self.address} does not know the token of '{REST_AUTH_TOKEN_FILE}', which was not sent "
                "to it: it is another program, or the token is not valid for this cluster",
                401,
            )

    def _exchange(
        self, method: str, path: str, content: str | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connection()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            advice = self._advice_on_tls(error)
            if not advice and self._advises and isinstance(error, ConnectionRefusedError):
                advice = self._advice()
            text = f"cannot reach the cluster at {self.address}: {reason}{'. ' if advice else ''}{advice}"
            raise UnreachableError(text) from error
        finally:
            connection.close()
        return response, body

    def _advice(self) -> str:
        """What to do when no process listens: of this user's own cluster there, the dispatcher alone may be missing."""
        from millstream.cli.cluster.directory import ClusterDirectory

        own = ClusterDirectory(cluster_directory(None))
        configuration, up = own.configuration(), [n for n, record in own.services().items() if record.is_running()]
        place = (configuration.get(REST_ADDRESS), configuration.get(REST_PORT))
        if up and "dispatcher-1" not in up and place == (self._host, self._port):
            return f"The dispatcher of the cluster in {own.root} is down: `millstream cluster start dispatcher`"
        return NO_CLUSTER

    def _advice_on_tls(self, error: Exception) -> str:
        """What to do when only one side uses HTTPS, or this one does not trust the other; else nothing."""
        if self._secured_by_secret and isinstance(error, ssl.SSLError):
            return (
                "The server there does not know the cluster's secret: it is another program, or a cluster whose "
                f"'{SECRET_FILE}' is another one, or that has none"
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"Name a file with its authority in '{SSL_REST_CA}' (-D {SSL_REST_CA}=...)"
        if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS_ANSWER:
            option = SSL_REST_ENABLED
            return f"It does not use HTTPS, but '{option}' is true here: set it to false (-D {option}=false)"
        closed = isinstance(error, (http.client.RemoteDisconnected, http.client.BadStatusLine, ConnectionResetError))
        if self._tls is None and closed and self._speaks_tls():
            option = SSL_REST_ENABLED
            return f"It uses HTTPS: set '{option}' (-D {option}=true) and '{SSL_REST_CA}' as the cluster has them"
        return ""

    def _speaks_tls(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
        try:
            with socket.create_connection((self._host, self._port), self._timeout) as connection:
                context.wrap_socket(connection, server_hostname=self._host).close()
        except OSError:
            return False
        return True

    def _reason(self, status: int, phrase: str, body: bytes) -> str:
        try:
            errors = [str(text).strip() for text in json.loads(body)["errors"]]
        except (ValueError, KeyError, TypeError):
            errors = []
        first = next((text for text in errors if text), "")
        return first.splitlines()[0] if first else f"{self.address} responded {status} {phrase}"


class _SecretConnection(http.client.HTTPSConnection):
    """To a server with a certificate of the cluster's secret, whatever its address is."""

    def __init__(self, host: str, port: int, *, timeout: float, context: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._of_secret = context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._of_secret.wrap_socket(self.sock, server_hostname=CLUSTER_NAME)


def _tls(configuration: Configuration) -> ssl.SSLContext | None:
    if not configuration.get(SSL_REST_ENABLED):
        return None
    authority, certificate = configuration.get(SSL_REST_CA), configuration.get(SSL_REST_CERT)
    option, trusted = (SSL_REST_CA, authority) if authority else (SSL_REST_CERT, certificate)
    try:
        context = ssl.create_default_context(cafile=authority or None)  # with one of our own, only that is trusted
        if certificate and not authority:
            context.load_verify_locations(certificate)
    except OSError as error:
        raise MillstreamError(f"option '{option}': cannot read {trusted}: {error.strerror or error}") from error
    if configuration.get(SSL_REST_AUTHENTICATION_ENABLED):
        key = configuration.get(SSL_REST_KEY)
        try:
            context.load_cert_chain(certificate, key, password="")
        except (OSError, ValueError) as error:
            raise MillstreamError(
                f"'{SSL_REST_CERT}' ({certificate}) and 'security.ssl.rest.key' ({key}) have to be a PEM certificate "
                f"and its unencrypted private key: {getattr(error, 'reason', None) or error}"
            ) from error
    return context
