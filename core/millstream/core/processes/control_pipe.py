"""The child's end of the pipe to the process that started it: messages over a socket pair, each behind a header.

The pipe is a file descriptor of a process that runs other people's code, which may write to it by mistake, read from
it, or close it. So every header begins with a mark: a reader that finds something else there knows at once that nothing
that follows can be understood, instead of taking it for the length of a message that never comes. And before each use
the child checks that its descriptor still is the pipe: the number of a closed one is given to the next file.

Between messages, the parent may send a probe, which the reading thread returns at once: a sign of life that depends on
no other thread of the child.

Imports next to nothing: it is on the path of every slot worker's start.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable

from millstream.core.processes.forking import keep_from_children
from millstream.core.processes.process_session import kill_session

_MARK = b"ms>\x01"
_HEADER = struct.Struct("<4sI")
HEADER_SIZE = _HEADER.size
PROBE = _HEADER.pack(b"ms?\x01", 0)
"""In place of a header: the child sends the same back."""
_PATIENCE = 10.0  # seconds that a parent has to kill a child which has lost its end of the pipe


class BrokenPipeContentError(Exception):
    """What came over the pipe is not of the process at its other end, or of another version of it."""


def framed(message: bytes) -> bytes:
    """A message as it goes over the pipe."""
    return _HEADER.pack(_MARK, len(message)) + message


def length_in(header: bytes) -> int:
    """The length of the message behind a header. Raises BrokenPipeContentError."""
    mark, length = _HEADER.unpack(header)
    if mark != _MARK:
        raise BrokenPipeContentError(f"its control pipe holds {header!r} where a message should begin")
    return int(length)


class ControlPipe:
    """The child's end: a reading thread, and writes from any thread."""

    def __init__(self, connection: socket.socket, patience: float = _PATIENCE) -> None:
        self._socket = connection
        self._patience = patience
        self._file = _file_at(connection.fileno())
        self._number = connection.fileno()
        keep_from_children(connection)
        self._lock = threading.Lock()

    def send(self, message: bytes) -> None:
        """Writes one message; does nothing when the parent is gone."""
        self._write(framed(message))

    def start(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        """Reads on a thread of its own; `on_end` when the parent is gone, or cannot be understood.

        When other code of this process has closed the pipe, the parent reads its end and kills this process with that
        reason. `on_end` is called if it does not, because it is gone as well.
        """
        threading.Thread(target=self._read, args=(on_message, on_end), name="control", daemon=True).start()

    def _read(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        try:
            while (header := self._exactly(HEADER_SIZE)) is not None:
                if header == PROBE:
                    self._write(PROBE)
                    continue
                message = self._exactly(length_in(header))
                if message is None:
                    break
                on_message(message)
        except Exception as error:  # a child that reads no more commands would be there for nothing
            print(f"ending: cannot decode what the parent has sent: {error}", file=sys.stderr)
        if not self._is_open():
            threading.Event().wait(self._patience)
        on_end()

    def _write(self, frame: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._is_open():
                self._socket.sendall(frame)

    def _is_open(self) -> bool:
        """Whether the descriptor still is the pipe. In a forked child it is not."""
        return _file_at(self._number) == self._file

    def close(self) -> None:
        """Ends the reading thread; `on_end` is called."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _exactly(self, length: int) -> bytes | None:
        parts: list[bytes] = []
        while length:
            if not self._is_open():
                return None
            try:
                part = self._socket.recv(min(length, 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _file_at(descriptor: int) -> tuple[int, int] | None:
    """Identifies the open file behind a descriptor; None when there is none."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
