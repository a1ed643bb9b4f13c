"""The order in which asynchronous results are emitted, compared with a naive model, for any order of completion."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import Watermark
from millstream.taskmanager.worker.operators.async_io.results_queue import (
    Call,
    Departure,
    OrderedQueue,
    ResultsQueue,
    UnorderedQueue,
)

QUEUES = {"ordered": OrderedQueue, "unordered": UnorderedQueue}
STEPS = st.lists(st.sampled_from(["record", "signal", "complete", "leave"]), max_size=60)


class Run:
    """Drives a queue; elements are numbered in the order of their arrival, and recorded when they leave."""

    def __init__(self, queue: ResultsQueue) -> None:
        self.queue = queue
        self.came: list[Departure] = []
        self.pending: list[Call] = []
        self.completed: list[Call] = []
        self.left: list[Departure] = []

    def step(self, step: str, data: st.DataObject) -> None:
        match step:
            case "record":
                call = Call(len(self.came), None)
                self.came.append(call)
                self.pending.append(call)
                self.queue.add(call)
            case "signal":
                signal = Watermark(len(self.came))
                self.came.append(signal)
                self.queue.add(signal)
            case "complete" if self.pending:
                self.complete(data.draw(st.integers(0, len(self.pending) - 1)))
            case _:
                self.left += self.queue.leaving()

    def complete(self, position: int) -> None:
        call = self.pending.pop(position)
        call.results = [call.value]
        self.completed.append(call)
        self.queue.completed(call)

    def segments(self, departures: list[Departure]) -> list[list[Any]]:
        """Records between signals, and the signals."""
        found: list[list[Any]] = [[]]
        for departure in departures:
            if isinstance(departure, Call):
                found[-1].append(departure)
            else:
                found += [[departure], []]
        return found


@pytest.mark.parametrize("kind", QUEUES)
@given(steps=STEPS, data=st.data())
def test_results_leave_as_early_as_their_order_allows_and_no_signal_is_overtaken(
    kind: str, steps: list[str], data: st.DataObject
) -> None:
    run = Run(QUEUES[kind]())
    for step in steps:
        run.step(step, data)
        here = list(run.queue.calls())
        assert {id(call) for call in here} == {id(d) for d in run.came if isinstance(d, Call)} - {
            id(d) for d in run.left
        }
        if step == "leave":
            assert [id(d) for d in run.left] == [id(d) for d in expected(run, kind)]
    while run.pending:
        run.complete(0)
    run.left += run.queue.leaving()
    assert run.queue.is_empty
    assert [sorted(map(id, s)) for s in run.segments(run.left)] == [sorted(map(id, s)) for s in run.segments(run.came)]
    if kind == "ordered":
        assert run.left == run.came


def expected(run: Run, kind: str) -> list[Departure]:
    """What may have left by now: if ordered, everything up to the first incomplete call.

    Otherwise the completed calls of each segment.
    """
    done = {id(call): number for number, call in enumerate(run.completed)}
    found: list[Departure] = []
    for segment in run.segments(run.came):
        ready = [d for d in segment if not isinstance(d, Call) or id(d) in done]
        if kind == "ordered":
            for departure in segment:
                if departure not in ready:
                    return found
                found.append(departure)
        else:
            found += sorted(ready, key=lambda d: done.get(id(d), 0))
            if len(ready) < len(segment):
                return found
    return found
