"""The bounds of the REST server's connections: their number, and how long a request may take to arrive."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from dispatcher_fixtures import DEADLINE, Http, configuration, eventually, running

from millstream.core.services.authority import Authority
from millstream.dispatcher.rest.connection import BoundedConnection, Patience
from millstream.dispatcher.rest.server import listen

KILOBYTES = 1024
UPLOAD = (
    b"POST /jars/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
BEGINNING = b'--b\r\nContent-Disposition: form-data; name="jarfile"; filename="a-1-py3-none-any.whl"\r\n\r\nhalf'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_who_sends_at_a_fair_pace_or_waits_for_a_response_has_all_the_time() -> None:
    patience, request = Patience(), object()
    for look in range(10):
        assert not patience.is_over(request, look * 40 * KILOBYTES, waits=True, responded=False)
    for _ in range(10):
        assert not patience.is_over(request, 400 * KILOBYTES, waits=False, responded=False)
    for _ in range(10):  # one small request after another
        assert not patience.is_over(object(), 400 * KILOBYTES, waits=True, responded=True)


def test_connections_that_send_next_to_nothing_or_continue_after_the_response_are_closed() -> None:
    for sent, responded in ((KILOBYTES, False), (0, False), (999 * KILOBYTES, True)):
        patience, request = Patience(), object()
        assert not patience.is_over(request, 100, waits=True, responded=responded)
        assert patience.is_over(request, 100 + sent, waits=True, responded=responded)


def test_what_a_connection_carries_is_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), DEADLINE):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = address.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def test_requests_that_do_not_arrive_are_given_up_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[BoundedConnection] = []

    class Recorded(BoundedConnection):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
            super().connection_made(transport)
            made.append(self)

    monkeypatch.setattr("millstream.dispatcher.rest.server.BoundedConnection", Recorded)

    def has_a_file() -> bool:
        return any((tmp_path / "work" / "uploads").iterdir())

    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        for sent in (b"", b"GET /overview HTTP/1.1\r\nHost: loc", UPLOAD + chunk(BEGINNING)):
            reader, writer = await _connect(service.rest_address)
            writer.write(sent)
            await eventually(lambda sent=sent: made and made[-1].received == len(sent))
            if sent.startswith(UPLOAD):
                await eventually(has_a_file)
            connection = made.pop()
            for _ in range(2):
                connection.look_again()
            result = await reader.read()
            assert b" 408 " in result
            assert b"did not arrive" in result
            writer.close()
        await eventually(lambda: not has_a_file())
        await Http(service.rest_address)("GET", "/overview", status=200)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@contextlib.contextmanager
def silent_connections(address: str, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    """Of one client, which sends the beginning of a request, or nothing, and then no more."""
    host, _, port = address.rpartition(":")
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(silent_connection(host, int(port), sent)) for _ in range(count)]


def silent_connection(host: str, port: int, sent: bytes) -> socket.socket:
    connection = socket.create_connection((host, port), DEADLINE)
    with contextlib.suppress(ConnectionError):  # displaced already
        connection.sendall(sent)
    return connection


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of each connection are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
@pytest.mark.parametrize("sent", [b"", b"GET /overview HTTP/1.1\r\nHost: loc"], ids=["nothing", "half a head"])
async def test_silent_connections_keep_no_request_out(tmp_path: Path, sent: bytes) -> None:
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        http, loop = Http(service.rest_address), asyncio.get_running_loop()
        with contextlib.ExitStack() as opened:
            for _ in range(2):
                flood = silent_connections(service.rest_address, 600, sent)
                await loop.run_in_executor(None, opened.enter_context, flood)
                for path in ("/healthz", "/overview", "/readyz"):
                    assert (await http("GET", path)).status in ((200, 503) if path == "/readyz" else (200,))


async def test_a_request_that_has_been_sent_is_not_displaced_by_a_flood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it waits to be accepted at once: the request first, then more connections than places."""
    monkeypatch.setattr("millstream.dispatcher.rest.server.most_connections", lambda: 100)
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        with (
            silent_connections(service.rest_address, 1, request) as (first,),
            silent_connections(service.rest_address, 500, b""),
        ):
            reader, writer = await asyncio.open_connection(sock=first)
            assert b" 200 " in await reader.readline()
            writer.close()


async def test_connections_without_a_handshake_keep_no_request_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.dispatcher.rest.server.most_connections", lambda: 20)
    authority = Authority.new()
    certificate, key = authority.certificate("rest", ["127.0.0.1"], days=1)
    for name, content in (("authority.pem", authority.to_pem()[0]), ("rest.pem", certificate), ("rest.key", key)):
        (tmp_path / name).write_bytes(content)
    options = {
        "security__ssl__rest__enabled": "true",
        "security__ssl__rest__cert": str(tmp_path / "rest.pem"),
        "security__ssl__rest__key": str(tmp_path / "rest.key"),
    }
    tls = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
    async with running(configuration(tmp_path, **options)) as service, asyncio.timeout(DEADLINE):
        host, _, port = service.rest_address.rpartition(":")
        first, first_writer = await _connect(service.rest_address)
        with contextlib.ExitStack() as opened:
            flood = silent_connections(service.rest_address, 80, b"")
            await asyncio.get_running_loop().run_in_executor(None, opened.enter_context, flood)
            assert await first.read() == b"", "the oldest is displaced"
            first_writer.close()
            reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b" 200 " in await reader.readline()
            writer.close()


async def test_probes_are_served_when_there_is_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.dispatcher.rest.server.most_connections", lambda: 0)
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        http = Http(service.rest_address)
        await http("GET", "/healthz", status=200)
        result = await http("GET", "/overview", status=503)
        assert "too many connections" in result.body.decode()


async def test_a_head_that_is_late_and_an_upload_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.dispatcher.rest.connection._HEADERS", 0.05)
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        upload_reader, upload = await _connect(service.rest_address)
        upload.write(UPLOAD + chunk(BEGINNING))
        for sent in (b"", b"GET /overview HTTP/1.1\r\n"):
            reader, writer = await _connect(service.rest_address)
            writer.write(sent)
            result = await reader.read()
            assert b" 408 " in result
            writer.close()
        upload.write(chunk(b"\r\n--b--\r\n") + b"0\r\n\r\n")
        assert b" 400 " in await upload_reader.readline()  # what arrived is no wheel
        upload.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(UPLOAD + chunk(BEGINNING) + b"no size\r\n", id="in the body"),
        pytest.param(UPLOAD + chunk(b"nonsense") + b"no size\r\n", id="as the response is made"),
        pytest.param(
            UPLOAD.replace(b"multipart/form-data", b"text/plain") + chunk(b"x" * 70000) + b"no size\r\n", id="refused"
        ),
    ],
)
async def test_a_malformed_body_is_no_error_of_the_dispatcher(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        for pause in (False, True):  # all at once, or the fault after the response
            reader, writer = await _connect(service.rest_address)
            result = b""
            if pause and b"half" not in sent:
                writer.write(sent.removesuffix(b"no size\r\n"))
                result = await reader.readuntil(b"\r\n\r\n")
                writer.write(b"no size\r\n")
            else:
                writer.write(sent)
            result += await reader.read()
            assert b" 400 " in result
            writer.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
