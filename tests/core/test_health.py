"""The responses to probes of `health.port`."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from ports import free_port
from waiting import DEADLINE, run

from millstream.core.errors import MillstreamError
from millstream.core.processes.health import health_response, served_health
from millstream.core.settings.configuration import Configuration


async def nothing() -> str:
    return ""


async def a_peer() -> str:
    return "not registered at the resource manager"


async def send_request(address: str, request: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request)
    response = await reader.read()
    writer.close()
    await writer.wait_closed()
    return response


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz HTTP/1.1", "200 OK", "healthy\n"),
        ("GET /healthz?verbose=1 HTTP/1.0", "200 OK", "healthy\n"),
        ("HEAD /healthz HTTP/1.1", "200 OK", ""),
        ("GET /readyz HTTP/1.1", "503 Service Unavailable", "not registered at the resource manager\n"),
        ("GET / HTTP/1.1", "404 Not Found", "there are /healthz and /readyz\n"),
        ("POST /healthz HTTP/1.1", "405 Method Not Allowed", "only GET is supported\n"),
        ("nonsense", "405 Method Not Allowed", "only GET is supported\n"),
    ],
)
def test_the_response_to_each_request(request_line: str, status: str, body: str) -> None:
    response = asyncio.run(health_response(f"{request_line}\r\nHost: here\r\n\r\n".encode(), a_peer)).decode()
    head, _, content = response.partition("\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}\r\n")
    assert content == body


def test_a_service_that_lacks_nothing_is_ready() -> None:
    assert b" 200 " in asyncio.run(health_response(b"GET /readyz HTTP/1.1\r\n\r\n", nothing))


def test_silent_connections_do_not_block_probes() -> None:
    async def scenario() -> None:
        async with served_health(nothing, Configuration({"health.port": free_port()})) as address:
            host, _, port = address.rpartition(":")
            silent = [await asyncio.open_connection(host, int(port)) for _ in range(300)]
            assert b" 200 " in await send_request(address, b"GET /healthz HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(DEADLINE):
                assert await silent[0][0].read() == b"", "the oldest is displaced"
            for _, writer in silent:
                writer.close()

    run(scenario)


def test_a_probe_that_has_been_sent_is_not_displaced_by_a_flood() -> None:
    """All of it waits to be accepted at once: the probe first, then more connections than places."""

    async def scenario() -> None:
        async with served_health(nothing, Configuration({"health.port": free_port()})) as address:
            host, _, port = address.rpartition(":")
            with contextlib.ExitStack() as opened:
                first, *_ = (
                    opened.enter_context(socket.create_connection((host, int(port)), DEADLINE)) for _ in range(300)
                )
                first.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
                reader, writer = await asyncio.open_connection(sock=first)
                assert b" 200 " in await reader.readline()
                writer.close()

    run(scenario)


def test_it_is_served_only_if_a_port_is_configured() -> None:
    async def scenario() -> None:
        options = Configuration({"health.port": free_port()})
        async with served_health(nothing, options) as address:
            assert (await send_request(address, b"GET /readyz HTTP/1.1\r\n\r\n")).endswith(b"\r\n\r\nready\n")
            assert await send_request(address, b"x" * 20_000 + b"\r\n\r\n") == b""
            with pytest.raises(MillstreamError, match=r"cannot listen on 127\.0\.0\.1:\d+ \(health\.port\)"):
                async with served_health(nothing, options):
                    pass
        with pytest.raises(ConnectionRefusedError):
            await send_request(address, b"GET /readyz HTTP/1.1\r\n\r\n")
        async with served_health(nothing, Configuration()) as nowhere:
            assert nowhere == ""

    run(scenario)
