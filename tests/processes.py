"""The processes that tests start: what they inherit, which of them still run, and their end.

A process that a test started is found by a text that only it has in its command line or environment, such as a folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_OF_USERS = ("MILLSTREAM_CONF_DIR", "MILLSTREAM_CLUSTER_DIR", "PYTHONPATH")


def fresh_environment(**variables: str) -> dict[str, str]:
    """The environment of this process with these variables, and without those that select a cluster or modules."""
    return {key: value for key, value in os.environ.items() if key not in _OF_USERS} | variables


def processes_with(text: str) -> list[int]:
    """The live processes whose command line or environment contains this text, except this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) != os.getpid():
            try:
                seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if text.encode() in seen and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def kill_those_with(text: str) -> None:
    """Kills them at once."""
    for pid in processes_with(text):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def frozen(*pids: int) -> Iterator[None]:
    """Stops these processes inside of the context. They may be killed."""
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


_TRACER = """
import ctypes, os, sys
SEIZE, libc = 0x4206, ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
if libc.ptrace(SEIZE, int(sys.argv[1]), None, None):
    sys.exit(os.strerror(ctypes.get_errno()))
print("attached", flush=True)
sys.stdin.read()
"""


@contextmanager
def traced(pid: int) -> Iterator[None]:
    """Has another process trace this one inside of the context, as a debugger does."""
    command = [sys.executable, "-c", _TRACER, str(pid)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdin is not None
        try:
            if not tracer.stdout.readline():
                pytest.skip("this host lets no process trace another")
            yield
        finally:
            tracer.stdin.close()


@contextmanager
def held(pid: int) -> Iterator[None]:
    """Stops a process inside of the context as a debugger does: what supervises it waits, and does not kill it."""
    with frozen(pid), traced(pid):  # a tracer alone would stop one of its threads
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)  # while it is traced: stopped without a tracer, it could be killed


def command_of(pid: int) -> str:
    """Its command line; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """The process that started it."""
    return int(_stat(pid)[1])


def is_alive(pid: int) -> bool:
    """Whether the process exists and is not merely waiting to be reaped."""
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def _stat(pid: int) -> list[str]:
    """The fields of its stat file after its name: its state, its parent, and more."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
