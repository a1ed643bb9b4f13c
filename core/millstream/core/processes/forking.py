"""Children that user code forks off a process of ours: with `os.fork`, or `multiprocessing` and what is built on it.

Such a child has a copy of everything but the threads. Two things must not happen in it:

- It must not hold or touch our connections. One that outlives its parent would keep them open, and its peers would not
  notice that the parent is gone; one that ends in order would shut them down under its parent. So the first thing in a
  forked child is that our sockets are replaced by the null device. They are known by the ports that we listen on and
  dial, because gRPC keeps its sockets to itself; the user's own stay as they are.
- It must not continue with our loops, as a second worker that is not registered. When the user's function is over, so
  is it.

A program that is started in place of the child (`subprocess`, spawn, forkserver) inherits nothing of ours anyway.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator
from io import FileIO

_DESCRIPTORS = "/dev/fd"
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_files: weakref.WeakSet[FileIO] = weakref.WeakSet()
_ports: set[int] = set()
_forked = False


def keep_from_children(connection: socket.socket) -> None:
    """A socket of ours: no child gets it, forked or not."""
    connection.set_inheritable(False)
    _sockets.add(connection)


def keep_file_from_children(file: FileIO) -> None:
    """A file of ours that is locked: a child that outlives its parent would hold the lock."""
    _files.add(file)


def keep_port_from_children(address: str) -> None:
    """An address that this process listens on, or connects to: no forked child gets these connections."""
    with contextlib.suppress(ValueError):
        _ports.add(int(address.rpartition(":")[2]))


def loops_start_here() -> None:
    """A loop of ours is about to run in this process; also in a forked child, which may run a job of its own."""
    global _forked
    _forked = False


def leave_if_forked(raised: BaseException | None = None) -> None:
    """Called where the runtime comes back from a user's function: ends a forked child there, as its own end would."""
    if _forked:
        _leave(raised)


def _leave(raised: BaseException | None) -> None:
    status: object = 0
    if isinstance(raised, SystemExit):
        status = 0 if raised.code is None else raised.code
        if not isinstance(status, int):
            print(status, file=sys.stderr)
    elif raised is not None:
        traceback.print_exception(raised)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status & 0xFF if isinstance(status, int) else 1)


def _after_fork() -> None:
    global _forked
    _forked = True
    with contextlib.suppress(OSError):
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in {*_registered(), *_of_our_ports()}:
            os.dup2(null, descriptor, inheritable=False)  # not closed: its number would be given to something else
        os.close(null)
    _sockets.clear()
    _files.clear()
    _ports.clear()


def _registered() -> Iterator[int]:
    yield from (number for connection in _sockets if (number := connection.fileno()) >= 0)
    yield from (file.fileno() for file in _files if not file.closed)


def _of_our_ports() -> Iterator[int]:
    for name in os.listdir(_DESCRIPTORS) if _ports else ():
        number = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as connection:
                ours = not _ports.isdisjoint((_port(connection.getsockname), _port(connection.getpeername)))
        except OSError:
            continue
        if ours:
            yield number


def _port(address_of: Callable[[], object]) -> int | None:
    try:
        address = address_of()
    except OSError:  # it is not connected
        return None
    return address[1] if isinstance(address, tuple) else None


os.register_at_fork(after_in_child=_after_fork)
