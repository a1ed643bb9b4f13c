"""Child processes and threads with a control pipe: real processes, all of them gone at the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases
from waiting import DEADLINE

from millstream.core.environments.environments import Environment
from millstream.core.processes.child import ChildProcess, ChildThread, child_variables
from millstream.core.processes.control_pipe import PROBE, BrokenPipeContentError, ControlPipe, framed, length_in
from millstream.core.processes.supervised_child import SupervisedChild
from millstream.core.wire.pipes import WORKER_COMMAND
from millstream.core.wire.wire import WireError

HERE = Environment(sys.executable, (), None)

CHILD = """
import argparse, os, queue, signal, socket, subprocess, sys
from millstream.core.processes.control_pipe import ControlPipe, end_with_parent

parser = argparse.ArgumentParser()
parser.add_argument("--control-fd", type=int)
parser.add_argument("words", nargs="*")
arguments = parser.parse_args()
commands = queue.SimpleQueue()
heard, told = os.pipe()
pipe = ControlPipe(socket.socket(fileno=arguments.control_fd))
pipe.start(commands.put, end_with_parent)
pipe.send(" ".join(["ready", str(os.getpid()), *arguments.words]).encode())
while True:
    command, _, rest = commands.get().decode().partition(" ")
    if command == "echo":
        pipe.send(rest.encode())
    elif command == "exit":
        sys.exit(int(rest))
    elif command == "signal":
        os.kill(os.getpid(), int(rest))
    elif command == "spawn":
        pipe.send(str(subprocess.Popen(["sleep", "600"]).pid).encode())
    elif command == "fork":
        os.dup(arguments.control_fd)  # which the runtime does not know: the forked child keeps the pipe open
        forked = os.fork()
        if forked == 0:
            os.setsid() if rest == "and leave" else os.setpgid(0, 0)
            os.write(told, b"x")
            signal.pause()
        os.read(heard, 1)
        pipe.send(str(forked).encode())
    elif command == "close":
        pipe.send(b"closing")
        os.closerange(3, 1000)
    elif command == "where":
        pipe.send(f"{os.getcwd()} {os.environ.get('COLOUR')} {os.getsid(0) == os.getpid()}".encode())
"""

PARENT = """
import asyncio, sys
from millstream.core.processes.child import ChildProcess
from millstream.core.environments.environments import Environment

async def main():
    child = await ChildProcess.start(Environment(sys.executable, (), None), "child_under_test", [], [sys.argv[1]])
    child.send(b"spawn")
    await child.receive(lambda message: print(message.decode(), flush=True))

asyncio.run(main())
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    (tmp_path / "child_under_test.py").write_text(CHILD)
    (tmp_path / "parent_under_test.py").write_text(PARENT)
    return tmp_path


class Conversation:
    """A started child, and its messages."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.get_running_loop().create_task(child.receive(self._received.put_nowait))

    def send(self, words: str) -> None:
        self.child.send(words.encode())

    async def receive(self) -> str:
        return (await self._received.get()).decode()


@contextlib.asynccontextmanager
async def started(modules: Path, *words: str, **options: Any) -> AsyncIterator[Conversation]:
    environment = options.pop("environment", HERE)
    child = await ChildProcess.start(environment, "child_under_test", words, [str(modules)], **options)
    talk = Conversation(child)
    try:
        assert await talk.receive() == " ".join(["ready", str(child.pid), *words])
        yield talk
    finally:
        child.kill()
        await child.wait()
        await talk.closed


@contextlib.contextmanager
def watching(pid: int) -> Iterator[Callable[[], bool]]:
    """Returns whether the process ends within the deadline; a survivor is killed."""
    descriptor = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    try:
        yield lambda: bool(poll.poll(DEADLINE * 1000))
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        os.close(descriptor)


@pytest.mark.process
async def test_messages_are_delivered_in_order_in_both_directions(modules: Path) -> None:
    async with started(modules) as talk:
        for number in range(200):
            talk.send(f"echo {number}")
        assert [await talk.receive() for _ in range(200)] == [str(n) for n in range(200)]
        large = "x" * (3 << 20)
        talk.send(f"echo {large}")
        assert await talk.receive() == large


@pytest.mark.process
async def test_a_child_returns_probes_whatever_its_main_thread_does(modules: Path) -> None:
    async with started(modules) as talk:
        signs: asyncio.Queue[None] = asyncio.Queue()
        talk.child.on_sign_of_life = lambda: signs.put_nowait(None)
        for _ in range(3):  # the main thread waits for a command
            talk.child.probe()
            await signs.get()
        os.kill(talk.child.pid, signal.SIGSTOP)
        talk.child.probe()
        talk.send("echo after all")
        assert signs.empty()
        os.kill(talk.child.pid, signal.SIGCONT)
        assert await talk.receive() == "after all"
        assert signs.qsize() == 2, "of the probe and of the message"


@pytest.mark.process
async def test_a_child_whose_pipe_was_closed_by_its_own_code_is_killed_with_the_reason(modules: Path) -> None:
    launched: list[ChildProcess] = []

    async def launch() -> ChildProcess:
        launched.append(await ChildProcess.start(HERE, "child_under_test", [], [str(modules)]))
        return launched[0]

    def probe_when_closing(message: bytes) -> None:
        if message == b"closing":
            launched[0].probe()  # a thread that waits in `recv` keeps the file open until something comes

    child = SupervisedChild(launch, b"stop", 1.0)
    reason = await child.run(b"close", probe_when_closing)
    assert reason.startswith("killed: its control connection was closed while the process continued")
    assert not child.crashed


@pytest.mark.process
async def test_a_child_is_started_as_requested(modules: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    environment = Environment(sys.executable, (), str(folder))
    options = {"environment": environment, "variables": {"COLOUR": "red"}}
    async with started(modules, "a", "b c", **options) as talk:
        talk.send("where")
        assert await talk.receive() == f"{folder} red True"


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "reason", "crashed"),
    [
        ("exit 0", "exited with status 0", True),
        ("exit 3", "exited with status 3", True),
        (f"signal {int(signal.SIGSEGV)}", "was killed by SIGSEGV", True),
        (f"signal {int(signal.SIGTERM)}", "was killed by SIGTERM", False),
        (f"signal {int(signal.SIGKILL)}", "was killed by SIGKILL, not by Millstream", False),
    ],
)
async def test_the_end_of_a_child_reports_its_cause(modules: Path, command: str, reason: str, crashed: bool) -> None:
    async with started(modules) as talk:
        talk.send(command)
        await talk.closed
        assert (await talk.child.wait()).startswith(f"process {talk.child.pid} {reason}")
        assert talk.child.crashed is crashed
        talk.send("echo into the void")


@pytest.mark.process
async def test_a_child_that_cannot_be_started_raises(modules: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await ChildProcess.start(Environment("/nowhere/python", (), None), "child_under_test", [])


@pytest.mark.process
async def test_kill_ends_the_child_and_its_descendants(modules: Path) -> None:
    async with started(modules) as talk:
        talk.send("spawn")
        with watching(int(await talk.receive())) as ends:
            talk.child.kill()
            assert "SIGKILL" in await talk.child.wait()
            assert ends()


@pytest.mark.process
async def test_kill_reaches_the_descendants_of_a_child_that_is_gone(modules: Path) -> None:
    async with started(modules) as talk:
        talk.send("spawn")
        with watching(int(await talk.receive())) as ends:
            talk.send("exit 0")
            await talk.child.wait()
            talk.child.kill()
            assert ends()


@pytest.mark.process
@pytest.mark.parametrize("command", ["fork", "fork and leave"])
async def test_the_end_of_a_child_is_noticed_while_a_process_it_forked_holds_its_pipe(
    modules: Path, command: str
) -> None:
    async with started(modules) as talk:
        talk.send(command)
        forked = int(await talk.receive())
        with watching(forked) as ends:
            talk.send("echo last words")
            assert await talk.receive() == "last words"
            os.kill(talk.child.pid, signal.SIGKILL)
            assert "SIGKILL, not by Millstream" in await talk.child.wait()
            await talk.closed
            if command == "fork":  # into a process group of its own: it is still in the child's session
                assert ends()
            else:  # a process that has left on purpose is not touched
                os.kill(forked, 0)


@pytest.mark.process
async def test_messages_sent_before_the_end_of_a_child_are_delivered(modules: Path) -> None:
    async with started(modules) as talk:
        talk.send("fork and leave")
        with watching(int(await talk.receive())):
            for number in range(100):
                talk.send(f"echo {number} " + "x" * 1000)
            talk.send("exit 0")
            await talk.child.wait()
            await talk.closed
            assert [(await talk.receive()).split()[0] for _ in range(100)] == [str(n) for n in range(100)]


@pytest.mark.process
def test_when_the_parent_dies_the_child_and_its_children_die_with_it(modules: Path) -> None:
    command = [sys.executable, "-m", "parent_under_test", str(modules)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=modules, text=True) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline().split()[1])
            with watching(child) as child_ends, watching(int(parent.stdout.readline())) as grandchild_ends:
                parent.kill()
                assert child_ends()
                assert grandchild_ends()
        finally:
            parent.kill()


def test_import_paths_of_the_parent_do_not_leak_into_a_job_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/the/parent's")
    monkeypatch.setenv("PYTHONHOME", "/the/parent's")
    isolated = child_variables(Environment("python", ("/job/packages",), None), ["/extra"])
    assert isolated["PYTHONPATH"] == os.pathsep.join(["/job/packages", "/extra"])
    assert "PYTHONHOME" not in isolated
    assert child_variables(HERE)["PYTHONPATH"] == "/the/parent's"
    assert child_variables(HERE, variables={"A": "b"})["A"] == "b"


def test_a_child_keeps_the_memory_of_its_buffers_unless_configured_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MALLOC_MMAP_THRESHOLD_", raising=False)
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    variables = child_variables(HERE)
    assert int(variables["MALLOC_MMAP_THRESHOLD_"]) > 256 * 1024
    assert variables["MALLOC_TRIM_THRESHOLD_"] == "131072"


# Threads


def _echo(pipe: ControlPipe) -> None:
    commands: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    pipe.start(commands.put, lambda: commands.put(None))
    while (command := commands.get()) is not None:
        if command == b"fail":
            raise ValueError("on request")
        if command == b"end":
            return
        pipe.send(command)


@pytest.mark.parametrize(
    ("command", "reason"), [(b"end", "its thread ended"), (b"fail", "its thread ended with ValueError('on request')")]
)
async def test_a_thread_exchanges_messages_like_a_process(command: bytes, reason: str) -> None:
    child = await ChildThread.start(_echo, "echo")
    received: asyncio.Queue[bytes] = asyncio.Queue()
    closed = asyncio.get_running_loop().create_task(child.receive(received.put_nowait))
    for number in range(50):
        child.send(str(number).encode())
    assert [await received.get() for _ in range(50)] == [str(n).encode() for n in range(50)]
    child.send(command)
    assert await child.wait() == reason
    await closed
    child.send(b"into the void")


async def test_killing_a_thread_closes_its_pipe_and_does_not_wait() -> None:
    notified, leave = threading.Event(), threading.Event()

    def stubborn(pipe: ControlPipe) -> None:
        pipe.start(lambda message: None, notified.set)
        leave.wait(DEADLINE)

    child = await ChildThread.start(stubborn, "stubborn")
    child.kill()
    assert "cannot be killed" in await child.wait()
    assert await asyncio.to_thread(notified.wait, DEADLINE)
    leave.set()


# The pipe itself


@settings(max_examples=cases(30))
@given(st.lists(st.binary(max_size=2000), max_size=20))
def test_the_pipe_keeps_message_boundaries(messages: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ControlPipe(theirs).start(received.put, lambda: received.put(None))
        sender = ControlPipe(ours)
        for message in messages:
            sender.send(message)
        sender.close()
        assert [received.get(timeout=DEADLINE) for _ in messages] == messages
        assert received.get(timeout=DEADLINE) is None


@pytest.mark.parametrize("cut", [framed(b"cut short")[:end] for end in (2, 4, 8, 12)])
def test_a_truncated_message_is_the_end(cut: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ControlPipe(theirs).start(received.put, lambda: received.put(None))
        ours.sendall(framed(b"one") + cut)
        ours.shutdown(socket.SHUT_WR)
        assert received.get(timeout=DEADLINE) == b"one"
        assert received.get(timeout=DEADLINE) is None


@given(garbage=st.binary(min_size=8, max_size=50).filter(lambda content: not framed(b"").startswith(content[:4])))
def test_an_invalid_message_is_the_end_on_both_sides(garbage: bytes) -> None:
    with pytest.raises(BrokenPipeContentError, match="where a message should begin"):
        length_in(garbage[:8])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ControlPipe(theirs).start(received.put, lambda: received.put(None))
        ours.sendall(framed(b"one") + garbage + framed(b"two"))
        assert received.get(timeout=DEADLINE) == b"one"
        assert received.get(timeout=DEADLINE) is None


def test_a_child_that_receives_an_invalid_message_ends(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ended = threading.Event()
        ControlPipe(theirs).start(WORKER_COMMAND.from_bytes, ended.set)
        ours.sendall(framed(b"\xff"))
        assert ended.wait(DEADLINE)
    assert "cannot decode what the parent has sent: this is no millstream" in capsys.readouterr().err


async def test_a_child_that_sends_an_invalid_message_is_ended_with_the_reason() -> None:
    def speaks(pipe: ControlPipe) -> None:
        pipe.send(b"understood")
        pipe.send(b"\xff")
        stopped.wait(DEADLINE)

    stopped = threading.Event()
    received: list[bytes] = []

    def understand(message: bytes) -> None:
        if message != b"understood":
            raise WireError("this is no\nmessage")
        received.append(message)

    child = SupervisedChild(lambda: ChildThread.start(speaks, "child"), b"stop", 1.0)
    try:
        assert await child.run(b"start", understand) == "killed: this is no\\nmessage"
    finally:
        stopped.set()
    assert received == [b"understood"]


@given(st.lists(st.one_of(st.just(PROBE), st.binary(max_size=50).map(framed)), max_size=20))
def test_probes_between_messages_are_returned_and_not_delivered(frames: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ControlPipe(theirs).start(received.put, lambda: received.put(None))
        ours.sendall(b"".join(frames))
        ours.shutdown(socket.SHUT_WR)
        for frame in frames:
            if frame != PROBE:
                assert framed(received.get(timeout=DEADLINE) or b"") == frame
        assert received.get(timeout=DEADLINE) is None
        theirs.shutdown(socket.SHUT_WR)
        returned = b"".join(iter(lambda: ours.recv(1024), b""))
        assert returned == PROBE * frames.count(PROBE)


@contextlib.contextmanager
def replaced(connection: socket.socket) -> Iterator[socket.socket]:
    """Other code has closed this socket, and its number is that of another one; yields the other end of that."""
    theirs, end = socket.socketpair()
    with theirs, end:
        os.dup2(theirs.fileno(), connection.fileno())
        yield end


def test_a_closed_pipe_whose_number_another_file_has_is_neither_written_nor_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        ended = threading.Event()
        pipe = ControlPipe(theirs, patience=0.0)
        with replaced(theirs) as end:
            assert ours.recv(100) == b"", "the parent reads the end of the pipe"
            end.sendall(framed(b"not for the pipe"))
            pipe.send(b"not for the file")
            pipe.start(received.put, ended.set)
            assert ended.wait(DEADLINE), "the parent may be gone, too"
            assert received.empty()
            assert theirs.recv(100) == framed(b"not for the pipe")
            theirs.shutdown(socket.SHUT_WR)
            assert end.recv(100) == b""


def test_sending_to_a_parent_that_is_gone_does_nothing() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        pipe = ControlPipe(theirs)
        for _ in range(3):
            pipe.send(b"hello?")
        pipe.close()
