"""A call fails in time if its peer is frozen or cut off, and waits as long as the peer responds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from millstream.core.messages.resource_manager import Overview
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, channel_for_calls, serve, service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import RESOURCE_MANAGER

HASTY = Configuration({"heartbeat.interval": "50 ms", "heartbeat.timeout": "1 s"})


class SlowService:
    """Responds when the test requests it."""

    def __init__(self) -> None:
        self.called = asyncio.Event()
        self.may_respond = asyncio.Event()

    async def get_overview(self, _request: Empty, _context: Any) -> Overview:
        self.called.set()
        await self.may_respond.wait()
        return Overview(pending_slots=7)

    async def connect_job_manager(self, _requests: Any, _context: Any) -> None: ...

    async def connect_task_manager(self, _requests: Any, _context: Any) -> None: ...


class Wire:
    """Between a client and a server, until it drops everything silently."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._passes = asyncio.Event()
        self._passes.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(writer), contextlib.closing(back):
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer), return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(65536):
            if self._passes.is_set():
                writer.write(content)

    def break_down(self) -> None:
        self._passes.clear()


@contextlib.asynccontextmanager
async def called(over_wire: bool) -> AsyncIterator[tuple[SlowService, Wire, asyncio.Task[Any]]]:
    """A call in progress."""
    service = SlowService()
    handlers = [service_handler(RESOURCE_MANAGER, service)]
    server, port = await serve("127.0.0.1", 0, handlers, HASTY, "resourcemanager.rpc.port")
    wire = Wire(port)
    listener = await asyncio.start_server(wire.accept, "127.0.0.1", 0)
    dialled = listener.sockets[0].getsockname()[1] if over_wire else port
    async with channel_for_calls(f"127.0.0.1:{dialled}", HASTY) as channel:

        async def call() -> Any:
            return await Stub(channel, RESOURCE_MANAGER).get_overview(Empty())

        task = asyncio.create_task(call())
        await service.called.wait()
        yield service, wire, task
        await asyncio.gather(task, return_exceptions=True)
    listener.close()
    await server.stop(None)


async def test_a_call_to_a_peer_that_is_cut_off_fails() -> None:
    async with called(over_wire=True) as (_, wire, call):
        wire.break_down()
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await call
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_call_waits_for_a_peer_that_responds() -> None:
    async with called(over_wire=False) as (service, _, call):
        done, _pending = await asyncio.wait([call], timeout=1.5 * HASTY.value("heartbeat.timeout"))
        assert not done
        service.may_respond.set()
        assert (await call).pending_slots == 7
