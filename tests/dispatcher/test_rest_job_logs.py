"""The events of a job, a vertex and a subtask over REST, from the files of two task managers and a job manager."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import grpc
import pytest
from dispatcher_fixtures import configuration, dispatching, graph

from millstream.core.jobs.details import JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.ids import TaskManagerId, new_id
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.logs.log_events import parsed
from millstream.core.logs.log_lines import Line, as_json, as_text
from millstream.core.logs.origins import Origin
from millstream.core.messages import logs
from millstream.core.messages import resource_manager as rm
from millstream.core.services.rpc import serve, service_handler
from millstream.core.wire.contracts import INSPECTION, RESOURCE_MANAGER


class FakeCluster:
    """A resource manager with task managers that all have the same files."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.files: dict[str, str] = {}

    async def get_overview(self, request: Any, context: Any) -> rm.Overview:
        return rm.Overview(
            tuple(
                rm.TaskManagerInfo(TaskManagerId(name), "127.0.0.1", address, 0, 1, 1, ())
                for name, address in self.addresses.items()
            )
        )

    async def connect_task_manager(self, request: Any, context: Any) -> None: ...

    async def connect_job_manager(self, request: Any, context: Any) -> None: ...

    async def get_metrics(self, request: Any, context: Any) -> None: ...

    async def dump_threads(self, request: Any, context: Any) -> None: ...

    async def read_log(self, request: logs.ReadLogRequest, context: Any) -> logs.LogContent:
        if request.name not in self.files:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such log")
        content = self.files[request.name].encode()
        start = max(0, len(content) - request.length) if request.offset is None else request.offset
        return logs.LogContent(content[start : start + request.length], start, len(content))

    async def list_logs(self, request: Any, context: Any) -> logs.LogList:
        return logs.LogList((logs.LogFile("gone.log", 1, 1), *(logs.LogFile(name, 1, 1) for name in self.files)))


async def test_the_events_of_a_job_and_of_its_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = graph()
    source, sink = job.vertices

    def of(at: int, message: str, vertex: Any = None, subtask: int = 0, level: str = "INFO", more: str = "") -> Line:
        task = (vertex.id, f"{vertex.name} ({subtask + 1}/2)", subtask, 3) if vertex else ()
        return Line(at, level, "worker", "a", message, Origin(job.job_id, job.name, *task), more)

    plain, fake = configuration(tmp_path), FakeCluster()
    slot = f"taskmanager-1.{job.job_id}.slot-0"
    fake.files = {
        f"{slot}.log.1": as_text(of(1, "one", source)) + "\n",
        f"{slot}.log": f"{as_json(of(2, 'two', sink, 1, 'ERROR', 'Traceback'))}\n{as_text(of(3, 'three', sink))}\n",
        f"{slot}.out": f"1> of a sink\n{as_text(of(4, 'printed', sink, 1))}\n2> of a sink\n",
        f"taskmanager-1.{new_id()}.slot-0.log": as_text(of(5, "of another job")) + "\n",
    }
    folder = tmp_path / "log"
    folder.mkdir()
    restart = as_text(Line(6, "WARNING", "jobmanager", "b", f"job {job.job_id}: restart 1", None, "Traceback\nof it"))
    (folder / "jobmanager-1.log").write_text(f"{restart}\n{as_text(Line(7, 'INFO', 'jobmanager', 'b', 'else'))}\n")
    handlers = [service_handler(contract, fake) for contract in (RESOURCE_MANAGER, INSPECTION)]
    server, port = await serve("127.0.0.1", 0, handlers, plain, "test")
    fake.addresses = {"tm-1": f"127.0.0.1:{port}", "tm-2": "127.0.0.1:1"}
    options = plain.merged({"resourcemanager.rpc.port": port, "env.log.dir": str(folder)})
    running = tuple(SubtaskStatus(i, ExecutionState.RUNNING) for i in range(2))
    try:
        async with dispatching(options) as dispatcher, dispatcher.running_job(job) as manager:
            http, get = dispatcher.http, await dispatcher.checked()
            vertices = tuple(VertexStatus(v.id, v.name, 2, 9, subtasks=running) for v in job.vertices)
            details = JobDetails(job.job_id, job.name, JobStatus.RUNNING, start_time=1, vertices=vertices)
            await dispatcher.reported(manager, details)

            async def messages(path: str = "", query: str = "") -> list[str]:
                response = await http("GET", f"/jobs/{job.job_id}{path}/logs{query}", status=200)
                return [event["message"].removeprefix(f"job {job.job_id}: ") for event in response.json["events"]]

            threads: set[str] = set()

            def noted(text: str) -> Line | None:
                threads.add(threading.current_thread().name)
                return parsed(text)

            monkeypatch.setattr("millstream.core.logs.recent_events.parsed", noted)
            all_of_it = ["one", "two", "three", "printed", "restart 1"]
            assert await messages() == all_of_it
            assert threads == {"log search_0"}, "the dispatcher's loop continues meanwhile"
            assert await messages(query="?limit=2") == all_of_it[-2:]
            assert await messages(query="?level=WARNING") == ["two", "restart 1"]
            assert await messages(query="?since=3000") == ["three", "printed", "restart 1"]
            assert await messages(f"/vertices/{sink.id}") == ["two", "three", "printed"]
            assert await messages(f"/vertices/{sink.id}/subtasks/1") == ["two", "printed"]
            vertex = "/jobs/{jobid}/vertices/{vertexid}"
            events = (await get("GET", f"{vertex}/logs", job.job_id, sink.id))["events"]
            assert events[0] == {
                "time": 2000, "level": "ERROR", "logger": "a", "message": "two", "exception": "Traceback",
                "vertex": sink.id, "task": "Sink (2/2)", "subtask": 1, "attempt": 3, "taskmanager": "tm-1",
                "file": f"{slot}.log",
            }  # fmt: skip
            last = (await get("GET", "/jobs/{jobid}/logs", job.job_id))["events"][-1]
            assert (last["exception"], last["taskmanager"]) == ("Traceback\nof it", None)
            one = f"{vertex}/subtasks/{{subtaskindex}}/logs"
            assert await get("GET", one, job.job_id, sink.id, "7") == {"events": []}
            for path, status in (
                (f"/jobs/{new_id()}/logs", 404),
                (f"/jobs/{job.job_id}/vertices/{new_id()}/logs", 404),
                (f"/jobs/{job.job_id}/vertices/{sink.id}/subtasks/x/logs", 400),
                (f"/jobs/{job.job_id}/logs?level=LOUD", 400),
                (f"/jobs/{job.job_id}/logs?limit=0", 400),
                (f"/jobs/{job.job_id}/logs?since=-1", 400),
            ):
                await http("GET", path, status=status)
    finally:
        await server.stop(None)
