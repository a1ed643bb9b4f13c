"""A program that listens where a service did, records what it is sent and responds as clients expect."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from waiting import DEADLINE

ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 24\r\nConnection: close\r\n\r\n"
    b'{"jobs":[],"proof":"0"}\n'
)


class Impostor:
    """Listens on the port of another service."""

    def __init__(self, port: int) -> None:
        self.connections = 0
        self.recorded = b""
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection, contextlib.suppress(OSError):
                connection.settimeout(DEADLINE)
                self.recorded += connection.recv(65536)
                connection.sendall(ANSWER)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextlib.contextmanager
def impostor(port: int) -> Iterator[Impostor]:
    found = Impostor(port)
    try:
        yield found
    finally:
        found.close()
