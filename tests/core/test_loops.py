"""gRPC's handlers end by themselves after their server is stopped: nothing is printed about them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc
import pytest

from millstream.core.processes.loops import end_tasks


def test_handlers_that_are_still_ending_print_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[str]:
        ended: list[str] = []
        started, may_end = asyncio.Event(), asyncio.Event()

        async def handle(request: bytes, context: Any) -> bytes:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await may_end.wait()
                ended.append("handler")
            return request

        server = grpc.aio.server()
        method: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(handle)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", {"Call": method}),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = asyncio.ensure_future(channel.unary_unary("/test.Service/Call")(b""))
            await started.wait()
            await server.stop(None)
            await asyncio.gather(call, return_exceptions=True)
        asyncio.get_running_loop().call_soon(may_end.set)  # some turns later, when the loop is about to end
        await end_tasks()
        return ended

    with caplog.at_level(logging.ERROR):
        assert asyncio.run(run()) == ["handler"]
    assert caplog.messages == []


def test_everything_else_is_cancelled() -> None:
    async def run() -> bool:
        forever = asyncio.ensure_future(asyncio.Event().wait())
        await asyncio.sleep(0)
        await end_tasks()
        return forever.cancelled()

    assert asyncio.run(run())
