"""A job manager's daemon over real sessions, with fakes for the dispatcher, the resource manager and task managers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import grpc
from job_graphs import pipeline
from ports import free_port
from waiting import DEADLINE

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.services.rpc import serve, service_handler
from millstream.core.services.session import Dialer, Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.raw import raw_contract
from millstream.jobmanager.service import JobManagerService
from millstream.proto import dispatcher_pb2 as dp
from millstream.proto import resourcemanager_pb2 as rm
from millstream.proto import status_pb2
from millstream.proto import taskmanager_pb2 as pb

PLAIN = Configuration()
EPOCH = LeaderEpoch(1)


class FakeServer:
    """A service of which only the job manager's session exists; it may go away and come back on its port."""

    def __init__(self, descriptor: Any, service: str, message_type: Callable[..., Any]) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.port = free_port()
        self._contract = descriptor.services_by_name[service]
        self._message_type = message_type
        self._sessions = raw_contract(self._contract, "ConnectJobManager")
        self._session: Session[Any, Any] | None = None
        self._server: grpc.aio.Server | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._serve

    async def _serve(self, _requests: Any, context: Any) -> None:
        def started(session: Session[Any, Any]) -> Callable[[Any], None]:
            self._session = session
            return self.received.put_nowait

        await serve_session(context, self._sessions, "job manager", PLAIN, EPOCH, started)

    async def start(self) -> None:
        handlers = [service_handler(self._contract, self)]
        self._server, self.port = await serve("127.0.0.1", self.port, handlers, PLAIN, "rest.port")

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def next(self, kind: str) -> Any:
        """The next message of this kind; others in between are dropped."""
        while (message := await self.received.get()).WhichOneof("kind") != kind:
            pass
        return getattr(message, kind)

    def send(self, **content: Any) -> None:
        assert self._session is not None, "nobody is connected"
        self._session.send(self._message_type(**content))


class FakeTaskManager:
    """Dials the job manager and does what the test says."""

    def __init__(self, address: str, ident: str) -> None:
        self.received: asyncio.Queue[pb.JobManagerCommand] = asyncio.Queue()
        self.session: asyncio.Future[Session[Any, Any]] = asyncio.get_running_loop().create_future()
        self._ident = ident
        contract = raw_contract(pb.DESCRIPTOR.services_by_name["JobManager"], "ConnectTaskManager")
        dialer = Dialer(address, contract, PLAIN)
        self.ended = asyncio.get_running_loop().create_task(dialer.dial_once("job manager", self._started))

    def _started(self, session: Session[Any, Any]) -> Callable[[Any], None]:
        register = pb.RegisterAtJobManager(task_manager_id=self._ident, host="127.0.0.1", address="127.0.0.1:1")
        session.send(pb.TaskManagerMessage(register=register))
        self.session.set_result(session)
        return self.received.put_nowait

    async def send(self, **content: Any) -> None:
        (await self.session).send(pb.TaskManagerMessage(**content))

    async def next(self, kind: str) -> Any:
        while (message := await self.received.get()).WhichOneof("kind") != kind:
            pass
        return getattr(message, kind)

    async def offer(self, allocation_id: str, job_id: str = "job") -> bool:
        await self.send(offer=pb.SlotOffer(allocation_id=allocation_id, job_id=job_id))
        answer = await self.next("offer_answer")
        assert answer.allocation_id == allocation_id
        return bool(answer.accepted)

    async def run_worker(self, allocation_id: str) -> None:
        assert (await self.next("start_worker")).allocation_id == allocation_id
        ready = pb.WorkerReady(allocation_id=allocation_id, data_address=f"address of {allocation_id}")
        await self.send(worker_ready=ready)

    async def update(self, allocation_id: str, attempt_id: str, state: str, exception: str = "") -> None:
        failure = status_pb2.TaskFailure(exception=exception)
        update = pb.TaskUpdate(allocation_id=allocation_id, attempt_id=attempt_id, state=state, failure=failure)
        await self.send(task_update=update)

    async def close(self) -> None:
        if self.session.done():
            self.session.result().close("the test is over")
        await asyncio.gather(self.ended, return_exceptions=True)


class Cluster:
    def __init__(self) -> None:
        self.dispatcher = FakeServer(dp.DESCRIPTOR, "Dispatcher", dp.DispatcherMessage)
        self.resource_manager = FakeServer(rm.DESCRIPTOR, "ResourceManager", rm.JobManagerNotice)
        self.task_managers: list[FakeTaskManager] = []
        self.service: JobManagerService

    async def start(self, **options: Any) -> None:
        await self.dispatcher.start()
        await self.resource_manager.start()
        self.service = JobManagerService(
            Configuration(
                {
                    "jobmanager.rpc.port": 0,
                    "dispatcher.rpc.port": self.dispatcher.port,
                    "resourcemanager.rpc.port": self.resource_manager.port,
                    **{key.replace("_", "."): value for key, value in options.items()},
                }
            )
        )
        await self.service.start()
        await self.dispatcher.next("register")
        await self.resource_manager.next("register")

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
        self.dispatcher.send(start_job=dp.StartJob(graph=graph.to_proto()))
        requirement = await self.resource_manager.next("requirement")
        assert (requirement.job_id, requirement.slots) == (graph.job_id, graph.slots_required())

    async def details_in(self, state: str) -> status_pb2.JobDetails:
        while (details := await self.dispatcher.next("job_details")).state != state:
            pass
        assert isinstance(details, status_pb2.JobDetails)
        return details

    async def running_job(self, graph: JobGraph | None = None) -> tuple[FakeTaskManager, list[tuple[str, str]]]:
        """A job of two slots on one task manager; answers it with (allocation, attempt) of each task."""
        await self.submit(graph or pipeline(2))
        task_manager = self.task_manager()
        assert await task_manager.offer("a0")
        assert await task_manager.offer("a1")
        for allocation in ("a0", "a1"):
            await task_manager.run_worker(allocation)
        deployed = [await task_manager.next("deploy") for _ in range(2)]
        tasks = [(d.allocation_id, d.tasks[0].attempt_id) for d in deployed]
        for allocation, attempt in tasks:
            await task_manager.update(allocation, attempt, "RUNNING")
        return task_manager, tasks


@contextlib.asynccontextmanager
async def _started(**options: Any) -> AsyncIterator[Cluster]:
    cluster = Cluster()
    await cluster.start(**options)
    try:
        yield cluster
    finally:
        await cluster.stop()


def run(scenario: Callable[[Cluster], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def within_the_deadline() -> None:
        async with asyncio.timeout(DEADLINE), _started(**options) as cluster:
            await scenario(cluster)

    asyncio.run(within_the_deadline())
