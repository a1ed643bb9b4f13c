"""The secret of a cluster: its file, and calls between real servers and clients that have it or not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from waiting import DEADLINE

from millstream.core.errors import ConfigurationError
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.messages import dispatcher as msg
from millstream.core.messages.session import Empty
from millstream.core.services.cluster_secret import cluster_secret, make_secret_file
from millstream.core.services.identity import identity
from millstream.core.services.rpc import TAKEN, Stub, explain, open_channel, serve, service_handler, taken
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import shown_options, split_options
from millstream.core.wire.contracts import DISPATCHER

OURS = Configuration({"security.cluster.secret": "the secret of our own cluster"})
THEIRS = Configuration({"security.cluster.secret": "the secret of somebody else"})
NONE = Configuration()


def test_no_token_or_certificate_shows_the_secret() -> None:
    secret = cluster_secret(OURS)
    assert secret is not None
    seen = f"{secret!r} {secret.rest_token('read')} {secret.seal('x', b'y')} {identity(OURS)} {OURS!r}"
    assert "secret of our own" not in seen
    assert secret.rest_token("read") != secret.rest_token("submit") != secret.seal("rest", b"submit ")


def test_a_new_file_is_its_owners_alone_and_one_that_is_there_stays(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    before = os.umask(0)
    try:
        make_secret_file(file)
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    content = file.read_text()
    make_secret_file(file)
    assert file.read_text() == content
    assert len(content.strip()) == 64
    assert cluster_secret(Configuration({"security.cluster.secret-file": str(file)})) is not None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    make_secret_file(file)
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=rf"security\.cluster\.secret-file.*{file}.*chmod 600"):
        cluster_secret(Configuration({"security.cluster.secret-file": str(file)}))


def test_a_missing_or_useless_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"security\.cluster\.secret-file.*cannot read /nowhere: No such file"):
        cluster_secret(Configuration({"security.cluster.secret-file": "/nowhere"}))
    file = tmp_path / "secret"
    file.touch(0o600)
    for content in (b"", b"short\n", b"two lines of text\nare no secret", b"\xff\xfe\xfd" * 20):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match=str(file)):
            cluster_secret(Configuration({"security.cluster.secret-file": str(file)}))


def test_the_secret_is_hidden_among_options_and_where_it_lies_is_not() -> None:
    options = {"security.cluster.secret": "x" * 20, "security.cluster.secret-file": "/a/file"}
    assert shown_options(options) == {"security.cluster.secret": "******", "security.cluster.secret-file": "/a/file"}
    plain, secret = split_options(options)
    assert (list(plain), list(secret)) == (["security.cluster.secret-file"], ["security.cluster.secret"])


class Dispatcher:
    """Of each kind of call one; counts those that came through."""

    def __init__(self) -> None:
        self.calls = 0
        self.received: list[bytes] = []

    async def list_jobs(self, _request: Empty, _context: Any) -> msg.JobList:
        self.calls += 1
        return msg.JobList(())

    async def download_artifact(self, _request: Any, _context: Any) -> AsyncIterator[msg.ArtifactChunk]:
        self.calls += 1
        for data in (b"a", b"b"):
            yield msg.ArtifactChunk(data=data)

    async def upload_artifact(self, chunks: AsyncIterator[msg.ArtifactChunk], context: Any) -> Artifact:
        self.calls += 1
        await context.send_initial_metadata(())
        self.received += [chunk.data async for chunk in chunks]
        return Artifact("sha", "name", ArtifactKind.DATA)

    async def connect_job_manager(self, _requests: Any, context: Any) -> None:
        self.calls += 1
        await context.send_initial_metadata(TAKEN)
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message.upper())

    def __getattr__(self, name: str) -> Any:
        async def missing(*_: Any) -> None: ...

        return missing


@asynccontextmanager
async def serving(configuration: Configuration) -> AsyncIterator[tuple[Dispatcher, str]]:
    service = Dispatcher()
    handlers = [service_handler(DISPATCHER, service)]
    server, port = await serve("127.0.0.1", 0, handlers, configuration, "dispatcher.rpc.port")
    try:
        yield service, f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def every_kind(channel: grpc.aio.Channel) -> list[Any]:
    """What each kind of call answers; its error when it has one."""
    stub = Stub(channel, DISPATCHER)

    async def unary() -> Any:
        return await stub.list_jobs(Empty(), timeout=DEADLINE)

    async def download() -> Any:
        return [chunk.data async for chunk in stub.download_artifact(msg.ArtifactRequest("x"))]

    async def upload() -> Any:
        async def chunks() -> AsyncIterator[msg.ArtifactChunk]:
            yield msg.ArtifactChunk(Artifact("sha", "name", ArtifactKind.DATA), b"code")

        return (await stub.upload_artifact(chunks())).name

    async def session() -> Any:
        call: Any = channel.stream_stream("/millstream.dispatcher.Dispatcher/ConnectJobManager")()
        with contextlib.closing(_Cancelling(call)):
            await taken(call)
            seen = []
            for message in (b"one", b"two"):
                await call.write(message)
                seen.append(await call.read())
            await call.done_writing()
            return seen

    async with asyncio.timeout(DEADLINE):
        return [await _outcome(kind()) for kind in (unary, download, upload, session)]


class _Cancelling:
    def __init__(self, call: Any) -> None:
        self.close = call.cancel


async def _outcome(call: Any) -> Any:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        return error


def refusals(outcomes: Sequence[Any]) -> list[str]:
    assert all(isinstance(outcome, grpc.aio.AioRpcError) for outcome in outcomes), outcomes
    assert {outcome.code() for outcome in outcomes} == {grpc.StatusCode.UNAVAILABLE}
    return [explain(outcome) for outcome in outcomes]


@pytest.mark.parametrize("options", [NONE, OURS], ids=["without a secret", "with one"])
async def test_who_has_the_same_is_served(options: Configuration) -> None:
    async with serving(options) as (service, address), open_channel(address, options) as channel:
        assert await every_kind(channel) == [msg.JobList(()), [b"a", b"b"], "name", [b"ONE", b"TWO"]]
        assert (service.calls, service.received) == (4, [b"code"])


@pytest.mark.parametrize(
    ("client", "server", "said"),
    [
        (NONE, OURS, "secret or authority"),
        (THEIRS, OURS, "secret or authority"),
        (OURS, NONE, "does not use TLS"),
    ],
)
async def test_who_has_not_is_refused_before_anything_is_read(
    client: Configuration, server: Configuration, said: str
) -> None:
    async with serving(server) as (service, address), open_channel(address, client) as channel:
        for reason in refusals(await every_kind(channel)):
            assert said in reason
            assert "security.cluster.secret-file" in reason
            assert "\n" not in reason
        assert (service.calls, service.received) == (0, [])


async def test_a_client_without_a_certificate_of_the_secret_is_not_served() -> None:
    own, theirs = identity(OURS), identity(THEIRS)
    assert own is not None
    assert theirs is not None
    name = [("grpc.ssl_target_name_override", own.name)]
    for shown in ((), (theirs.key, theirs.certificate)):
        credentials = grpc.ssl_channel_credentials(own.authority, *shown)
        async with serving(OURS) as (service, address):
            async with grpc.aio.secure_channel(address, credentials, options=name) as channel:
                refusals(await every_kind(channel))
            assert service.calls == 0


async def test_what_is_recorded_on_the_way_cannot_be_sent_again() -> None:
    """A process between both ends passes everything on, and sends what the client sent to the service once more."""
    recorded: list[bytes] = []
    async with serving(OURS) as (service, address):
        host, _, port = address.rpartition(":")

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(host, int(port))

            async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, kept: list[bytes]) -> None:
                with contextlib.suppress(OSError):
                    while data := await source.read(65536):
                        kept.append(data)
                        target.write(data)
                    target.close()

            await asyncio.gather(pass_on(reader, back, recorded), pass_on(there, writer, []))

        proxy = await asyncio.start_server(between, "127.0.0.1", 0)
        async with open_channel(f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}", OURS) as channel:
            assert await Stub(channel, DISPATCHER).list_jobs(Empty(), timeout=DEADLINE) == msg.JobList(())
        assert service.calls == 1
        assert b"ListJobs" not in b"".join(recorded)
        async with asyncio.timeout(DEADLINE):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"".join(recorded))
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()
        proxy.close()
        assert service.calls == 1


async def test_silent_connections_keep_no_call_out() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))  # both ends are in this process
    try:
        async with serving(OURS) as (_, address):
            host, _, port = address.rpartition(":")
            with contextlib.ExitStack() as opened:
                for _ in range(1000):
                    opened.enter_context(socket.create_connection((host, int(port)), DEADLINE))
                async with open_channel(address, OURS) as channel:
                    assert await Stub(channel, DISPATCHER).list_jobs(Empty(), timeout=DEADLINE) == msg.JobList(())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_server_that_is_not_there_is_unavailable_as_ever() -> None:
    async with open_channel("127.0.0.1:1", OURS) as channel:
        for outcome in await every_kind(channel):
            assert outcome.code() is grpc.StatusCode.UNAVAILABLE
            assert "secret" not in explain(outcome)
