"""Child processes that start in a job's own environment, and the pipe to them.

Slot workers, enumerators and nothing else are started this way: in a session of their own, so that a signal reaches
them and what they started together, and connected by a socket pair that carries messages (`control_pipe.py`). When the
parent dies, however it dies, the child reads the end of the pipe and takes its whole session with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol

from millstream.core.environments.environment_use import in_use
from millstream.core.environments.environments import Environment
from millstream.core.linux.memory import peak_memory
from millstream.core.linux.processes import await_end
from millstream.core.processes.control_pipe import HEADER_SIZE, PROBE, ControlPipe, framed, length_in
from millstream.core.processes.forking import keep_from_children
from millstream.core.processes.memory import MemoryWatch
from millstream.core.processes.process_session import kill_session

_SENT: Final = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
)
"""Signals that users, services and the kernel's out-of-memory killer end a process with. A crash has others."""
_KEEPING_MEMORY: Final = {"MALLOC_MMAP_THRESHOLD_": str(2 << 20), "MALLOC_TRIM_THRESHOLD_": str(8 << 20)}
"""For glibc, unless the environment has others: network buffers come and go, and it would give their memory back to
the kernel each time. To get it again took a slot worker with event time a page fault for every 330 records, which is a
twentieth of its processor time; a quarter of those are left, and 8 MiB of free memory at the most."""


class Child(Protocol):
    """The parent's end: of a process, or in local mode for debuggers, of a thread."""

    crashed: bool
    """Once it has ended: whether it did so by itself, with a status or in a crash. A kill from outside is none."""

    def send(self, message: bytes) -> None:
        """Queues a message for the child; drops it when the child has ended."""

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        """Delivers the child's messages until it closes its end. Raises BrokenPipeContentError."""

    async def wait(self) -> str:
        """Waits for the end. Returns how it came about."""

    def kill(self) -> None:
        """Ends it at once, as far as that can be done."""


class ChildProcess:
    """A process of its own. Owned by one asyncio loop.

    A thread waits for the process itself. The end of the pipe is no sign of it: what the process has started may
    hold the pipe open. When the process has ended, so has what it left behind in its session, and the pipe: what the
    process wrote before is still delivered.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        connection: socket.socket,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._connection = connection
        self._reader = reader
        self._writer = writer
        self._killing = threading.Lock()
        self._is_gone = False
        self._was_killed = False
        self._memory = MemoryWatch.begin()
        self._receiving = False
        self.crashed = False
        self.on_sign_of_life: Callable[[], None] = lambda: None
        """Called when the child has sent anything, the response to a probe included."""
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        threading.Thread(target=self._watch, args=(self._ended.get_loop(),), name="child", daemon=True).start()

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
        keep_from_children(ours)
        # What the job brings comes before what lies in the folder that this process happens to work in.
        isolation = ["-P"] if environment.python_path else []
        paths = [*python_path, environment.working_directory or os.getcwd()] if isolation else python_path
        try:
            with in_use(environment.lock) as held:
                process = subprocess.Popen(  # noqa: ASYNC220  # asyncio does the same, and waits its own way
                    [environment.python, *isolation, "-m", module, "--control-fd", str(theirs.fileno()), *arguments],
                    env=child_variables(environment, paths, variables),
                    cwd=environment.working_directory,
                    stdin=subprocess.DEVNULL,
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
        except BaseException:  # else it would run on
            kill_session(process.pid)
            process.wait()
            raise
        return ChildProcess(process, ours, reader, writer)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Queues a message for the child."""
        if not self._writer.is_closing():
            self._writer.write(framed(message))

    def probe(self) -> None:
        """Has the child's reading thread give a sign of life, whatever its other threads do."""
        if not self._writer.is_closing():
            self._writer.write(PROBE)

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        """Delivers the child's messages until it closes its end, or is gone."""
        self._receiving = True
        try:
            await _receive(self._reader, on_message, lambda: self.on_sign_of_life())
        finally:
            self._receiving = False
            self._close_when_over()

    async def wait(self) -> str:
        """Waits for the end. Returns how it came about."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kills the child and everything in its session."""
        with self._killing:
            if not self._is_gone:
                self._was_killed = True
                kill_session(self.pid)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Waits for the end of the process, on a thread."""
        waited = None
        with contextlib.suppress(ChildProcessError):
            if not await_end(self.pid):
                waited = os.wait4(self.pid, 0)
        with self._killing:  # on Linux the process has not been waited for: its id is not given to another one
            kill_session(self.pid)
            reason = self._waited_for(waited)
            self._is_gone = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._has_ended, reason)

    def _waited_for(self, waited: tuple[int, int, resource.struct_rusage] | None) -> str:
        try:
            _, status, usage = waited or os.wait4(self.pid, 0)
        except ChildProcessError:
            self._process.returncode = 0
            return f"process {self.pid} ended; its status went to another part of this program that waits for children"
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        self.crashed = not self._was_killed and -code not in _SENT
        if code >= 0:
            return f"process {self.pid} exited with status {code}"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        reason = f"process {self.pid} was killed by {name}"
        if -code == signal.SIGKILL and not self._was_killed:
            reason += ", not by Millstream"
            if blamed := self._memory.blamed(peak_memory(usage)):
                reason += f"; {blamed}"
        return reason

    def _has_ended(self, reason: str) -> None:
        with contextlib.suppress(OSError):  # ends `receive`, behind what was written: others may hold the pipe open
            self._connection.shutdown(socket.SHUT_RD)
        _set_once(self._ended, reason)
        self._close_when_over()

    def _close_when_over(self) -> None:
        if self._ended.done() and not self._receiving:
            self._writer.close()


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
    return {
        **_KEEPING_MEMORY,
        **inherited,
        "PYTHONUNBUFFERED": "1",
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        **(variables or {}),
    }


class ChildThread:
    """The same conversation with a thread of this process, so that a debugger sees the user's functions.

    A thread cannot be killed: `kill` closes the pipe, and a user function that never returns keeps its thread.
    """

    def __init__(self, thread: asyncio.Future[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.crashed = False
        self._thread = thread
        self._reader = reader
        self._writer = writer

    @staticmethod
    async def start(target: Callable[[ControlPipe], None], name: str) -> ChildThread:
        """Runs `target` with its end of the pipe on a daemon thread."""
        ours, theirs = socket.socketpair()
        keep_from_children(ours)
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
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(_set_once, ended, reason)

        threading.Thread(target=run, name=name, daemon=True).start()
        reader, writer = await asyncio.open_connection(sock=ours)
        return ChildThread(ended, reader, writer)

    def send(self, message: bytes) -> None:
        """Queues a message for the thread."""
        if not self._writer.is_closing():
            self._writer.write(framed(message))

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


async def _receive(
    reader: asyncio.StreamReader, on_message: Callable[[bytes], None], on_anything: Callable[[], None] = lambda: None
) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            header = await reader.readexactly(HEADER_SIZE)
            on_anything()
            if header != PROBE:
                on_message(await reader.readexactly(length_in(header)))
