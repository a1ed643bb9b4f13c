"""A fake cluster for the command line: REST responses from a table, and the dispatcher's artifact service."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from processes import fresh_environment
from waiting import DEADLINE

from millstream.core.jobs.graph import Artifact
from millstream.core.messages.dispatcher import ArtifactChunk, ArtifactRequest, ArtifactStatus
from millstream.core.services.rpc import serve, service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import DISPATCHER

Response = tuple[int, Any] | Callable[[], tuple[int, Any]]


class FakeCluster:
    """`responses` maps "METHOD /path?query" to a status and a body; requests, and the JSON in them, are recorded."""

    def __init__(self, address: str) -> None:
        self.address = address
        named = {"jid": "abc", "name": "abc", "start-time": 0, "end-time": -1}
        self.responses: dict[str, Response] = {"GET /jobs/overview": (200, {"jobs": [named]})}
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.artifacts: dict[str, bytes] = {}


class FakeDispatcher:
    """Stores artifacts; every other method of the contract is missing here."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    async def has_artifact(self, request: ArtifactRequest, context: Any) -> ArtifactStatus:
        return ArtifactStatus(request.sha256 in self._cluster.artifacts)

    async def upload_artifact(self, chunks: AsyncIterator[ArtifactChunk], context: Any) -> Artifact:
        parts = [chunk async for chunk in chunks]
        content = b"".join(part.data for part in parts)
        artifact = parts[0].artifact
        assert hashlib.sha256(content).hexdigest() == artifact.sha256
        self._cluster.artifacts[artifact.sha256] = content
        return artifact

    def __getattr__(self, name: str) -> Any:
        async def missing(*_: Any) -> None:
            raise NotImplementedError(name)

        return missing


@pytest.fixture
def fake_cluster() -> Iterator[FakeCluster]:
    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            request = f"{self.command} {self.path}"
            cluster.requests.append(request)
            length = int(self.headers.get("Content-Length", 0))
            if length:
                assert self.headers["Content-Type"] == "application/json"
                cluster.bodies.append(json.loads(self.rfile.read(length)))
            answer = cluster.responses.get(request, (404, {"errors": [f"Not found: {self.path}"]}))
            status, body = answer() if callable(answer) else answer
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PATCH = do_POST = _respond  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cluster = FakeCluster(f"127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def fake_dispatcher(fake_cluster: FakeCluster) -> Iterator[FakeCluster]:
    """The fake cluster with a dispatcher that takes artifacts, named by /config."""
    ready: list[int] = []
    started = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serving() -> None:
        handler = service_handler(DISPATCHER, FakeDispatcher(fake_cluster))
        server, port = await serve("127.0.0.1", 0, [handler], Configuration(), "dispatcher.rpc.port")
        ready.append(port)
        started.set()
        await stop.wait()
        await server.stop(None)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serving()))
    thread.start()
    try:
        assert started.wait(DEADLINE)
        fake_cluster.responses["GET /config"] = (200, {"dispatcher-rpc-address": f"127.0.0.1:{ready[0]}"})
        yield fake_cluster
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


class Cli:
    """Runs `millstream` as users do, in a directory and with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = fresh_environment(HOME=str(home), TMPDIR=str(home))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "millstream.cli.main", *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments), cwd=self.home, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), cwd=self.home, env=self.environment, text=True, check=False, timeout=DEADLINE,
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip

    def start_cluster(self, *options: str) -> subprocess.CompletedProcess[str]:
        """On free ports, however long it takes."""
        services = ("dispatcher.rpc", "jobmanager.rpc", "resourcemanager.rpc", "rest")
        ports = [f"-D{service}.port=0" for service in services]
        return self("cluster", "start", "--timeout", str(DEADLINE / 2), *ports, *options)

    def fails(self, *arguments: str, status: int = 1) -> str:
        """The one line that a failing command prints."""
        done = self(*arguments)
        assert done.returncode == status, done
        lines = done.stderr.splitlines()
        assert len(lines) == 1, done.stderr
        return lines[0]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    home = tmp_path / "home"
    home.mkdir()
    return Cli(home)
