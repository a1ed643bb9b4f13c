"""Frames of several threads: in each interleaving of putting and sleeping, no frame waits while the loop sleeps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from waiting import DEADLINE

from millstream.taskmanager.worker.network import outbox as module
from millstream.taskmanager.worker.network.outbox import Outbox


class Meeting(deque[Any]):
    """Threads that append wait for each other before they continue: each has appended, and none has checked yet."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting = threading.Barrier(2)

    def append(self, item: Any) -> None:
        super().append(item)
        self.meeting.wait(DEADLINE)


def test_two_threads_that_put_at_once_wake_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "deque", Meeting)
    woken = threading.Event()
    outbox = Outbox(woken.set)
    assert outbox.take() is None
    assert outbox.may_sleep()
    threads = [threading.Thread(target=outbox.put, args=(frame,)) for frame in (b"one", b"two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert woken.is_set()
    assert {outbox.take(), outbox.take()} == {b"one", b"two"}


class PuttingBeforeTheLastLook(deque[Any]):
    """The check finds nothing; a frame arrives at that very moment."""

    puts: ClassVar[list[Callable[[], None]]] = []

    def __len__(self) -> int:
        if self.puts:
            self.puts.pop()()
            return 0
        return super().__len__()


def test_a_frame_that_arrives_while_the_loop_goes_to_sleep_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "deque", PuttingBeforeTheLastLook)
    woken: list[None] = []
    outbox = Outbox(lambda: woken.append(None))
    PuttingBeforeTheLastLook.puts.append(lambda: outbox.put(b"late"))
    assert outbox.may_sleep()
    assert woken == [None]
    assert outbox.take() == b"late"


def test_one_wake_up_serves_many_frames_and_a_loop_that_is_awake_gets_none() -> None:
    woken: list[None] = []
    outbox = Outbox(lambda: woken.append(None))
    outbox.put(b"1")
    assert not outbox.may_sleep()
    assert outbox.take() == b"1"
    assert outbox.may_sleep()
    for frame in (b"2", b"3", b"4"):
        outbox.put(frame)
    assert woken == [None]
    assert [outbox.take() for _ in range(4)] == [b"2", b"3", b"4", None]
