"""The task manager between two leaders of a job: which one it follows, and how long tasks continue without either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from links import next_of

from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, LeaderEpoch, VertexId
from millstream.core.jobs.states import ExecutionState
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import sources as src
from millstream.core.messages import task_manager as tm
from millstream.core.messages.checkpoints import CheckpointNotice
from millstream.core.messages.deployment import DeployTasks, TaskDeployment
from millstream.core.services.rpc import serve, service_handler
from millstream.core.services.session import Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import (
    JOB_MANAGER,
    RESOURCE_MANAGER,
    TASK_MANAGER_AT_JOB_MANAGER,
    TASK_MANAGER_AT_RESOURCE_MANAGER,
)
from millstream.core.wire.pipes import WORKER_COMMAND, WORKER_MESSAGE
from millstream.taskmanager.supervisor.service import TaskManagerService

SLOT, JOB, ATTEMPT = AllocationId("a0"), JobId("job"), AttemptId("attempt")
GONE = AllocationId("gone")
PLAIN = Configuration()


class Peer:
    """A peer of which only the task manager's session exists."""

    def __init__(self, service: Any, sessions: Any) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.address = ""
        self._service, self._sessions = service, sessions
        self._session: Session[Any, Any] | None = None
        self._server: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._serve

    async def _serve(self, _requests: Any, context: Any) -> None:
        def started(session: Session[Any, Any]) -> Callable[[Any], None]:
            self._session = session
            return self.received.put_nowait

        await serve_session(context, self._sessions, "task manager", PLAIN, LeaderEpoch(1), started)

    async def start(self) -> None:
        handlers = [service_handler(self._service, self)]
        self._server, port = await serve("127.0.0.1", 0, handlers, PLAIN, "rest.port")
        self.address = f"127.0.0.1:{port}"

    async def stop(self) -> None:
        await self._server.stop(0)

    def send(self, message: Any) -> None:
        assert self._session is not None, "there is no connection"
        self._session.send(message)

    async def next(self, kind: type[Any]) -> Any:
        return await next_of(self.received, kind)


class FakeWorker:
    """A `Child` that only receives, and sends what the test provides."""

    def __init__(self) -> None:
        self.crashed = False
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self._sent: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def send(self, message: bytes) -> None:
        command = WORKER_COMMAND.from_bytes(message)
        self.received.put_nowait(command)
        if isinstance(command, src.Stop):
            self.kill()

    async def receive(self, on_message: Callable[[bytes], None]) -> None:
        while (message := await self._sent.get()) is not None:
            on_message(message)

    async def wait(self) -> str:
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        if not self._ended.done():
            self._ended.set_result("ended")
            self._sent.put_nowait(None)

    @property
    def is_alive(self) -> bool:
        return not self._ended.done()

    def emit(self, message: tm.WorkerMessage) -> None:
        self._sent.put_nowait(WORKER_MESSAGE.to_bytes(message))


class Rig:
    """A task manager with one slot, a resource manager and two job managers, the first with a worker, usually with a
    task.
    """

    def __init__(self, folder: Path, heartbeat_timeout: float, deploys: bool) -> None:
        self.resource_manager = Peer(RESOURCE_MANAGER, TASK_MANAGER_AT_RESOURCE_MANAGER)
        self.old = Peer(JOB_MANAGER, TASK_MANAGER_AT_JOB_MANAGER)
        self.new = Peer(JOB_MANAGER, TASK_MANAGER_AT_JOB_MANAGER)
        self.worker: FakeWorker
        self.task_manager: TaskManagerService
        self._folder = folder
        self._timeout = heartbeat_timeout
        self._deploys = deploys

    async def start(self) -> None:
        for peer in (self.resource_manager, self.old, self.new):
            await peer.start()
        options = {
            "resourcemanager.rpc.port": self.resource_manager.address.rpartition(":")[2],
            "io.tmp.dirs": str(self._folder),
            "heartbeat.timeout": f"{self._timeout} s",
            "taskmanager.numberOfTaskSlots": "1",
        }

        launched: asyncio.Future[FakeWorker] = asyncio.get_running_loop().create_future()

        async def launch(*_arguments: Any) -> Any:
            launched.set_result(FakeWorker())
            return launched.result()

        self.task_manager = TaskManagerService(Configuration(options), launch=launch)
        await self.task_manager.start()
        await self.resource_manager.next(rm.RegisterTaskManager)
        self.resource_manager.send(rm.AllocateSlot(0, SLOT, JOB, self.old.address, LeaderEpoch(3)))
        offer = await self.old.next(tm.SlotOffer)
        assert offer.found is None
        self.old.send(tm.OfferAnswer(SLOT, accepted=True))
        self.old.send(tm.StartWorker(SLOT, JOB))
        await self.resource_manager.next(rm.SlotReport)
        self.worker = await launched
        self.worker.emit(tm.WorkerReady(SLOT, "host:9"))
        await self.old.next(tm.WorkerReady)
        if self._deploys:
            await self._deploy()

    async def _deploy(self) -> None:
        deployment = TaskDeployment(ATTEMPT, JOB, VertexId("s"), "s", 0, 1, 128, 2, b"")
        self.old.send(DeployTasks(SLOT, (deployment,)))
        await next_of(self.worker.received, DeployTasks)
        self.worker.emit(tm.TaskUpdate(SLOT, ATTEMPT, ExecutionState.RUNNING))
        self.worker.emit(src.ReaderEvent(JOB, VertexId("s"), 0, src.SplitRequest("host"), ATTEMPT))
        await self.old.next(src.ReaderEvent)

    def lead(self, address: str, epoch: int) -> None:
        self.resource_manager.send(rm.JobLed(JOB, address, LeaderEpoch(epoch)))

    async def stop(self) -> None:
        await self.task_manager.stop()
        for peer in (self.resource_manager, self.old, self.new):
            await peer.stop()


@asynccontextmanager
async def running_rig(folder: Path, heartbeat_timeout: float = 50.0, deploys: bool = True) -> AsyncIterator[Rig]:
    rig = Rig(folder, heartbeat_timeout, deploys)
    try:
        await rig.start()
        yield rig
    finally:
        await rig.stop()


@pytest.mark.parametrize("dies", [True, False])
async def test_a_new_leader_is_offered_the_running_tasks_and_readers_repeat_their_requests(
    tmp_path: Path, dies: bool
) -> None:
    async with running_rig(tmp_path) as rig:
        if dies:
            await rig.old.stop()
        rig.lead(rig.new.address, 5)
        registration = await rig.new.next(tm.RegisterAtJobManager)
        assert registration.task_manager_id == rig.task_manager.id
        offer = await rig.new.next(tm.SlotOffer)
        assert (offer.allocation_id, offer.job_id, offer.found.data_address) == (SLOT, JOB, "host:9")
        (task,) = offer.found.tasks
        assert (task.attempt_id, task.attempt, task.state) == (ATTEMPT, 2, ExecutionState.RUNNING)
        rig.new.send(tm.OfferAnswer(SLOT, accepted=True))
        rig.new.send(tm.TasksTakenOver(SLOT))
        request = await rig.new.next(src.ReaderEvent)
        assert request.kind == src.SplitRequest("host")
        rig.worker.emit(tm.TaskUpdate(SLOT, ATTEMPT, ExecutionState.FINISHED))
        assert (await rig.new.next(tm.TaskUpdate)).state is ExecutionState.FINISHED


async def test_a_new_leader_that_requests_a_worker_gets_the_idle_one(tmp_path: Path) -> None:
    async with running_rig(tmp_path, deploys=False) as rig:
        rig.lead(rig.new.address, 5)
        assert (await rig.new.next(tm.SlotOffer)).found is None
        rig.new.send(tm.OfferAnswer(SLOT, accepted=True))
        rig.new.send(tm.StartWorker(SLOT, JOB))
        assert await rig.new.next(tm.WorkerReady) == tm.WorkerReady(SLOT, "host:9")


async def test_the_previous_leader_is_ignored(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        rig.lead(rig.new.address, 5)
        await rig.new.next(tm.SlotOffer)
        rig.new.send(tm.OfferAnswer(SLOT, accepted=True))
        rig.lead(rig.old.address, 3)  # the resource manager still names it
        rig.old.send(CheckpointNotice(SLOT, (ATTEMPT,), 4, completed=True))
        rig.old.send(tm.FreeSlot(SLOT, "a frozen leader wakes up"))
        rig.old.send(tm.TasksTakenOver(SLOT))
        rig.new.send(CheckpointNotice(SLOT, (ATTEMPT,), 5, completed=True))
        assert (await next_of(rig.worker.received, CheckpointNotice)).checkpoint_id == 5
        assert rig.worker.is_alive
        rig.new.send(tm.FreeSlot(SLOT, "done"))
        assert (await rig.resource_manager.next(rm.SlotReport)).slots == (rm.SlotStatus(0),)


async def test_a_job_manager_that_lost_leadership_leaves_its_tasks_to_the_next(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        rig.old.send(tm.OfferAnswer(SLOT, accepted=False, unknown_job=True))
        rig.lead(rig.old.address, 7)  # it leads the job once more
        offer = await rig.old.next(tm.SlotOffer)
        assert offer.found.tasks[0].attempt_id == ATTEMPT
        assert rig.worker.is_alive


async def test_tasks_without_a_leader_end_in_time(tmp_path: Path) -> None:
    async with running_rig(tmp_path, heartbeat_timeout=0.5) as rig:
        rig.old.send(tm.OfferAnswer(SLOT, accepted=False, unknown_job=True))
        assert (await rig.resource_manager.next(rm.SlotReport)).slots == (rm.SlotStatus(0),)
        assert not rig.worker.is_alive


@pytest.mark.parametrize("command", [tm.OfferAnswer(GONE, accepted=True), tm.StartWorker(GONE, JOB)])
async def test_a_job_manager_that_uses_a_freed_slot_is_notified(
    tmp_path: Path, command: tm.JobManagerCommand
) -> None:
    """Otherwise the job would wait for its worker forever, and refuse every other slot."""
    async with running_rig(tmp_path, deploys=False) as rig:
        rig.old.send(command)
        lost = await rig.old.next(tm.WorkerLost)
        assert (lost.allocation_id, lost.slot_freed) == (GONE, True)
        assert rig.worker.is_alive
