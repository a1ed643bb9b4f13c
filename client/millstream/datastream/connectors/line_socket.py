"""A thread that reads delimited text from a TCP socket into a bounded buffer.

The thread owns the socket. The buffer is shared under one lock; when it is full the thread stops reading, so the sender
feels the backpressure through TCP. `close` interrupts every wait of the thread: connecting, reading, a full buffer and
the pause between two attempts; only a name lookup cannot be interrupted, and then the thread ends automatically after
it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.malformed import DeadLetter

LARGEST_RECORD = 64 * 1024 * 1024
_CLOSE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class SocketOptions:
    """Where to connect and how to cut the stream. `max_retry` -1 retries forever."""

    host: str
    port: int
    delimiter: str = "\n"
    max_retry: int = 0
    retry_delay: float = 0.5
    buffered_records: int = 65536


class _ClosedError(Exception):
    """The reader was closed while the thread waited."""


class LineSocket:
    """Starts reading at once. `on_change` is called from the thread when there is something to take."""

    def __init__(self, options: SocketOptions, on_change: Callable[[], None]) -> None:
        self._options = options
        self._on_change = on_change
        self._address = f"{options.host}:{options.port}"
        self._records: deque[str | DeadLetter] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._ended = False
        self._error: ConnectorError | None = None
        self._interrupt, self._interrupter = socket.socketpair()
        self._interrupt.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"socket {options.host}:{options.port}", daemon=True)
        self._thread.start()

    def take(self, count: int) -> list[str | DeadLetter] | None:
        """At most `count` records, or what is none; none when there are none now, None when the stream ended.

        Raises its error.
        """
        with self._changed:
            if self._records:
                taken = list(islice(self._records, count))
                for _ in taken:
                    self._records.popleft()
                self._changed.notify()
                return taken
            if self._error is not None:
                raise self._error
            return None if self._ended else []

    def close(self) -> None:
        """Ends the thread. May be called twice."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        self._interrupter.close()
        self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        options = self._options
        retries = 0
        try:
            while True:
                failure: ConnectorError | None = None
                try:
                    self._read_connection()
                except (OSError, UnicodeError) as error:
                    failure = self._failed(error)
                if options.max_retry != -1 and retries >= options.max_retry:
                    self._finish(failure)
                    return
                retries += 1
                self._wait(None, 0, options.retry_delay)
        except _ClosedError:
            self._finish(None)
        except ConnectorError as error:
            self._finish(error)
        except Exception as error:
            self._finish(self._failed(error))
        finally:
            self._interrupt.close()

    def _failed(self, error: Exception) -> ConnectorError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        failure = ConnectorError(f"socket source {self._address}: {reason}")
        failure.__cause__ = error
        return failure

    def _finish(self, error: ConnectorError | None) -> None:
        with self._changed:
            self._ended = True
            self._error = error
        self._on_change()

    def _wait(self, sock: socket.socket | None, event: int, timeout: float | None = None) -> None:
        """Until the socket is ready, the time is over, or the reader is closed."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._interrupt, selectors.EVENT_READ)
            if sock is not None:
                selector.register(sock, event)
            for key, _ in selector.select(timeout):
                if key.fileobj is self._interrupt:
                    raise _ClosedError

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

    def _read_connection(self) -> None:
        """One connection, from its start to its end."""
        delimiter = self._options.delimiter.encode()
        rest, offset = b"", 0
        with self._connect() as sock, selectors.DefaultSelector() as selector:
            selector.register(self._interrupt, selectors.EVENT_READ)
            selector.register(sock, selectors.EVENT_READ)
            while True:
                if any(key.fileobj is self._interrupt for key, _ in selector.select()):
                    raise _ClosedError
                with contextlib.suppress(BlockingIOError):
                    data = sock.recv(65536)
                    *records, rest = (rest + data).split(delimiter)
                    if not data and rest:
                        records.append(rest)
                    if len(rest) > LARGEST_RECORD:
                        raise ConnectorError(
                            f"socket source {self._address}: no delimiter {self._options.delimiter!r} in "
                            f"{LARGEST_RECORD} bytes; is it the right one?"
                        )
                    self._put(self._decoded(records, offset))
                    offset += sum(map(len, records)) + len(records) * len(delimiter)
                    if not data:
                        return

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

    def _put(self, records: list[str | DeadLetter]) -> None:
        if not records:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._records) < self._options.buffered_records)
            if self._closed:
                raise _ClosedError
            self._records.extend(records)
        self._on_change()
