"""gRPC's servers and channels, over the virtual network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc
from virtual_calls import OK, Aborted, Call, ClientEnd, End, ServerEnd
from virtual_loop import VirtualProcess

if TYPE_CHECKING:
    from virtual_network import VirtualNetwork


class VirtualServer:
    """Runs the methods of one process's services. Stands for `grpc.aio.Server`."""

    def __init__(
        self, network: VirtualNetwork, process: VirtualProcess, handlers: list[grpc.GenericRpcHandler]
    ) -> None:
        self.process = process
        self._network = network
        self._handlers = handlers
        self._methods: dict[asyncio.Task[None], None] = {}  # in the order of their start

    def accept(self, call: Call) -> asyncio.Task[None] | None:
        if not self._network.is_listening(self):
            call.server.over(End(grpc.StatusCode.UNAVAILABLE, "the server is stopping"))
            return None
        details: Any = SimpleNamespace(method=call.path, invocation_metadata=())
        handler: Any = next(filter(None, (h.service(details) for h in self._handlers)))
        method = self._network.loop.create_task(_serve(handler, call.server), context=self.process.context)
        self._methods[method] = None
        method.add_done_callback(lambda done: self._methods.pop(done, None))
        return method

    async def stop(self, grace: float | None) -> None:
        """Methods may continue for the grace; then they are cancelled."""
        self._network.stop_listening(self)
        if self._methods:
            await asyncio.wait(list(self._methods), timeout=grace)
        for method in list(self._methods):
            method.cancel()
        await asyncio.gather(*self._methods, return_exceptions=True)


async def _serve(handler: Any, context: ServerEnd) -> None:
    """One method, however it ends; what it raises becomes the status of the call, as with gRPC."""
    end = OK
    try:
        if handler.request_streaming and handler.response_streaming:
            await handler.stream_stream(None, context)
            return
        request = await context.read()
        if handler.response_streaming:
            async for answer in handler.unary_stream(request, context):
                await context.write(handler.response_serializer(answer))
        else:
            await context.write(handler.response_serializer(await handler.unary_unary(request, context)))
    except Aborted as aborted:
        end = aborted.end
    except asyncio.CancelledError:
        end = End(grpc.StatusCode.UNAVAILABLE, "the server is stopping")
        raise
    finally:
        context.over(end)


class VirtualChannel(grpc.aio.Channel):
    """What `Stub` and sessions are made over."""

    def __init__(self, network: VirtualNetwork, process: VirtualProcess, address: str) -> None:
        self._network = network
        self._process = process
        self._address = address
        self._calls: list[ClientEnd] = []

    def _dial(self, path: str) -> ClientEnd:
        call = self._network.dial(self._process, self._address, path).client
        self._calls.append(call)
        return call

    def unary_unary(self, method: str, request_serializer: Any = None, response_deserializer: Any = None) -> Any:
        async def call(request: Any, timeout: float | None = None) -> Any:
            end = self._dial(method)
            try:
                async with asyncio.timeout(timeout):
                    await end.write(request_serializer(request))
                    if self._network.random.random() < self._network.comes_twice:
                        await self._dial(method).write(request_serializer(request))  # its response is not read
                    return response_deserializer(await end.read())
            except TimeoutError:
                raise End(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded").error() from None
            finally:
                end.cancel()

        return call

    def unary_stream(self, method: str, request_serializer: Any = None, response_deserializer: Any = None) -> Any:
        async def call(request: Any) -> AsyncIterator[Any]:
            end = self._dial(method)
            try:
                await end.write(request_serializer(request))
                while (frame := await end.read()) is not grpc.aio.EOF:
                    yield response_deserializer(frame)
            finally:
                end.cancel()

        return call

    def stream_stream(self, method: str, request_serializer: Any = None, response_deserializer: Any = None) -> Any:
        return lambda wait_for_ready=False: self._dial(method)

    def stream_unary(self, method: str, request_serializer: Any = None, response_deserializer: Any = None) -> Any:
        def call(_requests: Any) -> Awaitable[Any]:
            raise NotImplementedError("nothing is uploaded in a simulation")

        return call

    async def __aenter__(self) -> VirtualChannel:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self, grace: float | None = None) -> None:
        for call in self._calls:
            call.cancel()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return grpc.ChannelConnectivity.READY

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await asyncio.get_running_loop().create_future()

    async def channel_ready(self) -> None:
        """It is, as far as anyone knows."""
