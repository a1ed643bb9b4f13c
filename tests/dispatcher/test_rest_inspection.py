"""Flame graphs and thread dumps over REST, with services that are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dispatcher_fixtures import (
    Checked,
    FakeJobManager,
    RunningDispatcher,
    configuration,
    dispatching,
    eventually,
    graph,
)

from millstream.core.jobs.details import JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, JobId, TaskManagerId
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import resource_manager as rm
from millstream.core.messages.inspection import (
    ProcessThreads,
    SampledStack,
    SampleRequest,
    StackSamples,
    ThreadDump,
    ThreadStack,
)
from millstream.core.messages.logs import LogContent, LogFile, LogList
from millstream.core.messages.metrics import ProcessMetrics
from millstream.core.metrics.model import MetricGroup, Scope, encode_groups
from millstream.core.services.leader_lookup import Role
from millstream.core.services.rpc import serve, service_handler
from millstream.core.store.high_availability import in_memory
from millstream.core.store.leaders import StoredLeaders
from millstream.core.store.memory import MemoryStore
from millstream.core.store.store import Contest
from millstream.core.wire.contracts import INSPECTION, PROFILING, RESOURCE_MANAGER

ONE = "/jobs/{jobid}/vertices/{vertexid}/flamegraph"
SLOT = "/taskmanagers/{taskmanagerid}/slots/{slot}/flamegraph"


class PlayedServices:
    """A resource manager with one task manager, which responds when it may."""

    def __init__(self) -> None:
        self.address = ""
        self.job_id = JobId("")
        self.may_answer = asyncio.Event()
        self.asked: list[SampleRequest] = []

    async def get_overview(self, request: Any, context: Any) -> rm.Overview:
        slots = (rm.SlotStatus(0, AllocationId("x"), self.job_id), rm.SlotStatus(1))
        return rm.Overview((rm.TaskManagerInfo(TaskManagerId("tm-1"), "h", self.address, 0, 1, 1, slots),))

    async def connect_task_manager(self, request: Any, context: Any) -> None: ...

    async def connect_job_manager(self, request: Any, context: Any) -> None: ...

    async def sample_stacks(self, request: SampleRequest, context: Any) -> StackSamples:
        self.asked.append(request)
        await self.may_answer.wait()
        stacks = (
            SampledStack(("Map", "burn (job.py:1)"), True, 6, 0),
            SampledStack(("Map", "[waiting for input]"), False, 4, 0),
        )
        return StackSamples(stacks, ("slot 1, job x: it does not respond",), ("py-spy",))

    async def dump_threads(self, request: Any, context: Any) -> ThreadDump:
        own = ProcessThreads("", 7, (ThreadStack("MainThread", "its stack"),))
        return ThreadDump((own, ProcessThreads("slot 0, job x", 8, (ThreadStack("w", "s"),), "it does not respond")))

    async def read_log(self, request: Any, context: Any) -> LogContent:
        return LogContent(f"the {request.name}".encode(), 0, 7)

    async def list_logs(self, request: Any, context: Any) -> LogList:
        return LogList((LogFile("a.log", 7, 1000),))

    async def get_metrics(self, request: Any, context: Any) -> ProcessMetrics:
        return ProcessMetrics(encode_groups([MetricGroup(Scope.JOB_MANAGER, gauges={"taskSlotsTotal": 2})]))


def details(job: JobGraph, state: ExecutionState = ExecutionState.RUNNING) -> JobDetails:
    vertices = tuple(
        VertexStatus(v.id, v.name, 1, 9, subtasks=(SubtaskStatus(0, state, task_manager="tm-1"),)) for v in job.vertices
    )
    return JobDetails(job.job_id, job.name, JobStatus.RUNNING, start_time=500, vertices=vertices)


@asynccontextmanager
async def played(
    tmp_path: Path, job: JobGraph, **options: str
) -> AsyncIterator[tuple[PlayedServices, RunningDispatcher, Checked, FakeJobManager]]:
    plain, services = configuration(tmp_path, **options), PlayedServices()
    handlers = [service_handler(contract, services) for contract in (RESOURCE_MANAGER, INSPECTION, PROFILING)]
    server, port = await serve("127.0.0.1", 0, handlers, plain, "test")
    services.address, services.job_id = f"127.0.0.1:{port}", job.job_id
    try:
        async with (
            dispatching(plain.merged({"resourcemanager.rpc.port": port})) as dispatcher,
            dispatcher.running_job(job) as manager,
        ):
            await dispatcher.reported(manager, details(job))
            yield services, dispatcher, await dispatcher.checked(), manager
            services.may_answer.set()
    finally:
        await server.stop(None)


async def sampled(get: Checked, template: str, *values: str) -> Any:
    found: list[Any] = []

    async def is_there() -> bool:
        found.append(await get("GET", template, *values))
        return bool(found[-1]["endTimestamp"] != -3)

    await eventually(is_there)
    return found[-1]


async def test_a_flame_graph_is_sampled_on_request(tmp_path: Path) -> None:
    job = graph()
    async with played(tmp_path, job) as (services, dispatcher, get, manager):
        vertex, http = job.vertices[0].id, dispatcher.http
        assert services.asked == []
        waiting = {"endTimestamp": -3, "data": None, "problems": [], "samplers": []}
        for _ in range(2):
            assert await get("GET", ONE, job.job_id, vertex) == waiting
        services.may_answer.set()
        shown = await sampled(get, ONE, job.job_id, vertex)
        assert shown["problems"] == ["task manager tm-1, slot 1, job x: it does not respond"]
        assert shown["samplers"] == ["py-spy"]
        assert (shown["data"]["name"], shown["data"]["value"]) == ("root", 10)
        (operator,) = shown["data"]["children"]
        assert [(child["name"], child["value"]) for child in operator["children"]] == [
            ("burn (job.py:1)", 6), ("[waiting for input]", 4),
        ]  # fmt: skip
        path = f"/jobs/{job.job_id}/vertices/{vertex}/flamegraph"
        assert (await http("GET", f"{path}?type=on_cpu")).json["data"]["value"] == 6
        assert (await http("GET", f"{path}?type=OFF_CPU")).json["data"]["value"] == 4
        assert services.asked == [SampleRequest(job.job_id, vertex, None, 100, 50)], "once for all of them"
        await http("GET", f"{path}?duration=1000&interval=10&subtaskindex=0&runtime=true", status=200)
        assert (await http("GET", f"{path}?refresh=true")).json["endTimestamp"] == -3
        await sampled(get, ONE, job.job_id, vertex)
        assert services.asked[1] == SampleRequest(job.job_id, vertex, 0, 100, 10, with_runtime=True)
        assert len(services.asked) == 3
        for wrong in ("type=x", "duration=1", "interval=0", "subtaskindex=x", "refresh=1"):
            assert "errors" in (await http("GET", f"{path}?{wrong}", status=400)).json
        await http("GET", f"{path}?subtaskindex=7", status=404)

        await dispatcher.reported(manager, details(job, ExecutionState.FINISHED))

        async def has_ended() -> bool:
            return bool((await http("GET", path)).json["endTimestamp"] == -1)

        await eventually(has_ended)


async def test_the_graph_of_a_slot_worker_and_what_cannot_be_had(tmp_path: Path) -> None:
    job = graph()
    async with played(tmp_path, job) as (services, dispatcher, get, _):
        services.may_answer.set()
        assert (await sampled(get, SLOT, "tm-1", "0"))["data"]["value"] == 10
        assert (services.asked[0].vertex_id, services.asked[0].slot) == ("", 0)
        assert (await get("GET", SLOT, "tm-1", "1"))["endTimestamp"] == -1, "nothing runs there"
        for path in ("tm-1/slots/2", "tm-2/slots/0"):
            await dispatcher.http("GET", f"/taskmanagers/{path}/flamegraph", status=404)
        services.address = "127.0.0.1:1"
        vertex = job.vertices[1].id
        assert "does not respond" in (await sampled(get, ONE, job.job_id, vertex))["problems"][0]
    async with played(tmp_path, graph(), **{"rest.flamegraph.enabled": "false"}) as (services, _, get, _):
        (known,) = (await get("GET", "/jobs"))["jobs"]
        assert (await get("GET", ONE, known["id"], job.vertices[0].id))["endTimestamp"] == -2
        assert (await get("GET", SLOT, "tm-1", "0"))["endTimestamp"] == -2
        assert services.asked == []


async def test_threads_and_logs_of_the_services(tmp_path: Path) -> None:
    job = graph()
    async with played(tmp_path, job) as (services, dispatcher, get, _):
        http = dispatcher.http
        listed = {one["id"]: one for one in (await get("GET", "/jobmanagers"))["jobmanagers"]}
        expected = {"id": "jm-1", "role": "jobmanager", "address": "x:1", "jobs": [job.job_id], "standby": False}
        assert listed["jm-1"] == expected
        assert listed["resourcemanager"]["address"] == services.address
        own = (await get("GET", "/jobmanager/thread-dump"))["threadInfos"]
        assert any("asyncio task" in thread["threadName"] for thread in own)
        for path, value in (
            ("/taskmanagers/{taskmanagerid}/thread-dump", "tm-1"),
            ("/jobmanagers/{jobmanagerid}/thread-dump", "resourcemanager"),
        ):
            infos = (await get("GET", path, value))["threadInfos"]
            assert [(info["threadName"], info["stringifiedThreadInfo"]) for info in infos] == [
                ("MainThread", "its stack"),
                ("slot 0, job x (process 8): problem", "it does not respond"),
                ("slot 0, job x (process 8): w", "s"),
            ]  # fmt: skip
        assert await get("GET", "/jobmanagers/{jobmanagerid}/metrics", "resourcemanager") == [{"id": "taskSlotsTotal"}]
        running = "/jobmanagers/dispatcher/metrics?get=numRunningJobs"
        assert (await http("GET", running, status=200)).json == [{"id": "numRunningJobs", "value": "1"}]
        await http("GET", "/jobmanagers/jm-1/metrics", status=503)
        dispatchers = (await get("GET", "/jobmanagers/{jobmanagerid}/thread-dump", "dispatcher"))["threadInfos"]
        assert any(thread["threadName"] == "MainThread" for thread in dispatchers)
        one = "/jobmanagers/resourcemanager"
        assert (await http("GET", f"{one}/log", status=200)).body == b"the log"
        assert (await http("GET", f"{one}/stdout", status=200)).body == b"the stdout"
        assert (await http("GET", f"{one}/logs/a.log", status=200)).body == b"the a.log"
        logs = await get("GET", "/jobmanagers/{jobmanagerid}/logs", "resourcemanager")
        assert logs == {"logs": [{"name": "a.log", "size": 7, "mtime": 1000}]}
        assert "there are dispatcher, jm-1" in (await http("GET", "/jobmanagers/x/log", status=404)).json["errors"][0]
        await http("GET", "/taskmanagers/x/thread-dump", status=404)
        services.address = "127.0.0.1:1"
        await http("GET", "/taskmanagers/tm-1/thread-dump", status=503)


async def test_logs_of_a_dispatcher_that_stands_by(tmp_path: Path) -> None:
    plain, services, store = configuration(tmp_path), PlayedServices(), MemoryStore()
    server, port = await serve("127.0.0.1", 0, [service_handler(INSPECTION, services)], plain, "test")
    session, address = store.connect(), f"127.0.0.1:{port}"
    async with dispatching(plain, in_memory(session, StoredLeaders(session))) as dispatcher:
        waiting = asyncio.create_task(store.connect().campaign(Contest(Role.DISPATCHER), address))
        get, name = await dispatcher.checked(), f"dispatcher@{address}"

        async def is_listed() -> bool:
            listed = (await get("GET", "/jobmanagers"))["jobmanagers"]
            own = {"id": "dispatcher", "role": "dispatcher", "address": dispatcher.service.address}
            other = {"id": name, "role": "dispatcher", "address": address}
            assert listed[0] == {**own, "jobs": [], "standby": False}
            return {**other, "jobs": [], "standby": True} in listed

        await eventually(is_listed)
        logs = await get("GET", "/jobmanagers/{jobmanagerid}/logs", name)
        assert logs == {"logs": [{"name": "a.log", "size": 7, "mtime": 1000}]}
        assert (await dispatcher.http("GET", f"/jobmanagers/{name}/logs/a.log", status=200)).body == b"the a.log"
        waiting.cancel()
        await asyncio.wait([waiting])
    await server.stop(None)
