"""Reads delimited text from a TCP socket, in the thread of a `FetchingReader`.

When the reader has no room, nothing is read, so the sender feels the backpressure through TCP. `wake_up` interrupts
connecting, reading and the pause between two attempts; only a name lookup cannot be interrupted, and then the thread
ends automatically after it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from dataclasses import dataclass
from typing import Any

from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.fetching import Fetched, SplitReader
from millstream.datastream.connectors.malformed import DeadLetter

LARGEST_RECORD = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Where to connect and how to cut the stream. `max_retry` -1 retries forever."""

    host: str
    port: int
    delimiter: str = "\n"
    max_retry: int = 0
    retry_delay: float = 0.5


class _WokenError(Exception):
    """The thread is wanted for something else while it waits."""


class LineSocket(SplitReader[Any]):
    """Reads one connection, which is its split, and connects again as the options have it."""

    def __init__(self, options: SocketOptions) -> None:
        self._options = options
        self._address = f"{options.host}:{options.port}"
        self._split: Any = None
        self._socket: socket.socket | None = None
        self._rest, self._offset = b"", 0  # of the connection
        self._retries = 0
        self._pauses = False  # before the next attempt
        self._interrupt, self._interrupter = socket.socketpair()
        self._interrupt.setblocking(False)

    def add_splits(self, splits: list[Any]) -> None:
        """The one connection; the options say where to connect."""
        (self._split,) = splits

    def wake_up(self) -> None:
        """Interrupts connecting, reading and the pause between two attempts."""
        with contextlib.suppress(OSError):  # closed
            self._interrupter.send(b"!")

    @override
    def fetch(self) -> list[Fetched[Any]]:
        try:
            if self._pauses:
                self._wait(None, 0, self._options.retry_delay)
                self._pauses = False
            if self._socket is None:
                self._rest, self._offset = b"", 0
                self._socket = self._connect()
            return self._read(self._socket)
        except _WokenError:
            return []
        except (OSError, UnicodeError) as error:
            self._disconnect()
            return self._over(self._failed(error))

    def close(self) -> None:
        """Closes the connection."""
        self._disconnect()
        self._interrupter.close()
        self._interrupt.close()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _over(self, failure: ConnectorError | None) -> list[Fetched[Any]]:
        """A connection has ended, or was not made: another one follows, or the end."""
        options = self._options
        if options.max_retry == -1 or self._retries < options.max_retry:
            self._retries += 1
            self._pauses = True
            return []
        if failure is not None:
            raise failure
        return [self._fetched([], ended=True)]

    def _fetched(self, records: list[str | DeadLetter], ended: bool = False) -> Fetched[Any]:
        """What was read cannot be read again: the position is always the same."""
        return Fetched(self._split.split_id, RowBatch(records), lambda count: self._split, ended)

    def _failed(self, error: Exception) -> ConnectorError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        failure = ConnectorError(f"socket source {self._address}: {reason}")
        failure.__cause__ = error
        return failure

    def _wait(self, sock: socket.socket | None, event: int, timeout: float | None = None) -> None:
        """Until the socket is ready, the time is over, or the thread is wanted for something else."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._interrupt, selectors.EVENT_READ)
            if sock is not None:
                selector.register(sock, event)
            for key, _ in selector.select(timeout):
                if key.fileobj is self._interrupt:
                    self._interrupt.recv(65536)
                    raise _WokenError

    def _connect(self) -> socket.socket:
        last = OSError("the name has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self._options.host, self._options.port, type=socket.SOCK_STREAM
        ):
            with contextlib.ExitStack() as undo:
                sock = undo.enter_context(socket.socket(family, kind, protocol))
                sock.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    sock.connect(address)
                self._wait(sock, selectors.EVENT_WRITE)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    undo.pop_all()
                    return sock
                last = OSError(code, os.strerror(code))
        raise last

    def _read(self, sock: socket.socket) -> list[Fetched[Any]]:
        """What has come."""
        delimiter = self._options.delimiter.encode()
        self._wait(sock, selectors.EVENT_READ)
        try:
            data = sock.recv(65536)
        except BlockingIOError:
            return []
        *records, self._rest = (self._rest + data).split(delimiter)
        if not data and self._rest:
            records.append(self._rest)
        if len(self._rest) > LARGEST_RECORD:
            raise ConnectorError(
                f"socket source {self._address}: no delimiter {self._options.delimiter!r} in {LARGEST_RECORD} bytes; "
                "is it the right one?"
            )
        fetched = [self._fetched(self._decoded(records, self._offset))] if records else []
        self._offset += sum(map(len, records)) + len(records) * len(delimiter)
        if not data:
            self._disconnect()
            fetched += self._over(None)
        return fetched

    def _decoded(self, records: list[bytes], offset: int) -> list[str | DeadLetter]:
        """As text, with a dead letter in the place of what is none. Offsets count from the connection's beginning."""
        decoded: list[str | DeadLetter] = []
        lines = self._options.delimiter == "\n"
        for record in records:
            try:
                text = record.decode()
                decoded.append(text.removesuffix("\r") if lines else text)
            except UnicodeDecodeError as error:
                decoded.append(DeadLetter(self._address, offset, record, f"not valid utf-8: {error.reason}"))
            offset += len(record) + len(self._options.delimiter.encode())
        return decoded
