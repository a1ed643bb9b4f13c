"""Slot workers in their own processes that are stopped, lose their pipe, or block: which of them are killed."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE, run
from worker_rig import ALLOCATION, RowsSource, chain

from millstream.core.jobs.failure_kinds import WorkerEnd
from millstream.core.jobs.ids import AttemptId, JobId, VertexId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages.deployment import DeployTasks, TaskDeployment
from millstream.core.messages.task_manager import StartWorker, TaskUpdate, WorkerReady
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.supervisor.supervised_worker import SupervisedWorker

pytestmark = pytest.mark.process

TIMEOUT = 3.0
OPTIONS = {
    "heartbeat.interval": "200 ms",
    "heartbeat.timeout": f"{TIMEOUT:g} s",
    "worker.start.timeout": f"{DEADLINE:g} s",
}
FOLDERS = (str(Path(__file__).parent), str(Path(__file__).parents[1]))


def passing(value: Any) -> Any:
    return value


def closing(value: Any) -> Any:
    os.closerange(3, 10_000)
    time.sleep(600)


def blocking(value: Any) -> Any:
    """For twice as long as a worker may be silent: it gives the interpreter lock back, and then it does not."""
    time.sleep(2 * TIMEOUT)
    ctypes.PyDLL(None).usleep(round(2e6 * TIMEOUT))
    return value


class Supervised:
    """A worker with one task, as its supervisor has it."""

    def __init__(self, function: Callable[[Any], Any], waits: bool) -> None:
        self.ready = asyncio.Event()
        self.updates: asyncio.Queue[TaskUpdate] = asyncio.Queue()
        start = StartWorker(ALLOCATION, JobId("job"), configuration=OPTIONS, python_path=FOLDERS)
        self.worker = SupervisedWorker(start, "127.0.0.1", Configuration(OPTIONS), self._heard, lambda _: None)
        self.end = asyncio.create_task(self.worker.run())
        specs = plan.SourceSpec(RowsSource([1], waits)), plan.MapSpec(function)
        self.deployment = DeployTasks(
            ALLOCATION,
            (
                TaskDeployment(
                    AttemptId("attempt"), JobId("job"), VertexId("vertex"), "task", 0, 1, 128, 0, chain=chain(*specs)
                ),
            ),
        )

    def _heard(self, message: Any) -> None:
        match message:
            case WorkerReady():
                self.worker.deploy(self.deployment)
            case TaskUpdate():
                self.updates.put_nowait(message)

    async def reached(self, state: ExecutionState) -> None:
        while (update := await self.updates.get()).state is not state:
            assert update.failure is None, update.failure


def test_a_worker_that_is_stopped_is_killed_with_the_reason() -> None:
    async def scenario() -> None:
        supervised = Supervised(passing, waits=True)
        await supervised.reached(ExecutionState.RUNNING)
        pid = supervised.worker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        assert await supervised.end == (
            f"slot worker: killed: its process {pid} did not respond for 3 s (heartbeat.timeout): it was stopped"
            " (SIGSTOP) and not continued (SIGCONT)"
        )
        assert supervised.worker.end is WorkerEnd.LOST

    run(scenario)


def test_a_worker_whose_function_closes_all_descriptors_is_killed_with_the_reason() -> None:
    async def scenario() -> None:
        supervised = Supervised(closing, waits=True)
        reason = await supervised.end
        assert "its control connection was closed while the process continued" in reason
        assert "os.closerange" in reason
        assert supervised.worker.end is WorkerEnd.LOST

    run(scenario)


def test_a_worker_whose_function_blocks_for_long_is_not_killed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "millstream")

    async def scenario() -> None:
        supervised = Supervised(blocking, waits=False)
        await supervised.reached(ExecutionState.FINISHED)
        await supervised.worker.stop()
        await supervised.end

    run(scenario)
    assert "is silent, but its process responds" in caplog.text


def test_the_standstill_of_the_supervisor_is_no_silence_of_its_workers() -> None:
    async def scenario() -> None:
        supervised = Supervised(passing, waits=True)
        await supervised.reached(ExecutionState.RUNNING)
        time.sleep(1.5 * TIMEOUT)  # noqa: ASYNC251  # the loop stands still, as in a process that is frozen
        ended, _ = await asyncio.wait([supervised.end], timeout=TIMEOUT)
        assert not ended
        await supervised.worker.stop()
        await supervised.end

    run(scenario)
