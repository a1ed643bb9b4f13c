"""The stream of responses by path, the identity of the caller, and the dashboard's files."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from dispatcher_fixtures import DEADLINE, FakeJobManager, Http, configuration, eventually, graph, rest, running
from waiting import run

from millstream.core.clock import SystemClock
from millstream.core.jobs.states import JobStatus
from millstream.dispatcher.dashboard.files import DashboardApp
from millstream.dispatcher.details import submitted_details
from millstream.dispatcher.rest.updates import MOST_STREAMS, PathResponse, TooManyStreams, Updates


class Stream:
    """What a client of `/updates` reads."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next(self) -> dict[str, Any] | None:
        """The next response that is pushed; None at the end of the stream."""
        while line := await asyncio.wait_for(self._reader.readline(), DEADLINE):
            if line.startswith(b"data: "):
                told: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
                return told
        return None


@asynccontextmanager
async def reading(address: str, query: str, *headers: str) -> AsyncIterator[Stream]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        lines = [f"GET /updates?{query} HTTP/1.0", f"Host: {address}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        yield Stream(reader)
    finally:
        writer.close()


def polled() -> int:
    """How many paths the dispatchers of this loop request, since they have subscribers."""
    return sum("Updates._poll()" in repr(task) for task in asyncio.all_tasks())


def test_a_change_is_pushed_to_all_who_look(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(options := configuration(tmp_path)) as service:
            job = graph(name="pushed")
            paths = f"path=/jobs/overview&path=/jobs/{job.job_id}"
            async with reading(service.rest_address, paths) as one, reading(service.rest_address, paths) as other:
                for stream in (one, other):
                    first = {told["path"]: told for told in [await stream.next(), await stream.next()] if told}
                    assert first["/jobs/overview"]["body"] == {"jobs": []}
                    assert first[f"/jobs/{job.job_id}"]["status"] == 404
                manager = FakeJobManager(options)
                details = submitted_details(job, 1)
                manager.jobs[job.job_id] = details
                await manager.connect(service.address)
                for stream in (one, other):
                    later = {told["path"]: told for told in [await stream.next(), await stream.next()] if told}
                    assert later["/jobs/overview"]["body"]["jobs"][0]["name"] == "pushed"
                    assert later[f"/jobs/{job.job_id}"]["body"]["state"] == JobStatus.INITIALIZING
                await manager.disconnect()

    run(scenario)


def test_streams_end_with_the_dispatcher(tmp_path: Path) -> None:
    async def scenario() -> None:
        options = configuration(tmp_path)
        async with running(options) as service, reading(service.rest_address, "path=/config") as stream:
            assert (await stream.next() or {})["status"] == 200
            async with asyncio.timeout(1.5):  # it is not waited for until the server's patience is over
                await service.stop()
            assert await stream.next() is None

    run(scenario)


def test_a_stream_by_way_of_one_that_stands_by_ends_with_its_reader(tmp_path: Path) -> None:
    stored = {"high-availability.type": "file", "high-availability.storageDir": str(tmp_path / "ha")}

    async def scenario() -> None:
        options = configuration(tmp_path, **stored)
        async with running(options) as first:
            await eventually(lambda: first.leads)
            async with running(options) as second:
                async with reading(second.rest_address, "path=/config") as stream:
                    assert (await stream.next() or {})["status"] == 200
                    assert polled() == 1
                await eventually(lambda: polled() == 0)

    run(scenario)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "from 1 to 16"),
        ("&".join(["path=/config"] * 17), "from 1 to 16"),
        ("path=config", "is no path"),
        ("path=/updates", "not a part of itself"),
        ("path=/v1/updates?path=/config", "not a part of itself"),
        ("path=/config&seconds=301", "seconds"),
    ],
)
def test_paths_that_cannot_be_streamed_are_refused(tmp_path: Path, query: str, why: str) -> None:
    async def scenario() -> None:
        async with rest(tmp_path) as http:
            result = await http("GET", f"/updates?{query}", status=400)
            assert why in result.json["errors"][0]

    run(scenario)


def test_a_stream_shows_no_more_than_readers_may_see(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with rest(tmp_path) as http:
            result = await http("GET", "/updates?seconds=1&path=/jars/none/plan&path=/jobmanager/log", status=200)
            told = [json.loads(line[6:]) for line in result.body.splitlines() if line.startswith(b"data: ")]
            assert {one["path"]: one["status"] for one in told} == {"/jars/none/plan": 403, "/jobmanager/log": 415}

    run(scenario)


def test_it_requires_the_role_read_and_whoami_returns_the_caller(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a secret of thirty-two characters!!\n")
    secret.chmod(0o600)

    async def scenario() -> None:
        options = configuration(tmp_path, **{"security__cluster__secret-file": str(secret)})
        async with running(options) as service:
            http = Http(service.rest_address)
            await http("GET", "/updates?path=/config", status=401)
            nobody = await http("GET", "/whoami", status=200)
            assert nobody.json == {"name": "", "role": "anyone", "credential": "none"}
            wrong = await http("GET", "/whoami", headers={"Authorization": "Bearer wrong"})
            assert wrong.status == 401
            assert (await http("GET", "/", status=200)).headers["content-type"].startswith("text/html")

    run(scenario)


class Asked:
    """A cluster that counts the requests."""

    def __init__(self) -> None:
        self.times = 0
        self.leads = True

    async def __call__(self, path: str) -> PathResponse:
        self.times += 1
        return PathResponse(200, b'{"now":%d,"same":1}' % self.times)


def test_equal_paths_are_polled_once_and_a_change_of_the_time_alone_is_not_pushed() -> None:
    async def scenario() -> None:
        asked = Asked()
        updates = Updates(asked, lambda: asked.leads, SystemClock())
        streams = [updates.open(["/a"], life=1.2) for _ in range(20)]

        async def read(stream: AsyncIterator[bytes]) -> list[bytes]:
            return [event async for event in stream if event.startswith(b"event")]

        for events in await asyncio.gather(*map(read, streams)):
            assert len(events) == 1
        assert asked.times <= 3

    run(scenario)


def test_streams_end_when_another_leads() -> None:
    async def scenario() -> None:
        asked = Asked()
        updates = Updates(asked, lambda: asked.leads, SystemClock())
        stream = updates.open(["/a"])
        events = [await anext(stream), await anext(stream)]
        assert b"/a" in events[1]
        asked.leads = False
        assert [event async for event in stream] == []

    run(scenario)


def test_there_are_only_so_many_streams() -> None:
    async def scenario() -> None:
        updates = Updates(Asked(), lambda: True, SystemClock())
        streams = [updates.open(["/a"]) for _ in range(MOST_STREAMS)]
        for stream in streams:
            await anext(stream)
        with pytest.raises(TooManyStreams):
            updates.open(["/a"])
        updates.close()
        for stream in streams:
            assert [event async for event in stream] == []
        updates.open(["/a"])

    run(scenario)


class Answered:
    """What an ASGI application sends."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def of(self, app: DashboardApp, path: str, **headers: str) -> Answered:
        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        scope = {"type": "http", "method": "GET", "path": path, "headers": raw}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self.body += message.get("body", b"")

        await app(scope, None, send)  # type: ignore[arg-type]  # nothing is received
        return self


async def another(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 418, "headers": []})


def test_files_are_served_compressed_and_kept_by_browsers(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets" / "app-1A2B3C4D.js").write_text("run()")
    (tmp_path / "assets" / "app-1A2B3C4D.js.gz").write_bytes(gzip.compress(b"run()"))

    async def scenario() -> None:
        app = DashboardApp(another, tmp_path)
        page = await Answered().of(app, "/")
        assert (page.status, page.body, page.headers["cache-control"]) == (200, b"<!doctype html>", "no-cache")
        assert page.headers["content-security-policy"].startswith("default-src 'self'")
        script = await Answered().of(app, "/assets/app-1A2B3C4D.js", accept_encoding="gzip, br")
        assert gzip.decompress(script.body) == b"run()"
        assert script.headers["content-type"].startswith("text/javascript")
        assert "immutable" in script.headers["cache-control"]
        assert (await Answered().of(app, "/", if_none_match=page.headers["etag"])).status == 304
        for path in ("/assets/app-1A2B3C4D.js.gz", "/assets/../index.html", "/assets/", "/jobs"):
            assert (await Answered().of(app, path)).status == 418

    run(scenario)


def test_without_a_build_the_page_explains_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        page = await Answered().of(DashboardApp(another, tmp_path), "/")
        assert b"installed without its dashboard" in page.body

    run(scenario)
