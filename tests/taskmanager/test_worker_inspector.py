"""A slot worker that is looked into: a few at a time, and whatever goes wrong is told."""

from __future__ import annotations

import queue
import threading

import pytest
from waiting import DEADLINE

from millstream.core.messages.inspection import InspectWorker, SampleRequest, WorkerInspected
from millstream.taskmanager.worker.inspector import WorkerInspector


class HeldWorker:
    """Whose tasks are asked for only when they may be."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.asked: queue.SimpleQueue[None] = queue.SimpleQueue()

    def running_tasks(self) -> list[object]:
        self.asked.put(None)
        assert self.may_go.wait(DEADLINE)
        return []


def test_it_answers_beside_the_loop_and_only_so_many() -> None:
    worker, answers = HeldWorker(), queue.SimpleQueue[WorkerInspected]()
    inspector = WorkerInspector(worker, answers.put)  # type: ignore[arg-type]  # a played one
    for number in range(5):
        inspector.look(InspectWorker(str(number), SampleRequest("j", samples=1)))
        if number < 4:
            worker.asked.get(timeout=DEADLINE)
    refused = answers.get(timeout=DEADLINE)
    assert (refused.request_id, refused.stacks) == ("4", ())
    assert "4 inspections of this worker are in progress" in refused.problem
    worker.may_go.set()
    sampled = [answers.get(timeout=DEADLINE) for _ in range(4)]
    assert {answer.request_id for answer in sampled} == set("0123")
    names = {stack.frames[0] for answer in sampled for stack in answer.stacks}
    assert "MainThread" in names
    inspector.look(InspectWorker("dump"))
    dumped = answers.get(timeout=DEADLINE)
    assert any(thread.name == "MainThread" for thread in dumped.threads)


def test_a_worker_without_room_for_a_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = queue.SimpleQueue[WorkerInspected]()
    inspector = WorkerInspector(HeldWorker(), answers.put)  # type: ignore[arg-type]  # a played one

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for number in range(6):
            inspector.look(InspectWorker(str(number)))
            assert "can't start new thread" in answers.get(timeout=DEADLINE).problem
