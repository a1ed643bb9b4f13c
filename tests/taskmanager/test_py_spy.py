"""Stacks of a slot worker, seen by itself and from outside, are the same; also without permission for py-spy."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from waiting import DEADLINE
from worker_rig import WorkerRig, reading, writing

from millstream.core.jobs.details import TaskMetrics
from millstream.core.jobs.ids import AllocationId, AttemptId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.inspection import PlacedTask, SampledStack, SampleRequest
from millstream.core.messages.task_manager import AttemptMetrics, TaskMetricsReport, TaskUpdate
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.stack_reading import FOR_INPUT, FOR_OTHERS, FOR_SOURCES, WAITING
from millstream.taskmanager.supervisor.py_spy import LookError, PySpy, Target, module_in
from millstream.taskmanager.supervisor.worker_places import WorkerPlaces
from millstream.taskmanager.worker.profiling import StackSampler

ENTERED, GO = threading.Event(), threading.Event()
HERE = Path(__file__)


def held_up(value: Any) -> Any:
    ENTERED.set()
    assert GO.wait(DEADLINE)
    return value


@pytest.fixture
def rig() -> Iterator[WorkerRig]:
    rig = WorkerRig()
    yield rig
    rig.close()


def only_mine(stacks: tuple[SampledStack, ...]) -> list[tuple[tuple[str, ...], int]]:
    """Without lines: the thread wakes from time to time to check whether it has waited long enough."""
    return [(tuple(name.partition(" (")[0] for name in stack.frames), stack.subtask) for stack in stacks]


def program(folder: Path, output: str, status: int) -> PySpy:
    script = folder / "py-spy"
    script.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{output}\nexit {status}\n")
    script.chmod(0o755)
    return PySpy(Configuration({}), str(script))


@pytest.mark.process
def test_a_stack_is_the_same_from_inside_and_from_outside(rig: WorkerRig) -> None:
    spy = PySpy(Configuration({"taskmanager.profiler.sampler": "py-spy"}))
    assert spy.is_used, spy.problem
    task = rig.start(reading([1]), plan.MapSpec(lambda value: value), plan.MapSpec(held_up), writing("profiled"))
    loop = threading.Thread(target=rig.worker.turn, name="loop")
    loop.start()
    try:
        assert ENTERED.wait(DEADLINE)
        request = SampleRequest("job", task.vertex_id, samples=2, interval_ms=1)
        inside = StackSampler(rig.worker, request).run()
        target = Target(os.getpid(), tuple(rig.messages(PlacedTask)), {})
        (outside,) = spy.sample(request, [target])
    finally:
        GO.set()
        loop.join(DEADLINE)
    if isinstance(outside, LookError) and "ermi" in str(outside):
        pytest.skip(f"this host does not permit tracing: {outside}")
    assert not isinstance(outside, LookError), outside
    assert only_mine(inside)[0][0][:2] == ("op 2", f"{HERE.stem}.held_up")
    assert set(only_mine(outside)) == set(only_mine(inside))
    assert not any(stack.on_cpu for stack in (*inside, *outside)), "it waits"
    assert sum(stack.count for stack in outside) >= 1


@pytest.mark.process
def test_a_refusal_is_remembered_and_other_failures_are_not(tmp_path: Path) -> None:
    request, target = SampleRequest("job", "v", samples=5, interval_ms=1), Target(os.getpid(), (), {})
    for output, is_remembered in (("echo 'Error: Permission Denied' >&2", True), ("echo gone >&2", False), ("", False)):
        (tmp_path / "runs").unlink(missing_ok=True)
        spy = program(tmp_path, output, 0 if not output else 1)
        (seen,) = spy.sample(request, [target])
        assert isinstance(seen, LookError)
        assert spy.is_used != is_remembered
        assert (tmp_path / "runs").read_text() == "run\n", "once, not for each sample"
    none = PySpy(Configuration({}), "")
    assert not none.is_used
    assert "millstream[profile]" in none.problem


def test_modules_by_their_files() -> None:
    path = {"/env/lib", "/env/lib/site-packages", "/job"}
    assert module_in("/env/lib/site-packages/shop/prices.py", path) == "shop.prices"
    assert module_in("/env/lib/site-packages/shop/__init__.py", path) == "shop"
    assert module_in("/env/lib/json/decoder.py", path) == "json.decoder"
    assert module_in("/home/me/program.py", path) == ""
    assert module_in("<frozen runpy>", path) == "runpy"
    assert module_in("<string>", path) == ""


def test_the_cause_of_a_waiting_task_is_known_from_its_reports() -> None:
    attempt, slot = AttemptId("a"), AllocationId("x")
    places = WorkerPlaces({attempt})
    placed = PlacedTask(slot, attempt, "v", 0, 7)
    places.received(placed)
    places.received(replace(placed, attempt_id=AttemptId("unknown")))
    assert places.tasks() == (placed,)
    for metrics, expected in (
        (TaskMetrics(idle_ms=900, backpressured_ms=10), FOR_INPUT),
        (TaskMetrics(idle_ms=950, backpressured_ms=500), FOR_OTHERS),
        (TaskMetrics(idle_ms=950, backpressured_ms=500), WAITING),
        (TaskMetrics(idle_ms=950, backpressured_ms=500, paused_ms=1), FOR_SOURCES),
    ):
        places.received(TaskMetricsReport(slot, (AttemptMetrics(attempt, metrics),)))
        assert places.waits() == {attempt: expected}
    places.received(TaskUpdate(slot, attempt, ExecutionState.FINISHED))
    assert (places.tasks(), places.waits()) == ((), {})
