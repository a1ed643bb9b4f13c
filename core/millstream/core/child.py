"""Child processes that start in a job's own environment, and the pipe to them.

Slot workers, coordinators and nothing else are started this way: in a session of their own, so that a signal reaches
them and what they started together, and connected by a socket pair that carries length-prefixed messages. When the
parent dies, however it dies, the child reads the end of the pipe and takes its whole process group with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol

from millstream.core.control_pipe import LENGTH, ControlPipe
from millstream.core.environment_use import in_use
from millstream.core.environments import Environment


class Child(Protocol):
    """The parent's end: of a process, or in local mode for debuggers, of a thread."""

    def send(self, message: bytes) -> None:
        """Queues a message for the child; goes nowhere when it is dead."""

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        """Delivers the child's messages until it closes its end."""

    async def wait(self) -> str:
        """Waits for the end and says how it came about."""

    def kill(self) -> None:
        """Ends it at once, as far as that can be done."""


class ChildProcess:
    """A process of its own. Owned by one asyncio loop."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def start(
        environment: Environment,
        module: str,
        arguments: Sequence[str],
        python_path: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        stdout: IO[bytes] | int | None = None,
        stderr: IO[bytes] | int | None = None,
    ) -> ChildProcess:
        """Starts `python -m module --control-fd N arguments` in the environment."""
        ours, theirs = socket.socketpair()
        try:
            with in_use(environment.lock) as held:
                process = await asyncio.create_subprocess_exec(
                    environment.python,
                    *("-m", module, "--control-fd", str(theirs.fileno()), *arguments),
                    env=child_variables(environment, python_path, variables),
                    cwd=environment.working_directory,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    pass_fds=(theirs.fileno(), *held),
                    start_new_session=True,
                )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:  # nobody would end it
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await asyncio.shield(process.wait())
            raise
        return ChildProcess(process, reader, writer)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Queues a message for the child."""
        if not self._writer.is_closing():
            self._writer.write(LENGTH.pack(len(message)) + message)

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        """Delivers the child's messages until it closes its end."""
        await _receive(self._reader, on_message)

    async def wait(self) -> str:
        """Waits for the end and says how it came about."""
        code = await self._process.wait()
        self._writer.close()
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"process {self.pid} was killed by {signal.Signals(-code).name}"
        return f"process {self.pid} exited with status {code}"

    def kill(self) -> None:
        """Kills the child and everything in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def child_variables(
    environment: Environment, python_path: Sequence[str] = (), variables: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment variables of a process that runs in a job's environment."""
    inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    paths = [*environment.python_path, *python_path]
    if environment.python_path or python_path:
        inherited["PYTHONPATH"] = os.pathsep.join(str(Path(p)) for p in paths)
    elif "PYTHONPATH" in os.environ:
        inherited["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return {**inherited, "PYTHONUNBUFFERED": "1", **(variables or {})}


class ChildThread:
    """The same conversation with a thread of this process, so that a debugger sees the user's functions.

    A thread cannot be killed: `kill` closes the pipe, and a user function that never returns keeps its thread.
    """

    def __init__(self, thread: asyncio.Future[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._thread = thread
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def start(target: Callable[[ControlPipe], None], name: str) -> ChildThread:
        """Runs `target` with its end of the pipe on a daemon thread."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[str] = loop.create_future()

        def run() -> None:
            reason = "its thread ended"
            try:
                target(ControlPipe(theirs))
            except BaseException as error:
                reason = f"its thread ended with {error!r}"
            finally:
                theirs.close()
                with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits
                    loop.call_soon_threadsafe(_set_once, ended, reason)

        threading.Thread(target=run, name=name, daemon=True).start()
        reader, writer = await asyncio.open_connection(sock=ours)
        return ChildThread(ended, reader, writer)

    def send(self, message: bytes) -> None:
        """Queues a message for the thread."""
        if not self._writer.is_closing():
            self._writer.write(LENGTH.pack(len(message)) + message)

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        """Delivers the thread's messages until it ends."""
        await _receive(self._reader, on_message)

    async def wait(self) -> str:
        """Waits for the end."""
        reason = await asyncio.shield(self._thread)
        self._writer.close()
        return reason

    def kill(self) -> None:
        """Closes the pipe, and gives the thread up."""
        self._writer.close()
        _set_once(self._thread, "its thread was abandoned: in-process tasks cannot be killed")


def _set_once(future: asyncio.Future[str], result: str) -> None:
    if not future.done():
        future.set_result(result)


async def _receive(reader: asyncio.StreamReader, on_message: Callable[[bytes], None]) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            on_message(await reader.readexactly(length))
