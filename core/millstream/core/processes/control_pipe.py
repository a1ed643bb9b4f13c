"""The child's end of the pipe to the process that started it: length-prefixed messages over a socket pair.

Imports next to nothing: it is on the path of every slot worker's start.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable

from millstream.core.processes.forking import keep_from_children
from millstream.core.processes.process_session import kill_session

LENGTH = struct.Struct("<I")


class ControlPipe:
    """The child's end: a reading thread, and writes from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        keep_from_children(connection)
        self._lock = threading.Lock()

    def send(self, message: bytes) -> None:
        """Writes one message; silently nothing when the parent is gone."""
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(LENGTH.pack(len(message)) + message)

    def start(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Reads on a thread of its own; `on_end` when the parent is gone."""
        threading.Thread(target=self._read, args=(on_message, on_end), name="control", daemon=True).start()

    def _read(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        while (header := self._exactly(LENGTH.size)) is not None:
            message = self._exactly(LENGTH.unpack(header)[0])
            if message is None:
                break
            on_message(message)
        on_end()

    def close(self) -> None:
        """Ends the reading thread; `on_end` is called."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _exactly(self, length: int) -> bytes | None:
        parts: list[bytes] = []
        while length:
            try:
                part = self._socket.recv(min(length, 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def follow_parent(pipe: int) -> None:
    """Ends this process group when the other end of a pipe is closed, which the parent holds as long as it lives."""

    def follow() -> None:
        while os.read(pipe, 1):
            continue
        end_with_parent()

    threading.Thread(target=follow, name="parent", daemon=True).start()


def end_with_parent() -> None:
    """What a child does when its parent is gone: ends everything in its session, at once, and itself last."""
    kill_session(os.getsid(0))
    os._exit(1)
