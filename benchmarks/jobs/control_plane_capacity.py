"""One job manager with so many task managers, on the simulator's virtual clock: what it costs its core.

The job manager and the dispatcher are the real services, with real messages as bytes and metadata in real files; task
managers are simulated: each has one slot, with one task of each vertex in it. The processor's time is taken around
whatever runs in the job manager's virtual process: sessions, heartbeats, conversion of messages, the coordinator, the
JobMaster, writing metadata. Not counted is what gRPC and the kernel do below that.

`control_plane_capacity.py TASK_MANAGERS CHECKPOINTS METRICS_INTERVAL` reports the seconds until all tasks ran, and what
so many intervals of checkpoints took together.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "simulation"))

from marks import report  # beside this file
from virtual_loop import VirtualClock, VirtualLoop, VirtualProcess  # on the path since above
from virtual_network import VirtualNetwork

from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, OperatorId, TaskManagerId, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages import task_manager as tm
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointNotice, TriggerCheckpoint
from millstream.core.messages.deployment import DeployTasks, TaskDeployment
from millstream.core.messages.dispatcher import SubmitJobRequest
from millstream.core.services.rpc import Stub
from millstream.core.services.session import Dialer, Session
from millstream.core.settings.configuration import Configuration
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.core.wire.contracts import DISPATCHER, TASK_MANAGER_AT_JOB_MANAGER
from millstream.dispatcher.service import DispatcherService
from millstream.jobmanager.service import JobManagerService
from millstream.resourcemanager.service import ResourceManagerService

VERTICES = 10
INTERVAL = 10.0
_LONG = {"type": "basic", "name": "Long"}
JOB = JobId(f"{1:032x}")


class MeteredLoop(VirtualLoop):
    """Measures the time of the code that runs in each process."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.seconds: dict[VirtualProcess, float] = {}

    def _run_ready(self) -> None:
        ready, seconds, clock = self._ready, self.seconds, time.process_time
        while ready:
            action = ready.popleft()
            if not action.is_cancelled:
                before = clock()
                action.context.run(action.call, *action.args)
                seconds[action.process] = seconds.get(action.process, 0.0) + clock() - before
                if self._errors:
                    raise self._errors[0]


class TaskManager:
    """Offers its slot, and reports that its tasks run and take snapshots."""

    def __init__(self, number: int, network: VirtualNetwork, loop: VirtualLoop, configuration: Configuration) -> None:
        self.process = loop.process(f"tm{number}")
        self.running = 0
        self._number = number
        self._loop = loop
        self._tasks: list[TaskDeployment] = []
        self._session: Session[Any, Any] | None = None
        self._allocation = AllocationId(f"{number + 1:032x}")
        self._states: dict[AttemptId, bytes] = {}
        network_of = network.of(self.process)
        self._dialer = Dialer("jobmanager:6123", TASK_MANAGER_AT_JOB_MANAGER, configuration, network_of)
        loop.create_task(self._dialer.dial_once("job manager", self._connected), context=self.process.context)
        self._metrics_every = configuration.value("metrics.fetcher.update-interval")

    def _connected(self, session: Session[Any, Any]) -> Callable[[Any], None]:
        self._session = session
        session.send(tm.RegisterAtJobManager(TaskManagerId(self.process.name), f"host{self._number}", "host:1"))
        session.send(tm.SlotOffer(self._allocation, 0, JOB))
        return self._command

    def _say(self, message: Any) -> None:
        assert self._session is not None
        self._session.send(message)

    def _command(self, command: Any) -> None:
        match command:
            case tm.StartWorker():
                self._say(tm.WorkerReady(self._allocation, f"{self.process.name}:2"))
            case DeployTasks(_, tasks):
                self._tasks += tasks
                for task in tasks:
                    self._states[task.attempt_id] = _state(task)
                    for state in (ExecutionState.INITIALIZING, ExecutionState.RUNNING):
                        self._say(tm.TaskUpdate(self._allocation, task.attempt_id, state))
                self.running += len(tasks)
                self._loop.call_later(self._number % 100 / 100 * self._metrics_every, self._report)
            case TriggerCheckpoint(_, _, barrier):
                for task in self._tasks:
                    state = self._states[task.attempt_id]
                    ack = CheckpointAck(self._allocation, task.attempt_id, barrier.checkpoint_id, state)
                    self._loop.call_later(0.001 * (self._number % 100), self._say, ack)
            case tm.OfferAnswer() | CheckpointNotice():
                pass
            case _:
                self._loop.call_exception_handler({"message": f"the job has failed: {command}"[:200]})

    def _report(self) -> None:
        metrics = tuple(tm.AttemptMetrics(task.attempt_id) for task in self._tasks)
        self._say(tm.TaskMetricsReport(self._allocation, metrics))
        self._loop.call_later(self._metrics_every, self._report)


def _state(task: TaskDeployment) -> bytes:
    """One keyed state in one file, like the report of a task with a value for each key."""
    name = f"op-{task.vertex_id}/count/{task.subtask}-0.arrow"
    file = StateFile(name, task.subtask, 0, 1, 1_000, 100_000, f"sha256:{0:064x}")
    state = StateSnapshot("count", StateKind.VALUE, key_type=_LONG, value_type=_LONG, files=(file,))
    operator = OperatorId(task.vertex_id)
    return operators_to_json((OperatorSnapshot(operator, operator, operator, task.parallelism, 1024, (state,)),))


def _graph(parallelism: int, directory: str) -> JobGraph:
    names = [f"vertex{number}" for number in range(VERTICES)]
    vertices = tuple(
        JobVertex(
            VertexId(name), name, parallelism, 1024, "default", (OperatorInfo(OperatorId(name), name, name),), b"", b""
        )
        for name in names
    )
    edges = tuple(
        JobEdge(VertexId(one), VertexId(other), 0, 0, "FORWARD", b"") for one, other in itertools.pairwise(names)
    )
    options = {
        "execution.checkpointing.interval": f"{INTERVAL} s",
        "execution.checkpointing.dir": directory,
        "restart-strategy.type": "none",
    }
    return JobGraph(JOB, "capacity", vertices, edges, options)


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  # no time passes on the virtual clock
        await asyncio.sleep(0.1)


async def _run(loop: MeteredLoop, number: int, checkpoints: int, metrics: str, folder: str) -> dict[str, float]:
    configuration = Configuration(
        {
            "io.tmp.dirs": folder,
            "dispatcher.rpc.address": "dispatcher",
            "resourcemanager.rpc.address": "resourcemanager",
            "jobmanager.rpc.address": "jobmanager",
            "metrics.fetcher.update-interval": metrics,
        }
    )
    clock, network = VirtualClock(loop), VirtualNetwork(loop, Random(1), lambda *_: None)
    processes = {name: loop.process(name) for name in ("dispatcher", "resourcemanager", "jobmanager", "client")}
    networks = {name: network.of(process) for name, process in processes.items()}
    job_manager = JobManagerService(configuration, clock, network=networks["jobmanager"])
    for name, service in (
        ("dispatcher", DispatcherService(configuration, clock, with_rest=False, network=networks["dispatcher"])),
        ("resourcemanager", ResourceManagerService(configuration, clock, network=networks["resourcemanager"])),
        ("jobmanager", job_manager),
    ):
        await loop.create_task(service.start(), context=processes[name].context)
    await asyncio.sleep(1)
    stub = Stub(networks["client"].open_channel("dispatcher:6122", configuration), DISPATCHER)
    await stub.submit_job(SubmitJobRequest(_graph(number, f"{folder}/checkpoints")), timeout=30)
    await asyncio.sleep(1)
    task_managers = [TaskManager(n, network, loop, configuration) for n in range(number)]
    await _until(lambda: sum(task_manager.running for task_manager in task_managers) == number * VERTICES)
    started = loop.seconds[processes["jobmanager"]]
    coordinator = job_manager.jobs[JOB].checkpoints.coordinator
    await _until(lambda: coordinator.statistics.counts.completed > 0)
    gc.collect()
    await asyncio.sleep(INTERVAL / 2)  # between two checkpoints
    before, done = loop.seconds[processes["jobmanager"]], coordinator.statistics.counts.completed
    await asyncio.sleep(INTERVAL * checkpoints)
    spent, taken = loop.seconds[processes["jobmanager"]] - before, coordinator.statistics.counts.completed - done
    return {"starting": started, "spent": spent, "checkpoints": taken}


def main() -> None:
    number, checkpoints, metrics = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    logging.getLogger("millstream").setLevel(logging.ERROR)
    loop = MeteredLoop(Random(1))
    with tempfile.TemporaryDirectory() as folder:
        figures = loop.run(_run(loop, number, checkpoints, metrics, folder))
    report("capacity", **figures)


if __name__ == "__main__":
    main()
