"""The HTTP server of the REST API, on the dispatcher's own asyncio loop. Signals stay with the process's main."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from millstream.core.errors import ConfigurationError, MillstreamError
from millstream.core.files.directories import private_folder
from millstream.core.processes.places import ACCEPTED_AT_ONCE, BACKLOG
from millstream.core.services.identity import identity_of_secret, server_context
from millstream.core.services.security import check_listen
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import (
    REST_ADDRESS,
    REST_BIND_ADDRESS,
    REST_PORT,
    REST_UNIX_SOCKET,
    SSL_REST_AUTHENTICATION_ENABLED,
    SSL_REST_CA,
    SSL_REST_CERT,
    SSL_REST_ENABLED,
    SSL_REST_KEY,
)
from millstream.dispatcher.rest.connection import BoundedConnection, ConnectionBounds, most_connections

log = logging.getLogger(__name__)
_GRACE = 2


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)
        self.listening.set()


class RestServer:
    """Listens on the configured address. Started and stopped once."""

    def __init__(self, configuration: Configuration) -> None:
        self.address = ""
        self._configuration = configuration
        self._server: _Server | None = None
        self._bounds: ConnectionBounds | None = None
        self._socket_file = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The API's base."""
        scheme = "https" if self._configuration.get(SSL_REST_ENABLED) else "http"
        return f"{scheme}://{self.address}"

    async def start(self, app: ASGIApp) -> None:
        """Listens and serves. Raises MillstreamError when the address cannot be had."""
        host = self._configuration.get(REST_BIND_ADDRESS)
        check_listen(host, self._configuration, SSL_REST_ENABLED, REST_BIND_ADDRESS)
        certificate, authority = self._certificate(), self._authority_of_clients()
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http=BoundedConnection,
            backlog=ACCEPTED_AT_ONCE,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE,
            ssl_certfile=certificate[0],
            ssl_keyfile=certificate[1],
            ssl_ca_certs=authority,
            ssl_cert_reqs=ssl.CERT_NONE if authority is None else ssl.CERT_REQUIRED,
        )
        logging.getLogger("uvicorn").setLevel(logging.WARNING)  # the dispatcher itself logs where it listens
        self._load(config)
        self._socket_file = self._configuration.get(REST_UNIX_SOCKET)
        local = listen_locally(self._socket_file) if self._socket_file else None
        try:
            listener = listen(host, self._configuration.get(REST_PORT))
        except MillstreamError:
            if local is not None:
                self._close(local)
            raise
        self.address = f"{self._reached_at(host)}:{listener.getsockname()[1]}"
        self._server = _Server(config)
        listeners = [listener] if local is None else [listener, local]
        self._task = asyncio.create_task(self._serve(self._server, listeners))
        listening = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait([self._task, listening], return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        if self._task.done():
            self._task.result()

    def _load(self, config: uvicorn.Config) -> None:
        """Leaves TLS handshakes to the connections, as uvicorn bounds neither their number nor their time."""
        try:
            config.load()
        except (ssl.SSLError, OSError) as error:
            raise ConfigurationError(
                f"options 'security.ssl.rest.cert', '.key' and '.ca' do not work: {error}"
            ) from error
        own = identity_of_secret(self._configuration)
        offered = server_context(own) if own is not None and config.ssl is None else None
        self._bounds = ConnectionBounds(most_connections(), config.ssl, offered)
        config.ssl = None
        made: Any = functools.partial(BoundedConnection, bounds=self._bounds)
        config.http_protocol_class = made

    async def _serve(self, server: _Server, listeners: list[socket.socket]) -> None:
        try:
            await server.serve(sockets=listeners)
        finally:
            for listener in listeners:
                self._close(listener)

    def _close(self, listener: socket.socket) -> None:
        if listener.family == socket.AF_UNIX:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._socket_file)
        listener.close()

    def _reached_at(self, host: str) -> str:
        if self._configuration.is_set(REST_ADDRESS) or host in ("0.0.0.0", "::", ""):
            return self._configuration.get(REST_ADDRESS)
        return host

    def _certificate(self) -> tuple[str | None, str | None]:
        if not self._configuration.get(SSL_REST_ENABLED):
            return None, None
        paths = []
        for key in (SSL_REST_CERT, SSL_REST_KEY):
            path = self._configuration.get(key)
            if not path or not Path(path).is_file():
                raise ConfigurationError(f"option '{key}': no file at '{path}'; it is needed for HTTPS")
            paths.append(path)
        return paths[0], paths[1]

    def _authority_of_clients(self) -> str | None:
        """The file with the authority of clients' certificates; None: they need none."""
        if not self._configuration.get(SSL_REST_AUTHENTICATION_ENABLED):
            return None
        path = self._configuration.get(SSL_REST_CA)
        if not self._configuration.get(SSL_REST_ENABLED):
            raise ConfigurationError(
                f"option '{SSL_REST_AUTHENTICATION_ENABLED}' needs HTTPS: set '{SSL_REST_ENABLED}' as well"
            )
        if not path or not Path(path).is_file():
            raise ConfigurationError(
                f"option '{SSL_REST_CA}': no file at '{path}'; it is needed for '{SSL_REST_AUTHENTICATION_ENABLED}'"
            )
        return path

    async def failure(self) -> MillstreamError:
        """Returns when the server ended by itself."""
        if self._task is None:
            await asyncio.get_running_loop().create_future()
        assert self._task is not None
        await asyncio.wait([self._task])
        error = None if self._task.cancelled() else self._task.exception()
        return MillstreamError(f"the REST server at {self.address} ended: {error or 'for no known reason'}")

    async def stop(self) -> None:
        """Lets responses finish for a moment, then closes everything."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            if self._bounds is not None:
                self._bounds.close_silent()
            await asyncio.wait([self._task])
            self._server = None


def listen(host: str, port: int) -> socket.socket:
    """Where connections are taken from. Raises MillstreamError when the address cannot be had.

    What they carry is sent at once, which asyncio sees to only where a socket names its protocol: a response's head and
    body are written one after the other, and the second waited 40 ms for the client to confirm the first.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        reason = "is the port in use?" if error.errno is not None and port else str(error)
        raise MillstreamError(f"cannot listen on {host}:{port} (rest.port): {reason}") from error
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def listen_locally(file: str) -> socket.socket | None:
    """The Unix socket of this user; None when another process of theirs serves it. Raises MillstreamError.

    Its folder is this user's alone: so every client is this user, and so is the process that a client finds there.
    """
    path = Path(file).absolute()
    private_folder(path.parent, option=REST_UNIX_SOCKET)
    listener = socket.socket(socket.AF_UNIX)
    try:
        try:
            listener.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)  # of a process that was killed
        except FileNotFoundError:
            pass
        else:
            log.info("did not bind %s: another process serves it", path)
            listener.close()
            return None
        listener.bind(str(path))
        os.chmod(path, 0o600)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise MillstreamError(f"cannot listen on {path} ({REST_UNIX_SOCKET}): {error.strerror or error}") from error
    return listener
