"""What the dispatcher's tests share: a running service, a fake job manager, an HTTP client, wheels."""

from __future__ import annotations

import asyncio
import http.client
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
import jsonschema
from links import Link
from waiting import DEADLINE
from wheels import wheel_bytes

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from millstream.core.jobs.ids import JobId, JobManagerId, OperatorId, VertexId, new_id
from millstream.core.messages.dispatcher import (
    DispatcherMessage,
    JobManagerMessage,
    JobRequest,
    RegisterJobManager,
    StartJob,
    SubmitJobRequest,
)
from millstream.core.services.rpc import Stub, open_channel
from millstream.core.settings.configuration import Configuration
from millstream.core.store.high_availability import HighAvailability
from millstream.core.wire.contracts import DISPATCHER, JOB_MANAGER_AT_DISPATCHER
from millstream.dispatcher.service import DispatcherService

Told = TypeVar("Told")


def configuration(tmp_path: Path, **options: str) -> Configuration:
    values = {
        "dispatcher.rpc.port": "0",
        "rest.port": "0",
        "resourcemanager.rpc.port": "1",
        "io.tmp.dirs": str(tmp_path / "work"),
        "heartbeat.interval": "100 ms",
        "heartbeat.timeout": "1 min",
    }
    values.update({key.replace("__", "."): value for key, value in options.items()})
    return Configuration(values)


def graph(job_id: str | None = None, name: str = "a job", parallelism: int = 2) -> JobGraph:
    source, sink = VertexId("a" * 32), VertexId("b" * 32)
    return JobGraph(
        JobId(job_id or new_id()),
        name,
        (
            JobVertex(source, "Source", 1, 128, "default", (OperatorInfo(OperatorId(source), "", "Source"),), b""),
            JobVertex(sink, "Sink", parallelism, 128, "default", (OperatorInfo(OperatorId(sink), "", "Sink"),), b""),
        ),
        (JobEdge(source, sink, 0, 0, "HASH", b""),),
        {"parallelism.default": str(parallelism)},
    )


@asynccontextmanager
async def running(options: Configuration, ha: HighAvailability | None = None) -> AsyncIterator[DispatcherService]:
    service = DispatcherService(options, ha=ha)
    try:
        await service.start()
        yield service
    finally:
        await service.stop()


class FakeJobManager:
    """Dials the dispatcher as a job manager does; tests read its messages and set its reports."""

    def __init__(self, options: Configuration, name: str = "jm-1") -> None:
        self.id = JobManagerId(name)
        self.jobs: dict[JobId, JobDetails] = {}
        self._options = options
        self._link: Link[JobManagerMessage, DispatcherMessage] | None = None

    async def connect(self, address: str) -> None:
        registration = RegisterJobManager(self.id, "x:1", tuple(self.jobs.values()))
        self._link = Link(address, JOB_MANAGER_AT_DISPATCHER, self._options, registration)
        self.told = self._link.received
        await self._link.session

    async def next(self, kind: type[Told]) -> Told:
        message = await asyncio.wait_for(self.told.get(), DEADLINE)
        assert isinstance(message, kind)
        return message

    def report(self, details: JobDetails) -> None:
        self.jobs[details.job_id] = details
        self.send(details)

    def send(self, message: JobManagerMessage) -> None:
        self._link.session.result().send(message)

    async def disconnect(self) -> None:
        await self._link.close()


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Http:
    """Requests over real HTTP, one connection each, without blocking the loop."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._host, _, port = address.rpartition(":")
        self._port = int(port)

    async def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, status: int | None = None
    ) -> Answer:
        answer = await asyncio.to_thread(self._request, method, path, body, headers or {})
        assert status is None or answer.status == status, answer
        return answer

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        content = json.dumps(body) if isinstance(body, dict) else body
        connection = http.client.HTTPConnection(self._host, self._port, timeout=DEADLINE)
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read(), {k.lower(): v for k, v in response.getheaders()})
        finally:
            connection.close()

    async def upload(self, name: str, content: bytes, path: str = "/jars/upload", field: str = "jarfile") -> Answer:
        boundary = "a-boundary-of-the-test"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n'
        head += f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        head += "Content-Type: application/x-java-archive\r\n\r\n"
        form = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return await self("POST", path, form, {"Content-Type": f"multipart/form-data; boundary={boundary}"})


@asynccontextmanager
async def rest(tmp_path: Path, **options: str) -> AsyncIterator[Http]:
    """Of a dispatcher with these options."""
    async with running(configuration(tmp_path, **options)) as service:
        yield Http(service.rest_address)


class Checked:
    """Requests whose successful responses are checked against the published schema."""

    def __init__(self, http: Http, document: dict[str, Any]) -> None:
        self.http = http
        self.document = document
        self.seen: set[str] = set()

    async def __call__(self, method: str, template: str, *values: str, status: int = 200, **request: Any) -> Any:
        path = template
        for value in values:
            path = path.replace(path[path.index("{") : path.index("}") + 1], value, 1)
        answer: Answer = await self.http(method, path, status=status, **request)
        schema = self.document["paths"][template][method.lower()]["responses"][str(status)]["content"]
        jsonschema.validate(answer.json, schema["application/json"]["schema"])
        assert (await self.http(method, "/v1" + path, **request)).status == status
        self.seen.add(f"{method} {template}")
        return answer.json


def wheel(files: dict[str, str], name: str = "tinyjob", entry: str | None = "tinyjob:main") -> bytes:
    """A wheel with these modules. Its entry point is in the group for jobs."""
    return wheel_bytes(files, name, entry=entry)


@dataclass
class RunningDispatcher:
    """A dispatcher, and clients of both its faces."""

    service: DispatcherService
    options: Configuration
    channel: grpc.aio.Channel

    @property
    def stub(self) -> Stub:
        return Stub(self.channel, DISPATCHER)

    @property
    def http(self) -> Http:
        return Http(self.service.rest_address)

    async def checked(self) -> Checked:
        return Checked(self.http, (await self.http("GET", "/openapi.json", status=200)).json)

    async def submit(self, job: JobGraph) -> JobId:
        job_id: JobId = (await self.stub.submit_job(SubmitJobRequest(job))).job_id
        return job_id

    async def cancel(self, job_id: JobId) -> None:
        await self.stub.cancel_job(JobRequest(job_id))

    def watch(self, job_id: JobId) -> Any:
        return self.stub.watch_job(JobRequest(job_id))

    async def reported(self, manager: FakeJobManager, details: JobDetails) -> None:
        """Returns when the dispatcher knows what the job manager reports."""
        watch = self.watch(details.job_id)
        manager.report(details)
        while (await watch.read()).state is not details.state:
            pass

    @asynccontextmanager
    async def job_manager(self, name: str = "jm-1") -> AsyncIterator[FakeJobManager]:
        manager = FakeJobManager(self.options, name)
        try:
            await manager.connect(self.service.address)
            yield manager
        finally:
            await manager.disconnect()

    @asynccontextmanager
    async def running_job(self, job: JobGraph) -> AsyncIterator[FakeJobManager]:
        """Submits it to a job manager, which receives the message to start it."""
        async with self.job_manager() as manager:
            await self.submit(job)
            await manager.next(StartJob)
            yield manager


@asynccontextmanager
async def dispatching(options: Configuration, ha: HighAvailability | None = None) -> AsyncIterator[RunningDispatcher]:
    async with running(options, ha) as service, open_channel(service.address, options) as channel:
        yield RunningDispatcher(service, options, channel)


async def eventually(check: Callable[[], Any]) -> None:
    """Checks the condition until it holds, with a deadline; it may be a coroutine."""
    async with asyncio.timeout(DEADLINE):
        while True:
            found = check()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.02)
