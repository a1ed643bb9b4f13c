"""One call over the virtual network: two directions, and two ends.

What an end may know, and when, is as with gRPC: the client's `read` returns frames, then the end of the call or an
error; the server's method is cancelled when the call broke or the client cancelled it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from parcels import Parcel
from virtual_loop import Action, VirtualProcess

from millstream.core.messages.session import Heartbeat
from millstream.core.services.rpc import TAKEN

if TYPE_CHECKING:
    from virtual_network import VirtualNetwork


@dataclass(frozen=True, slots=True)
class End:
    """The last frame: with which status the call is over."""

    code: grpc.StatusCode
    details: str = ""

    def error(self) -> grpc.aio.AioRpcError:
        return grpc.aio.AioRpcError(self.code, grpc.aio.Metadata(), grpc.aio.Metadata(), self.details)


OK = End(grpc.StatusCode.OK)
CANCELLED = End(grpc.StatusCode.CANCELLED, "the client cancelled the call")
Frame = bytes | End | None
"""None is what a call begins with: it was dialled, or taken."""


class Call:
    """Both ends, and what is in flight between them."""

    def __init__(self, network: VirtualNetwork, client: VirtualProcess, server: VirtualProcess, path: str) -> None:
        self.path = path
        self.epochs: dict[bool, int] = {}
        """The leader epoch that each end has sent in its `Hello`: the client's under True."""
        self.client = ClientEnd(self, client)
        self.server = ServerEnd(self, server)
        self.to_server = Direction(network, self, self.client, self.server)
        self.to_client = Direction(network, self, self.server, self.client)

    @property
    def is_open(self) -> bool:
        return not (self.to_server.is_closed and self.to_client.is_closed)

    def break_off(self, end: End, by_itself: bool = False) -> None:
        """The connection breaks under both. If it does so by itself, neither has to hear of it from the other."""
        for direction in (self.to_server, self.to_client):
            direction.break_off(end, by_itself)

    def not_connected(self, end: End) -> None:
        if not self.client.is_connected and not self.client.is_over:
            self.break_off(end)
            self.client.arrived(end)


class Direction:
    """Frames in flight from one end to the other."""

    def __init__(self, network: VirtualNetwork, call: Call, source: Any, target: Any) -> None:
        self.is_closed = False
        self._network = network
        self._call = call
        self._source: VirtualProcess = source.process
        self._target = target
        self._frames: deque[tuple[float, Frame]] = deque()
        self._slow_until = 0.0
        self._moving: Action | None = None
        self._is_broken = False

    @property
    def is_busy(self) -> bool:
        return bool(self._frames)

    def send(self, frame: Frame) -> None:
        """The last one, an `End`, closes the direction."""
        if self.is_closed:
            return
        network = self._network
        self.is_closed = isinstance(frame, End)
        if isinstance(frame, bytes):
            network.sent(frame, self._call, self is self._call.to_server)
        self._frames.append((network.loop.time() + network.latency(), frame))
        self._move()

    def break_off(self, end: End, by_itself: bool = False) -> None:
        """What is in flight may be lost, and the end is noticed at some time."""
        self._is_broken = self._is_broken or by_itself
        lost = len(self._frames) if self._is_broken else self._network.random.randint(0, len(self._frames))
        for _ in range(lost):
            self._frames.pop()
        if not self.is_closed or not self._frames:
            self.slow_down()
            self.is_closed = True
            self._frames.append((self._network.loop.time(), end))
            self._move()

    def slow_down(self) -> None:
        """Nothing arrives for a time."""
        self._slow_until = self._network.loop.time() + self._network.slowness()

    def go_on(self) -> None:
        """What held frames up is over earlier than it seemed."""
        if self._moving is not None:
            self._moving.cancel()
            self._moving = None
            self._move()

    def _move(self) -> None:
        if self._frames and self._moving is None:
            when = max(self._frames[0][0], self._passable_at())
            self._moving = self._network.loop.call_at(when, self._arrive, context=self._target.process.context)

    def _arrive(self) -> None:
        """In the process that it arrives at."""
        self._moving = None
        now = self._network.loop.time()
        if self._frames and self._frames[0][0] <= now and self._passable_at() <= now:
            frame = self._frames.popleft()[1]
            if type(frame) is not Parcel or type(frame.message) is not Heartbeat:
                self._network.has_news = True
            self._target.arrived(frame)
        self._move()

    def _passable_at(self) -> float:
        if self._is_broken:
            return self._slow_until
        return max(self._slow_until, self._network.cut_off_until(self._source, self._target.process))


class _Inbox:
    """What has arrived at an end and was not read yet."""

    def __init__(self) -> None:
        self._frames: deque[bytes | End] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def put(self, frame: bytes | End) -> None:
        self._frames.append(frame)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def get(self) -> bytes | End:
        """The next frame; the end again and again."""
        while not self._frames:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._frames[0] if isinstance(self._frames[0], End) else self._frames.popleft()


class ClientEnd:
    """A call as the client has it: awaitable when it has one response, to be iterated or read when it has many."""

    def __init__(self, call: Call, process: VirtualProcess) -> None:
        self.process = process
        self.is_connected = False
        self.is_over: End | None = None
        self._call = call
        self._inbox = _Inbox()
        self._begun: asyncio.Future[None] | None = None

    def arrived(self, frame: Frame) -> None:
        if self.is_over is not None:
            return
        if isinstance(frame, End):
            self.is_over = frame
        if frame is None:
            self.is_connected = True
        else:
            self._inbox.put(frame)
        if self._begun is not None and not self._begun.done():
            self._begun.set_result(None)

    async def wait_for_connection(self) -> None:
        if not self.is_connected and self.is_over is None:
            self._begun = asyncio.get_running_loop().create_future()
            await self._begun
        if not self.is_connected and self.is_over is not None:
            raise self.is_over.error()

    async def initial_metadata(self) -> Any:
        await self.wait_for_connection()
        return TAKEN

    async def read(self) -> Any:
        frame = await self._inbox.get()
        if not isinstance(frame, End):
            return frame
        if frame.code is grpc.StatusCode.OK:
            return grpc.aio.EOF
        raise frame.error()

    async def write(self, message: bytes) -> None:
        if self.is_over is not None:
            raise self.is_over.error()
        self._call.to_server.send(message)

    def cancel(self) -> bool:
        """What was not sent yet may never be; the server learns of it."""
        if self.is_over is not None:
            return False
        self.arrived(CANCELLED)
        self._call.to_client.is_closed = True
        self._call.to_server.break_off(CANCELLED)
        return True


class ServerEnd:
    """A call as the method that serves it has it: gRPC's `ServicerContext`."""

    def __init__(self, call: Call, process: VirtualProcess) -> None:
        self.process = process
        self.on_dialled: Callable[[], asyncio.Task[None] | None]
        self._call = call
        self._inbox = _Inbox()
        self._method: asyncio.Task[None] | None = None

    def arrived(self, frame: Frame) -> None:
        match frame:
            case None:
                self._method = self.on_dialled()
            case bytes():
                self._inbox.put(frame)
            case End():
                if self._method is not None:
                    self._method.cancel()

    def peer(self) -> str:
        return f"virtual:{self._call.client.process.name}"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def send_initial_metadata(self, _metadata: Any) -> None:
        self._call.to_client.send(None)

    async def read(self) -> Any:
        return await self._inbox.get()

    async def write(self, message: bytes) -> None:
        self._call.to_client.send(message)

    async def abort(self, code: grpc.StatusCode, details: str = "") -> None:
        raise Aborted(End(code, details))

    def over(self, end: End) -> None:
        """The method has ended: nothing that comes is of interest, and what it sent goes out."""
        self._call.to_client.send(end)
        self._call.to_server.is_closed = True


class Aborted(Exception):
    def __init__(self, end: End) -> None:
        super().__init__(end.details)
        self.end = end
