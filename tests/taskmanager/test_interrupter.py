"""The interrupt of a cancelled task: it reaches the user's function, and spares code shared by tasks."""

from __future__ import annotations

import select
import signal
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import DEADLINE

from millstream.core.processes.control_pipe import ControlPipe, framed
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.process import Interrupter


class CancellingWorker:
    """Inside of a task that is being cancelled; `checked` when a signal has arrived and its handler checks."""

    cancelling = frozenset({"attempt"})

    def __init__(self) -> None:
        self.checked = threading.Event()

    @property
    def current(self) -> Any:
        self.checked.set()
        return SimpleNamespace(attempt_id="attempt")


@pytest.fixture
def worker() -> Iterator[CancellingWorker]:
    before = signal.getsignal(signal.SIGUSR1)
    worker = CancellingWorker()
    Interrupter(worker, DEADLINE)  # type: ignore[arg-type]  # all that it looks at is there
    yield worker
    signal.signal(signal.SIGUSR1, before)


def _signal_main_thread() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def _wait_for_the_signal() -> None:
    threading.Thread(target=_signal_main_thread).start()
    threading.Event().wait(DEADLINE)


def test_a_function_of_the_task_is_interrupted(worker: CancellingWorker) -> None:
    with pytest.raises(TaskInterrupted):
        _wait_for_the_signal()


def test_a_message_to_the_supervisor_is_sent_completely(worker: CancellingWorker) -> None:
    ours, theirs = socket.socketpair()
    message = b"x" * (8 << 20)
    received = bytearray()

    def interrupt_then_read() -> None:
        poll = select.poll()
        poll.register(theirs, select.POLLOUT)
        while poll.poll(0):  # until the sender's buffer is full: it waits in the middle of the message
            pass
        _signal_main_thread()
        worker.checked.wait(DEADLINE)
        while part := ours.recv(1 << 20):
            received.extend(part)

    with ours, theirs:
        reader = threading.Thread(target=interrupt_then_read)
        reader.start()
        try:
            ControlPipe(theirs).send(message)
        finally:
            theirs.shutdown(socket.SHUT_WR)
            reader.join(DEADLINE)
    assert received == framed(message)
