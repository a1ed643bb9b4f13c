"""The bounds of the REST server's connections: their number, and how long a request may take to arrive."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

import pytest
from dispatcher_fixtures import DEADLINE, Http, configuration, eventually, running

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


def test_who_sends_at_a_fair_pace_or_waits_for_an_answer_has_all_the_time() -> None:
    patience, request = Patience(), object()
    for look in range(10):
        assert not patience.is_over(request, look * 40 * KILOBYTES, waits=True, answered=False)
    for _ in range(10):
        assert not patience.is_over(request, 400 * KILOBYTES, waits=False, answered=False)
    for _ in range(10):  # one small request after another
        assert not patience.is_over(object(), 400 * KILOBYTES, waits=True, answered=True)


def test_who_sends_next_to_nothing_or_goes_on_after_the_answer_is_given_up() -> None:
    for sent, answered in ((KILOBYTES, False), (0, False), (999 * KILOBYTES, True)):
        patience, request = Patience(), object()
        assert not patience.is_over(request, 100, waits=True, answered=answered)
        assert patience.is_over(request, 100 + sent, waits=True, answered=answered)


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
            answer = await reader.read()
            assert b" 408 " in answer
            assert b"did not arrive" in answer
            writer.close()
        await eventually(lambda: not has_a_file())
        await Http(service.rest_address)("GET", "/overview", status=200)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_there_are_no_more_connections_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.dispatcher.rest.connection.most_connections", lambda: 0)
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        reader, writer = await _connect(service.rest_address)
        answer = await reader.read()
        assert b" 503 " in answer
        assert b"too many connections" in answer
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(UPLOAD + chunk(BEGINNING) + b"no size\r\n", id="in the body"),
        pytest.param(UPLOAD + chunk(b"nonsense") + b"no size\r\n", id="as the answer is made"),
        pytest.param(
            UPLOAD.replace(b"multipart/form-data", b"text/plain") + chunk(b"x" * 70000) + b"no size\r\n", id="refused"
        ),
    ],
)
async def test_a_malformed_body_is_no_error_of_the_dispatcher(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    async with running(configuration(tmp_path)) as service, asyncio.timeout(DEADLINE):
        for pause in (False, True):  # all at once, or the fault after the answer
            reader, writer = await _connect(service.rest_address)
            answer = b""
            if pause and b"half" not in sent:
                writer.write(sent.removesuffix(b"no size\r\n"))
                answer = await reader.readuntil(b"\r\n\r\n")
                writer.write(b"no size\r\n")
            else:
                writer.write(sent)
            answer += await reader.read()
            assert b" 400 " in answer
            writer.close()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
