"""Inspections of a slot worker: a few at a time, and errors are reported."""

from __future__ import annotations

import queue
import threading

import pytest
from waiting import DEADLINE

from millstream.core.messages.inspection import InspectWorker, SampleRequest, WorkerInspected
from millstream.taskmanager.worker.inspector import WorkerInspector


class HeldWorker:
    """Its tasks are only available after the test allows it."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.requested: queue.SimpleQueue[None] = queue.SimpleQueue()

    def running_tasks(self) -> list[object]:
        self.requested.put(None)
        assert self.may_go.wait(DEADLINE)
        return []


def test_it_responds_beside_the_loop_to_a_limited_number() -> None:
    worker, responses = HeldWorker(), queue.SimpleQueue[WorkerInspected]()
    inspector = WorkerInspector(worker, responses.put)  # type: ignore[arg-type]  # a played one
    for number in range(5):
        inspector.look(InspectWorker(str(number), SampleRequest("j", samples=1)))
        if number < 4:
            worker.requested.get(timeout=DEADLINE)
    refused = responses.get(timeout=DEADLINE)
    assert (refused.request_id, refused.stacks) == ("4", ())
    assert "4 inspections of this worker are in progress" in refused.problem
    worker.may_go.set()
    sampled = [responses.get(timeout=DEADLINE) for _ in range(4)]
    assert {response.request_id for response in sampled} == set("0123")
    names = {stack.frames[0] for response in sampled for stack in response.stacks}
    assert "MainThread" in names
    inspector.look(InspectWorker("dump"))
    dumped = responses.get(timeout=DEADLINE)
    assert any(thread.name == "MainThread" for thread in dumped.threads)


def test_a_worker_without_memory_for_a_thread_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    responses = queue.SimpleQueue[WorkerInspected]()
    inspector = WorkerInspector(HeldWorker(), responses.put)  # type: ignore[arg-type]  # a played one

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for number in range(6):
            inspector.look(InspectWorker(str(number)))
            assert "can't start new thread" in responses.get(timeout=DEADLINE).problem
