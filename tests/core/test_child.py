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
from millstream.core.processes.control_pipe import BrokenPipeContentError, ControlPipe, framed, length_in
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
        os.dup(arguments.control_fd)  # which nobody knows of: the forked child keeps the pipe open
        forked = os.fork()
        if forked == 0:
            os.setsid() if rest == "and leave" else os.setpgid(0, 0)
            os.write(told, b"x")
            signal.pause()
        os.read(heard, 1)
        pipe.send(str(forked).encode())
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
    """A started child, and what it says."""

    def __init__(self, child: ChildProcess) -> None:
        self.child = child
        self._heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = asyncio.get_running_loop().create_task(child.receive(self._heard.put_nowait))

    def say(self, words: str) -> None:
        self.child.send(words.encode())

    async def hear(self) -> str:
        return (await self._heard.get()).decode()


@contextlib.asynccontextmanager
async def started(modules: Path, *words: str, **options: Any) -> AsyncIterator[Conversation]:
    environment = options.pop("environment", HERE)
    child = await ChildProcess.start(environment, "child_under_test", words, [str(modules)], **options)
    talk = Conversation(child)
    try:
        assert await talk.hear() == " ".join(["ready", str(child.pid), *words])
        yield talk
    finally:
        child.kill()
        await child.wait()
        await talk.closed


@contextlib.contextmanager
def watching(pid: int) -> Iterator[Callable[[], bool]]:
    """Answers whether the process ends within the deadline; a survivor is killed."""
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
async def test_messages_pass_both_ways_in_order(modules: Path) -> None:
    async with started(modules) as talk:
        for number in range(200):
            talk.say(f"echo {number}")
        assert [await talk.hear() for _ in range(200)] == [str(n) for n in range(200)]
        large = "x" * (3 << 20)
        talk.say(f"echo {large}")
        assert await talk.hear() == large


@pytest.mark.process
async def test_a_child_is_started_as_it_was_asked_for(modules: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    environment = Environment(sys.executable, (), str(folder))
    options = {"environment": environment, "variables": {"COLOUR": "red"}}
    async with started(modules, "a", "b c", **options) as talk:
        talk.say("where")
        assert await talk.hear() == f"{folder} red True"


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
async def test_the_end_of_a_child_says_how_it_came_about(
    modules: Path, command: str, reason: str, crashed: bool
) -> None:
    async with started(modules) as talk:
        talk.say(command)
        await talk.closed
        assert (await talk.child.wait()).startswith(f"process {talk.child.pid} {reason}")
        assert talk.child.crashed is crashed
        talk.say("echo into the void")


@pytest.mark.process
async def test_a_child_that_cannot_be_started_raises(modules: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await ChildProcess.start(Environment("/nowhere/python", (), None), "child_under_test", [])


@pytest.mark.process
async def test_kill_ends_the_child_and_what_it_started(modules: Path) -> None:
    async with started(modules) as talk:
        talk.say("spawn")
        with watching(int(await talk.hear())) as ends:
            talk.child.kill()
            assert "SIGKILL" in await talk.child.wait()
            assert ends()


@pytest.mark.process
async def test_kill_reaches_what_a_child_that_is_gone_left_behind(modules: Path) -> None:
    async with started(modules) as talk:
        talk.say("spawn")
        with watching(int(await talk.hear())) as ends:
            talk.say("exit 0")
            await talk.child.wait()
            talk.child.kill()
            assert ends()


@pytest.mark.process
@pytest.mark.parametrize("command", ["fork", "fork and leave"])
async def test_the_death_of_a_child_is_noticed_while_what_it_forked_holds_its_pipe(modules: Path, command: str) -> None:
    async with started(modules) as talk:
        talk.say(command)
        forked = int(await talk.hear())
        with watching(forked) as ends:
            talk.say("echo last words")
            assert await talk.hear() == "last words"
            os.kill(talk.child.pid, signal.SIGKILL)
            assert "SIGKILL, not by Millstream" in await talk.child.wait()
            await talk.closed
            if command == "fork":  # into a process group of its own: it is still of the child's session
                assert ends()
            else:  # what has left on purpose is not touched
                os.kill(forked, 0)


@pytest.mark.process
async def test_what_a_child_said_before_its_end_is_delivered(modules: Path) -> None:
    async with started(modules) as talk:
        talk.say("fork and leave")
        with watching(int(await talk.hear())):
            for number in range(100):
                talk.say(f"echo {number} " + "x" * 1000)
            talk.say("exit 0")
            await talk.child.wait()
            await talk.closed
            assert [(await talk.hear()).split()[0] for _ in range(100)] == [str(n) for n in range(100)]


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


def test_a_child_keeps_the_memory_of_its_buffers_unless_its_parent_was_told_otherwise(
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
            raise ValueError("told to")
        if command == b"end":
            return
        pipe.send(command)


@pytest.mark.parametrize(
    ("command", "reason"), [(b"end", "its thread ended"), (b"fail", "its thread ended with ValueError('told to')")]
)
async def test_a_thread_holds_the_same_conversation(command: bytes, reason: str) -> None:
    child = await ChildThread.start(_echo, "echo")
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    closed = asyncio.get_running_loop().create_task(child.receive(heard.put_nowait))
    for number in range(50):
        child.send(str(number).encode())
    assert [await heard.get() for _ in range(50)] == [str(n).encode() for n in range(50)]
    child.send(command)
    assert await child.wait() == reason
    await closed
    child.send(b"into the void")


async def test_killing_a_thread_closes_its_pipe_and_does_not_wait() -> None:
    told, leave = threading.Event(), threading.Event()

    def stubborn(pipe: ControlPipe) -> None:
        pipe.start(lambda message: None, told.set)
        leave.wait(DEADLINE)

    child = await ChildThread.start(stubborn, "stubborn")
    child.kill()
    assert "cannot be killed" in await child.wait()
    assert await asyncio.to_thread(told.wait, DEADLINE)
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
def test_a_message_cut_short_is_the_end(cut: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ControlPipe(theirs).start(received.put, lambda: received.put(None))
        ours.sendall(framed(b"one") + cut)
        ours.shutdown(socket.SHUT_WR)
        assert received.get(timeout=DEADLINE) == b"one"
        assert received.get(timeout=DEADLINE) is None


@given(garbage=st.binary(min_size=8, max_size=50).filter(lambda content: not framed(b"").startswith(content[:4])))
def test_what_is_no_message_is_the_end_at_both_ends(garbage: bytes) -> None:
    with pytest.raises(BrokenPipeContentError, match="where a message should begin"):
        length_in(garbage[:8])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        ControlPipe(theirs).start(received.put, lambda: received.put(None))
        ours.sendall(framed(b"one") + garbage + framed(b"two"))
        assert received.get(timeout=DEADLINE) == b"one"
        assert received.get(timeout=DEADLINE) is None


def test_a_child_that_does_not_understand_its_parent_ends(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ended = threading.Event()
        ControlPipe(theirs).start(WORKER_COMMAND.from_bytes, ended.set)
        ours.sendall(framed(b"\xff"))
        assert ended.wait(DEADLINE)
    assert "cannot decode what the parent has sent: this is no millstream" in capsys.readouterr().err


async def test_a_child_that_is_not_understood_is_ended_with_the_reason() -> None:
    def speaks(pipe: ControlPipe) -> None:
        pipe.send(b"understood")
        pipe.send(b"\xff")
        stopped.wait(DEADLINE)

    stopped = threading.Event()
    heard: list[bytes] = []

    def understand(message: bytes) -> None:
        if message != b"understood":
            raise WireError("this is no\nmessage")
        heard.append(message)

    child = SupervisedChild(lambda: ChildThread.start(speaks, "child"), b"stop", 1.0)
    try:
        assert await child.run(b"start", understand) == "killed: this is no\\nmessage"
    finally:
        stopped.set()
    assert heard == [b"understood"]


def test_sending_to_a_parent_that_is_gone_does_nothing() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.close()
        pipe = ControlPipe(theirs)
        for _ in range(3):
            pipe.send(b"hello?")
        pipe.close()
