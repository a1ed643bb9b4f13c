"""A job manager's daemon over real sessions, with fakes for the dispatcher, the resource manager and task managers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

import grpc
from job_graphs import pipeline
from links import Link, next_of
from msgspec.structs import replace
from ports import free_port

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, AttemptId, JobId, LeaderEpoch, TaskManagerId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import dispatcher as dp
from millstream.core.messages import resource_manager as rm
from millstream.core.messages import task_manager as tm
from millstream.core.messages.deployment import DeployTasks
from millstream.core.messages.takeover import FoundSlot
from millstream.core.services.leader_lookup import ConfiguredLeaders
from millstream.core.services.rpc import serve, service_handler
from millstream.core.services.session import Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.store.contents import Contents
from millstream.core.store.high_availability import in_memory
from millstream.core.store.store import Store
from millstream.core.wire.contract import ServiceContract, SessionContract
from millstream.core.wire.contracts import (
    DISPATCHER,
    JOB_MANAGER_AT_DISPATCHER,
    JOB_MANAGER_AT_RESOURCE_MANAGER,
    RESOURCE_MANAGER,
    TASK_MANAGER_AT_JOB_MANAGER,
)
from millstream.jobmanager.service import JobManagerService

PLAIN = Configuration()
EPOCH = LeaderEpoch(1)
Task = tuple[AllocationId, AttemptId]
M = TypeVar("M")
S = TypeVar("S")
R = TypeVar("R")


class FakeServer(Generic[S, R]):
    """A service of which only the job manager's session exists; it may go away and come back on its port."""

    def __init__(self, service: ServiceContract, sessions: SessionContract[R, S]) -> None:
        self.received: asyncio.Queue[R] = asyncio.Queue()
        self.port = free_port()
        self._service = service
        self._sessions = sessions
        self._session: Session[S, R] | None = None
        self._server: grpc.aio.Server | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._serve

    async def _serve(self, _requests: Any, context: Any) -> None:
        def started(session: Session[S, R]) -> Callable[[R], None]:
            self._session = session
            return self.received.put_nowait

        await serve_session(context, self._sessions, "job manager", PLAIN, EPOCH, started)

    async def start(self) -> None:
        handlers = [service_handler(self._service, self)]
        self._server, self.port = await serve("127.0.0.1", self.port, handlers, PLAIN, "rest.port")

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def next(self, kind: type[M]) -> M:
        """The next message of this kind; others in between are dropped."""
        return await next_of(self.received, kind)

    def send(self, message: S) -> None:
        assert self._session is not None, "nobody is connected"
        self._session.send(message)


class FakeTaskManager(Link[tm.TaskManagerMessage, tm.JobManagerCommand]):
    """Connects to the job manager and does what the test prescribes."""

    def __init__(self, address: str, ident: str) -> None:
        registration = tm.RegisterAtJobManager(TaskManagerId(ident), "127.0.0.1", "127.0.0.1:1")
        super().__init__(address, TASK_MANAGER_AT_JOB_MANAGER, PLAIN, registration)

    async def offer(self, allocation_id: str, job_id: str = "job", found: FoundSlot | None = None) -> bool:
        await self.send(tm.SlotOffer(AllocationId(allocation_id), 0, JobId(job_id), found))
        answer = await self.next(tm.OfferAnswer)
        assert answer.allocation_id == allocation_id
        return answer.accepted

    async def run_worker(self, allocation_id: str) -> None:
        assert (await self.next(tm.StartWorker)).allocation_id == allocation_id
        await self.send(tm.WorkerReady(AllocationId(allocation_id), f"address of {allocation_id}"))

    async def update(
        self, allocation_id: AllocationId, attempt_id: AttemptId, state: ExecutionState, exception: str = ""
    ) -> None:
        await self.send(tm.TaskUpdate(allocation_id, attempt_id, state, TaskFailure(exception=exception)))

    async def update_all(self, tasks: list[Task], state: ExecutionState) -> None:
        for allocation_id, attempt_id in tasks:
            await self.update(allocation_id, attempt_id, state)

    async def freed(self) -> set[str]:
        """Both slots that it is to free next."""
        return {(await self.next(tm.FreeSlot)).allocation_id for _ in range(2)}


class Cluster:
    def __init__(self) -> None:
        self.dispatcher: FakeServer[dp.DispatcherMessage, dp.JobManagerMessage]
        self.dispatcher = FakeServer(DISPATCHER, JOB_MANAGER_AT_DISPATCHER)
        self.resource_manager: FakeServer[rm.JobManagerNotice, rm.JobManagerReport]
        self.resource_manager = FakeServer(RESOURCE_MANAGER, JOB_MANAGER_AT_RESOURCE_MANAGER)
        self.task_managers: list[FakeTaskManager] = []
        self.service: JobManagerService

    async def start(
        self, store: Store | None = None, results: Contents[JobDetails] | None = None, **options: Any
    ) -> None:
        """With `results`, others take up what this job manager leaves."""
        await self.dispatcher.start()
        await self.resource_manager.start()
        configuration = Configuration(
            {
                "jobmanager.rpc.port": 0,
                "dispatcher.rpc.port": self.dispatcher.port,
                "resourcemanager.rpc.port": self.resource_manager.port,
                **{key.replace("_", "."): value for key, value in options.items()},
            }
        )
        ha = in_memory(store, ConfiguredLeaders(configuration)) if store is not None else None
        if ha is not None and results is not None:
            ha = replace(ha, results=results, recovers=True)
        self.service = JobManagerService(configuration, ha=ha)
        await self.service.start()
        await self.dispatcher.next(dp.RegisterJobManager)
        await self.resource_manager.next(rm.RegisterJobManager)

    async def stop(self) -> None:
        for task_manager in self.task_managers:
            await task_manager.close()
        await self.service.stop()
        await self.dispatcher.stop()
        await self.resource_manager.stop()

    def task_manager(self, ident: str = "127.0.0.1:1-a") -> FakeTaskManager:
        self.task_managers.append(FakeTaskManager(self.service.address, ident))
        return self.task_managers[-1]

    async def submit(self, graph: JobGraph) -> None:
        self.dispatcher.send(dp.StartJob(graph))
        requirement = await self.resource_manager.next(rm.Requirement)
        assert (requirement.job_id, requirement.slots) == (graph.job_id, graph.slots_required())

    async def details_in(self, state: JobStatus) -> JobDetails:
        while (details := await self.dispatcher.next(JobDetails)).state is not state:
            pass
        return details

    async def deployed_job(
        self, graph: JobGraph | None = None, ident: str = "127.0.0.1:1-a"
    ) -> tuple[FakeTaskManager, list[DeployTasks]]:
        """A job of two slots on one task manager, whose tasks are deployed."""
        await self.submit(graph or pipeline(2))
        task_manager = self.task_manager(ident)
        for allocation in ("a0", "a1"):
            assert await task_manager.offer(allocation)
        for allocation in ("a0", "a1"):
            await task_manager.run_worker(allocation)
        return task_manager, [await task_manager.next(DeployTasks) for _ in range(2)]

    async def running_job(self, graph: JobGraph | None = None) -> tuple[FakeTaskManager, list[Task]]:
        """The same with its tasks running; returns (allocation, attempt) of each."""
        task_manager, deployed = await self.deployed_job(graph)
        tasks = [(d.allocation_id, d.tasks[0].attempt_id) for d in deployed]
        await task_manager.update_all(tasks, ExecutionState.RUNNING)
        return task_manager, tasks


@contextlib.asynccontextmanager
async def running_cluster(
    store: Store | None = None, results: Contents[JobDetails] | None = None, **options: Any
) -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start(store, results, **options)
    try:
        yield cluster
    finally:
        await cluster.stop()
