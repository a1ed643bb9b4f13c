"""A proxy between one session and ZooKeeper: the test decides what is forwarded.

It implements as much of ZooKeeper's protocol as it takes to end a session in place of the client, and to recognise
writes of entries, which are the only transactions that the store makes. Runs on threads, so that an operation of a test
is complete when the call returns.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from enum import Enum, auto

_TRANSACTION = 14
_CLOSE = -11
_HELLO = struct.Struct(">iqiq")  # version of the protocol, last number seen, timeout, session
_WELCOME = struct.Struct(">iiq")  # version of the protocol, timeout, session


class _Passes(Enum):
    EVERYTHING = auto()
    KNOWN_SESSIONS = auto()
    """Only clients with a session, which are informed that it has expired; no new sessions."""
    NOTHING = auto()


class ZookeeperProxy:
    """Listens on `port`."""

    def __init__(self, server_port: int) -> None:
        self._server = ("127.0.0.1", server_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.RLock()
        self._passes = _Passes.EVERYTHING
        self._breaks_off: bool | None = None
        self._session = (0, b"")
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    # For tests

    def suspend(self) -> None:
        """Blocks everything."""
        self._cut(_Passes.NOTHING)

    def break_off_in_transaction(self, takes_effect: bool) -> None:
        """The next transaction gets no response, and then everything is blocked. It reaches the server, or does not."""
        self._breaks_off = takes_effect

    def lose(self) -> None:
        """The session has expired in ZooKeeper when this returns; no new ones are created."""
        self._cut(_Passes.NOTHING)
        self._end_session()
        self._passes = _Passes.KNOWN_SESSIONS

    def resume(self) -> None:
        """Forwards everything again."""
        self._passes = _Passes.EVERYTHING

    def close(self) -> None:
        """Ends all threads."""
        self._cut(_Passes.NOTHING)
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _cut(self, passes: _Passes) -> None:
        with self._lock:
            self._passes = passes
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it

    def _end_session(self) -> None:
        session, password = self._session
        with socket.create_connection(self._server) as server:
            hello = _HELLO.pack(0, 0, 10_000, session) + struct.pack(">i", len(password)) + password + b"\0"
            _send(server, hello)
            if _WELCOME.unpack_from(_receive(server))[1] > 0:  # otherwise it had expired before
                _send(server, struct.pack(">ii", 1, _CLOSE))
                with suppress(OSError):
                    while struct.unpack_from(">i", _receive(server))[0] != 1:
                        pass

    # Threads

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket() as server, suppress(OSError):
            with self._lock:
                if self._passes is _Passes.NOTHING:
                    return
                self._open |= {client, server}
            try:
                hello = _receive(client)
                if self._passes is _Passes.KNOWN_SESSIONS and not _HELLO.unpack_from(hello)[3]:
                    return
                server.connect(self._server)
                _send(server, hello)
                welcome = _receive(server)
                _, timeout, session = _WELCOME.unpack_from(welcome)
                if timeout > 0:
                    self._session = (session, welcome[_WELCOME.size + 4 :][:16])
                _send(client, welcome)
                self._pass(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        """Forwards until one of them ends."""
        swallowed: set[int] = set()
        responses = threading.Thread(target=self._pass_responses, args=(client, server, swallowed), daemon=True)
        responses.start()
        try:
            while True:
                request = _receive(client)
                number, kind = struct.unpack_from(">ii", request)
                if kind == _TRANSACTION and self._breaks_off is not None:
                    takes_effect, self._breaks_off = self._breaks_off, None
                    if not takes_effect:
                        self.suspend()
                        return
                    swallowed.add(number)
                _send(server, request)
        finally:
            for connection in (client, server):
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            responses.join()

    def _pass_responses(self, client: socket.socket, server: socket.socket, swallowed: set[int]) -> None:
        with suppress(OSError):
            while True:
                response = _receive(server)
                if struct.unpack_from(">i", response)[0] in swallowed:
                    self.suspend()
                    return
                _send(client, response)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


def _send(to: socket.socket, message: bytes) -> None:
    to.sendall(struct.pack(">i", len(message)) + message)


def _receive(of: socket.socket) -> bytes:
    """Receives one message. Raises OSError at the end of the connection."""
    (length,) = struct.unpack(">i", _exactly(of, 4))
    return _exactly(of, length)


def _exactly(of: socket.socket, length: int) -> bytes:
    received = bytearray()
    while len(received) < length:
        part = of.recv(length - len(received))
        if not part:
            raise ConnectionError("closed")
        received += part
    return bytes(received)
