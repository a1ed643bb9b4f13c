"""The REST API over real HTTP: shapes, errors, and that every response matches the published schema."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import pickle
import shutil
import ssl
from pathlib import Path
from typing import Any

import grpc
import jsonschema
import pytest
from certificates import make_authority
from dispatcher_fixtures import DEADLINE, Checked, Http, RunningDispatcher, configuration, eventually, graph, running
from msgspec.structs import replace

from millstream.cli.rest import RestClient
from millstream.core.errors import MillstreamError
from millstream.core.jobs.details import (
    Accumulator,
    JobDetails,
    PlanInput,
    PlanNode,
    SubtaskStatus,
    TaskMetrics,
    VertexStatus,
)
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import AllocationId, JobId, TaskManagerId, new_id
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.messages import logs
from millstream.core.messages import resource_manager as rm
from millstream.core.messages.dispatcher import CancelJob
from millstream.core.messages.inspection import ThreadDump
from millstream.core.messages.metrics import ProcessMetrics
from millstream.core.metrics.model import MetricGroup, Scope, encode_groups
from millstream.core.services import inspection
from millstream.core.services.rpc import serve, service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import INSPECTION, RESOURCE_MANAGER
from millstream.dispatcher.rest.table import RedactedJsonResponse
from millstream.dispatcher.service import DispatcherService


def details(job: JobGraph) -> JobDetails:
    """A job that runs, with a failure behind it."""
    first, second = job.vertices
    subtasks = tuple(
        SubtaskStatus(
            i, ExecutionState.RUNNING, attempt=1, task_manager="tm-1", host="127.0.0.1", start_time=1000,
            state_times={"CREATED": 900, "RUNNING": 1000},
            metrics=TaskMetrics(
                records_in=10, records_out=5, bytes_in=100, bytes_out=50, busy_ms=7,
                counters={"Source: in.numRecordsInErrors": 2 + i}, gauges={"my map.depth": 0.5 + i},
            ),
        )
        for i in range(2)
    )  # fmt: skip
    return JobDetails(
        job.job_id,
        job.name,
        JobStatus.RUNNING,
        start_time=500,
        state_times={"CREATED": 500, "RUNNING": 1000},
        vertices=(
            VertexStatus(first.id, "Source", parallelism=1, max_parallelism=9, subtasks=subtasks[:1]),
            VertexStatus(second.id, "Sink", parallelism=2, max_parallelism=9, subtasks=subtasks),
        ),
        plan=(PlanNode(first.id, first.name, 1), PlanNode(second.id, "Sink", 2, (PlanInput(first.id, "HASH"),))),
        restarts=4,
        failures=(
            TaskFailure(
                job_id=job.job_id, vertex_id=second.id, task_name="Sink", operator_name="my map", subtask=1, attempt=1,
                task_manager="tm-1", exception="ValueError: bad", traceback="Traceback ...\nValueError: bad",
                record="{'a': 1}", timestamp=1234, times=2, restart=4, restart_delay_ms=1500,
                concurrent=(TaskFailure(exception="PeerLostError: lost", timestamp=1236),),
            ),
            TaskFailure(exception="s3://key:verysecret@bucket is lost", timestamp=1235),
        ),
        accumulators=(
            Accumulator("count", "IntCounter", pickle.dumps(42)),
            Accumulator("odd", "Custom", pickle.dumps(Path("x"))),
        ),
        configuration={"parallelism.default": "2", "execution.checkpointing.dir": "s3://key:verysecret@bucket/c"},
        restart_strategy="no restarts",
        slots_required=2,
        slots_held=2,
    )  # fmt: skip


async def test_jobs_in_flinks_shapes(dispatcher: RunningDispatcher) -> None:
    http, get = dispatcher.http, await dispatcher.checked()
    plain = graph()
    job = replace(plain, vertices=(replace(plain.vertices[0], name="<script> -> x\ny\\z"), plain.vertices[1]))
    async with dispatcher.running_job(job) as manager:
        waiting = await get("GET", "/jobs/{jobid}", job.job_id)
        assert waiting["state"] == "INITIALIZING"
        assert waiting["plan"]["nodes"][0]["description"] == "&lt;script&gt; -> x<br/>y&#92;z"
        manager.report(details(job))

        async def is_running() -> bool:
            return bool((await http("GET", f"/jobs/{job.job_id}")).json["state"] == "RUNNING")

        await eventually(is_running)
        assert await get("GET", "/jobs") == {"jobs": [{"id": job.job_id, "status": "RUNNING"}]}
        (overview,) = (await get("GET", "/jobs/overview"))["jobs"]
        assert overview["tasks"]["running"] == overview["tasks"]["total"] == 3
        assert overview["end-time"] == -1
        assert overview["restarts"] == 4
        assert overview["last-failure"] == "ValueError: bad, in operator 'my map', at the record {'a': 1}"

        shown = await get("GET", "/jobs/{jobid}", job.job_id)
        assert shown["timestamps"]["RUNNING"] == 1000
        assert shown["vertices"][1]["metrics"]["read-records"] == 20
        assert shown["status-counts"]["RUNNING"] == 2
        assert shown["plan"] == waiting["plan"]
        assert shown["plan"]["nodes"][1]["inputs"][0]["ship_strategy"] == "HASH"
        assert (await get("GET", "/jobs/{jobid}/plan", job.job_id))["plan"] == shown["plan"]
        config = await get("GET", "/jobs/{jobid}/config", job.job_id)
        assert config["execution-config"]["job-parallelism"] == 2
        assert config["execution-config"]["restart-strategy"] == "no restarts"
        assert config["execution-config"]["user-config"]["execution.checkpointing.dir"] == "s3://******@bucket/c"

        history = (await get("GET", "/jobs/{jobid}/exceptions", job.job_id))["exceptionHistory"]
        assert history["truncated"] is False
        (concurrent,) = history["entries"][0].pop("concurrentExceptions")
        assert (concurrent["exceptionName"], concurrent["timestamp"]) == ("PeerLostError", 1236)
        assert history["entries"][0] == {
            "exceptionName": "ValueError", "stacktrace": "Traceback ...\nValueError: bad", "timestamp": 1234,
            "failureLabels": {}, "taskName": "Sink", "endpoint": "127.0.0.1", "taskManagerId": "tm-1",
            "operator": "my map", "subtask": 1, "attempt": 1, "record": "{'a': 1}",
            "exception": "ValueError: bad", "timesInARow": 2, "restart": 4, "restartDelay": 1500,
        }  # fmt: skip
        assert history["entries"][1]["taskName"] is None
        assert history["entries"][1]["concurrentExceptions"] == []
        short = (await http("GET", f"/jobs/{job.job_id}/exceptions?maxExceptions=1", status=200)).json
        assert short["exceptionHistory"]["truncated"] is True

        accumulators = await get("GET", "/jobs/{jobid}/accumulators", job.job_id)
        assert [a["value"] for a in accumulators["user-task-accumulators"]] == ["42", "(serialized)", "7"]
        assert accumulators["user-task-accumulators"][2]["name"] == "Source: in.numRecordsInErrors"
        path = f"/jobs/{job.job_id}/vertices/{job.vertices[1].id}/metrics"
        listed = [metric["id"] for metric in (await http("GET", path, status=200)).json]
        assert {"0.numRecordsIn", "1.Source__in.numRecordsInErrors"} <= set(listed)
        wanted = "?get=1.numRecordsIn,nothing,0.Source__in.numRecordsInErrors"
        assert (await http("GET", path + wanted, status=200)).json == [
            {"id": "1.numRecordsIn", "value": "10"},
            {"id": "0.Source__in.numRecordsInErrors", "value": "2"},
        ]
        vertex = await get("GET", "/jobs/{jobid}/vertices/{vertexid}", job.job_id, job.vertices[1].id)
        assert vertex["subtasks"][1]["taskmanager-id"] == "tm-1"
        assert vertex["subtasks"][1]["status-duration"]["CREATED"] == 100

        numbers = await get("GET", "/overview")
        assert (numbers["jobs-running"], numbers["taskmanagers"]) == (1, 0)
        await get("GET", "/config")
        assert await get("GET", "/taskmanagers") == {"taskmanagers": []}
        for listing in ("/jars", "/wheels"):
            assert (await get("GET", listing))["files"] == []

        await get("PATCH", "/jobs/{jobid}", job.job_id, status=202)
        assert (await manager.next(CancelJob)).job_id == job.job_id


async def test_every_route_is_documented(http: Http) -> None:
    document = (await http("GET", "/openapi.json", status=200)).json
    assert document["openapi"].startswith("3.")
    expected = {
        "/overview", "/config", "/jobs", "/jobs/overview", "/jobs/{jobid}", "/jobs/{jobid}/plan",
        "/jobs/{jobid}/config", "/jobs/{jobid}/exceptions", "/jobs/{jobid}/accumulators",
        "/jobs/{jobid}/vertices/{vertexid}", "/jobs/{jobid}/vertices/{vertexid}/metrics",
        "/jobs/{jobid}/vertices/{vertexid}/backpressure", "/jobs/{jobid}/vertices/{vertexid}/subtasktimes",
        "/jobs/{jobid}/vertices/{vertexid}/taskmanagers", "/jobs/{jobid}/vertices/{vertexid}/accumulators",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators",
        "/jobs/{jobid}/vertices/{vertexid}/flamegraph", "/taskmanagers/{taskmanagerid}/slots/{slot}/flamegraph",
        "/jobmanager/config", "/jobmanager/environment", "/jobmanager/thread-dump", "/jobmanagers",
        "/jobmanagers/{jobmanagerid}/log", "/jobmanagers/{jobmanagerid}/stdout", "/jobmanagers/{jobmanagerid}/logs",
        "/jobmanagers/{jobmanagerid}/logs/{name}", "/jobmanagers/{jobmanagerid}/thread-dump",
        "/jobmanagers/{jobmanagerid}/metrics",
        "/taskmanagers/{taskmanagerid}/thread-dump", "/snapshots", "/snapshots/rows", "/snapshots/diff",
        "/jobs/metrics", "/jobs/{jobid}/vertices/{vertexid}/hot-keys",
        "/jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics",
        "/jobs/{jobid}/metrics", "/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics", "/taskmanagers/metrics",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/metrics", "/jobmanager/metrics",
        "/taskmanagers/{taskmanagerid}/metrics",
        "/taskmanagers", "/taskmanagers/{taskmanagerid}",
        "/taskmanagers/{taskmanagerid}/log", "/taskmanagers/{taskmanagerid}/stdout", "/jars", "/jars/upload",
        "/taskmanagers/{taskmanagerid}/logs", "/taskmanagers/{taskmanagerid}/logs/{name}",
        "/jobmanager/log", "/jobmanager/logs", "/jobmanager/logs/{name}", "/jobmanager/stdout",
        "/jars/{jarid}", "/jars/{jarid}/run", "/jars/{jarid}/plan", "/wheels", "/wheels/upload",
        "/wheels/{wheelid}", "/wheels/{wheelid}/run", "/wheels/{wheelid}/plan", "/openapi.json",
        "/jobs/{jobid}/checkpoints", "/jobs/{jobid}/checkpoints/config",
        "/jobs/{jobid}/checkpoints/details/{checkpointid}",
        "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}",
        "/jobs/{jobid}/checkpoints/{triggerid}", "/jobs/{jobid}/savepoints",
        "/jobs/{jobid}/savepoints/{triggerid}", "/jobs/{jobid}/stop", "/savepoint-disposal",
        "/jobs/{jobid}/stall", "/jobs/{jobid}/vertices/{vertexid}/watermarks",
        "/savepoint-disposal/{triggerid}", "/jobs/{jobid}/rescaling", "/jobs/{jobid}/rescaling/{triggerid}",
        "/jobs/{jobid}/resource-requirements", "/jobs/{jobid}/events", "/healthz", "/readyz",
        "/jobs/{jobid}/flow", "/updates", "/whoami", "/challenge",
        "/jobs/health", "/jobs/{jobid}/history", "/jobs/{jobid}/vertices/{vertexid}/history",
        "/applications/overview", "/applications/{applicationid}",
        "/applications/{applicationid}/cancel", "/applications/{applicationid}/exceptions",
        "/applications/{applicationid}/jobmanager/config", "/datasets", "/datasets/{datasetid}",
        "/datasets/delete/{triggerid}", "/jobs/{jobid}/status", "/jobs/{jobid}/execution-result",
        "/jobs/{jobid}/yarn-cancel", "/jobs/{jobid}/yarn-stop", "/jobs/{jobid}/clientHeartbeat",
        "/jobs/{jobid}/jobmanager/config", "/jobs/{jobid}/jobmanager/environment", "/jobs/{jobid}/jobmanager/log-url",
        "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url", "/jars/{jarid}/run-application",
        "/wheels/{wheelid}/run-application", "/jobs/{jobid}/rescales/overview", "/jobs/{jobid}/rescales/summary",
        "/jobs/{jobid}/rescales/history", "/jobs/{jobid}/rescales/config",
        "/jobs/{jobid}/rescales/details/{rescaleuuid}", "/jobmanager/profiler", "/jobmanager/profiler/{file}",
        "/taskmanagers/{taskmanagerid}/profiler", "/taskmanagers/{taskmanagerid}/profiler/{file}",
        "/jobs/{jobid}/logs", "/jobs/{jobid}/vertices/{vertexid}/logs",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/logs",
    }  # fmt: skip
    assert set(document["paths"]) == expected
    for operations in document["paths"].values():
        for operation in operations.values():
            for response in operation["responses"].values():
                for content in response["content"].values():
                    jsonschema.Draft202012Validator.check_schema(content["schema"])


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", "/nothing", 404, "no such path: /nothing"),
        ("GET", "/v2/jobs", 404, "no such path"),
        ("POST", "/overview", 405, "POST is not allowed on /overview"),
        ("GET", f"/jobs/{'0' * 32}", 404, "could not be found"),
        ("PATCH", f"/jobs/{'0' * 32}", 404, "could not be found"),
        ("GET", "/jobs/not-an-id", 400, "is not a job id"),
        ("GET", "/jobs/..%2f..%2fetc", 404, "no such path"),
        ("GET", "/taskmanagers/nobody", 404, "no task manager nobody"),
        ("GET", "/taskmanagers/nobody/log", 404, "no task manager nobody"),
        ("DELETE", "/jars/x.whl", 404, "no uploaded wheel has the id x.whl"),
        ("POST", "/jars/x.whl/run", 404, "no uploaded wheel"),
        ("POST", "/jars/upload", 400, "expected a multipart form"),
    ],
)
async def test_errors_are_one_line_of_json(http: Http, method: str, path: str, status: int, reason: str) -> None:
    (error,) = (await http(method, path, status=status)).json["errors"]
    assert reason in error
    assert "\n" not in error


async def test_odd_requests_about_a_job(dispatcher: RunningDispatcher) -> None:
    job = graph()
    await dispatcher.submit(job)
    path = f"/jobs/{job.job_id}"
    assert "mode 'stop'" in (await dispatcher.http("PATCH", f"{path}?mode=stop", status=400)).json["errors"][0]
    assert (
        "not a whole number"
        in (await dispatcher.http("GET", f"{path}/exceptions?maxExceptions=x", status=400)).json["errors"][0]
    )
    assert "no vertex" in (await dispatcher.http("GET", f"{path}/vertices/{new_id()}", status=404)).json["errors"][0]
    other_site = {"Sec-Fetch-Site": "cross-site"}
    assert (await dispatcher.http("PATCH", path, headers=other_site)).status == 403
    await dispatcher.http("PATCH", path, status=202)
    assert (await dispatcher.http("GET", path)).json["state"] == "CANCELED"
    await dispatcher.http("PATCH", path, status=202)


class FakeCluster:
    """A resource manager with one task manager, and that task manager's log."""

    def __init__(self) -> None:
        self.log_address = ""

    async def get_overview(self, request: Any, context: Any) -> rm.Overview:
        slots = (rm.SlotStatus(0), rm.SlotStatus(1, AllocationId("x"), JobId("y" * 32)))
        manager = rm.TaskManagerInfo(
            TaskManagerId("tm-1"), host="127.0.0.1", address=self.log_address, last_heartbeat=77, cpu_cores=4,
            memory_bytes=1 << 30, slots=slots,
        )  # fmt: skip
        return rm.Overview((manager,))

    async def connect_task_manager(self, request: Any, context: Any) -> None: ...

    async def connect_job_manager(self, request: Any, context: Any) -> None: ...

    async def read_log(self, request: logs.ReadLogRequest, context: Any) -> logs.LogContent:
        if request.name == "none.log":
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such log")
        content = f"the {request.name} of tm-1\n".encode()
        offset = request.offset or 0
        start = offset if offset >= 0 else len(content) + offset
        return logs.LogContent(content[start : start + request.length], start, len(content))

    async def dump_threads(self, request: Any, context: Any) -> ThreadDump:
        return ThreadDump()

    async def list_logs(self, request: Any, context: Any) -> logs.LogList:
        return logs.LogList((logs.LogFile("a.log", 7, 1000),))

    async def get_metrics(self, request: Any, context: Any) -> ProcessMetrics:
        group = MetricGroup(Scope.TASK_MANAGER, {"tm_id": "tm-1"}, gauges={"Status.JVM.CPU.Load": 0.5})
        return ProcessMetrics(encode_groups([group]))


async def test_task_managers_and_their_logs(tmp_path: Path) -> None:
    plain = configuration(tmp_path)
    fake = FakeCluster()
    handlers = [service_handler(contract, fake) for contract in (RESOURCE_MANAGER, INSPECTION)]
    server, port = await serve("127.0.0.1", 0, handlers, plain, "test")
    fake.log_address = f"127.0.0.1:{port}"
    try:
        async with running(plain.merged({"resourcemanager.rpc.port": port})) as service:
            http = Http(service.rest_address)
            get = Checked(http, (await http("GET", "/openapi.json")).json)
            overview = await get("GET", "/overview")
            assert (overview["taskmanagers"], overview["slots-total"], overview["slots-available"]) == (1, 2, 1)
            (listed,) = (await get("GET", "/taskmanagers"))["taskmanagers"]
            assert (listed["slotsNumber"], listed["freeSlots"], listed["hardware"]["cpuCores"]) == (2, 1, 4)
            shown = await get("GET", "/taskmanagers/{taskmanagerid}", "tm-1")
            assert [slot["jobId"] for slot in shown["allocatedSlots"]] == ["y" * 32]
            assert await get("GET", "/taskmanagers/metrics") == [{"id": "Status.JVM.CPU.Load"}]
            load = (await http("GET", "/taskmanagers/tm-1/metrics?get=Status.JVM.CPU.Load", status=200)).json
            assert load == [{"id": "Status.JVM.CPU.Load", "value": "0.5"}]
            await http("GET", "/taskmanagers/tm-2/metrics", status=404)
            slots = (await http("GET", "/jobmanager/metrics?get=taskSlotsTotal,taskSlotsAvailable", status=200)).json
            assert [metric["value"] for metric in slots] == ["2", "1"]
            for name in ("log", "stdout"):
                reply = await http("GET", f"/taskmanagers/tm-1/{name}", status=200)
                assert reply.body == f"the {name} of tm-1\n".encode()
                assert reply.headers["content-type"].startswith("text/plain")
            listing = await get("GET", "/taskmanagers/{taskmanagerid}/logs", "tm-1")
            assert listing == {"logs": [{"name": "a.log", "size": 7, "mtime": 1000}]}
            for part, content, given in (
                ("bytes=4-8", b"a.log", "bytes 4-8/18"),
                ("bytes=13-", b"tm-1\n", "bytes 13-17/18"),
                ("bytes=-2", b"1\n", "bytes 16-17/18"),
                ("bytes=18-", b"", "bytes */18"),
            ):
                headers = {"Range": part}
                reply = await http("GET", "/taskmanagers/tm-1/logs/a.log", headers=headers, status=206)
                assert (reply.body, reply.headers["content-range"]) == (content, given)
            await http("GET", "/taskmanagers/tm-1/logs/none.log", status=404)
            fake.log_address = "127.0.0.1:1"
            reply = await http("GET", "/taskmanagers/tm-1/log", status=500)
            assert "does not respond" in reply.json["errors"][0]
    finally:
        await server.stop(None)


async def test_the_logs_of_the_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    own = folder / "mine.txt"
    own.write_text("own\n")
    monkeypatch.setattr(inspection, "output_files", lambda _folder: {2: own})
    (folder / "jobmanager-1.log").write_text("job manager\n")
    (folder / "jobmanager-1.out").write_text("printed\n")
    (folder / "secret.txt").write_text("secret\n")
    async with running(configuration(tmp_path).merged({"env.log.dir": str(folder)})) as service:
        http = Http(service.rest_address)
        get = Checked(http, (await http("GET", "/openapi.json")).json)
        listed = (await get("GET", "/jobmanager/logs"))["logs"]
        assert [file["name"] for file in listed] == ["jobmanager-1.log", "jobmanager-1.out", "mine.txt"]
        assert (await http("GET", "/jobmanager/logs/mine.txt", status=200)).body == b"own\n"
        assert (await http("GET", "/jobmanager/log", status=200)).body == b"job manager\n"
        assert (await http("GET", "/jobmanager/stdout", status=200)).body == b"printed\n"
        assert (await http("GET", "/jobmanager/logs/jobmanager-1.out", status=200)).body == b"printed\n"
        for name in ("secret.txt", "..%2Fsecret.txt", "none.log"):
            await http("GET", f"/jobmanager/logs/{name}", status=404)


async def test_the_service_reports_nothing_while_it_works_and_stops_twice(tmp_path: Path) -> None:
    async with running(configuration(tmp_path)) as service:
        failure = asyncio.ensure_future(service.failure())
        await Http(service.rest_address)("GET", "/overview", status=200)
        assert not failure.done()
        failure.cancel()
        await asyncio.wait_for(service.stop(), DEADLINE)
    await service.stop()


@pytest.mark.process
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
async def test_https(tmp_path: Path) -> None:
    make_authority(tmp_path, "rest")
    cert, key = tmp_path / "rest.pem", tmp_path / "rest.key"
    tls = {"security.ssl.rest.enabled": "true", "security.ssl.rest.cert": str(cert), "security.ssl.rest.key": str(key)}

    def rest_client(service: DispatcherService, options: dict[str, str]) -> RestClient:
        host, _, port = service.rest_address.rpartition(":")
        return RestClient(Configuration({"rest.address": host, "rest.port": port, **options}), timeout=DEADLINE)

    def request(address: str) -> int:
        context = ssl.create_default_context(cafile=str(cert))
        connection = http.client.HTTPSConnection(address, timeout=DEADLINE, context=context)
        try:
            connection.request("GET", "/overview")
            return connection.getresponse().status
        finally:
            connection.close()

    async with running(configuration(tmp_path, **tls)) as service:
        assert await asyncio.to_thread(request, service.rest_address) == 200
        for options, advice in (
            ({}, r"It uses HTTPS: set 'security\.ssl\.rest\.enabled'"),
            ({"security.ssl.rest.enabled": "true"}, r"Name a file with its authority in 'security\.ssl\.rest\.c"),
        ):
            with pytest.raises(MillstreamError, match=advice):
                await asyncio.to_thread(rest_client(service, options).get, "/overview")
        assert await asyncio.to_thread(rest_client(service, tls).get, "/overview")
    async with running(configuration(tmp_path)) as service:
        with pytest.raises(MillstreamError, match=r"does not use HTTPS, but 'security\.ssl\.rest\.enabled'"):
            await asyncio.to_thread(rest_client(service, tls).get, "/overview")
    for wrong in ({"security.ssl.rest.key": ""}, {"security.ssl.rest.key": str(cert)}):
        broken = DispatcherService(configuration(tmp_path, **{**tls, **wrong}))
        with pytest.raises(MillstreamError, match=r"security\.ssl\.rest"):
            await broken.start()
        await broken.stop()


def test_answers_are_json_without_credentials_whatever_is_in_them() -> None:
    at = "s3://key:secret@bucket/x"
    reply = {"n": 1, "ü": [0.5, None, True], "state": JobStatus.RUNNING, "at": at, "nan": math.nan}
    body = bytes(RedactedJsonResponse(reply).body)
    assert json.loads(body) == {**reply, "state": "RUNNING", "at": "s3://******@bucket/x", "nan": None}
    assert "ü".encode() in body
    assert json.loads(RedactedJsonResponse({"n": 10**30, "at": at}).body) == {"n": 10**30, "at": "s3://******@bucket/x"}
