"""A session: one long-lived bidirectional gRPC stream between two services, with heartbeats both ways.

Both ends only exchange messages: what arrives is handed to `on_message` in order, what is sent never blocks the
sender. A session ends once, with a reason: the peer closed it, the stream broke (at once when a process dies), or the
peer was silent for `heartbeat.timeout`. The end that dials (`Dialer`) tries again for as long as it is asked to.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import grpc

from millstream.core.errors import UnreachableError
from millstream.core.services.leader_lookup import Leader
from millstream.core.services.liveness import Liveness
from millstream.core.services.rpc import Stub, explain, open_channel, too_large
from millstream.core.settings.configuration import Configuration
from millstream.proto.session_pb2 import Heartbeat

S = TypeVar("S")
R = TypeVar("R")
log = logging.getLogger(__name__)


class _Stream(Protocol):
    async def read(self) -> Any: ...

    async def write(self, message: Any) -> None: ...


class Session(Generic[S, R]):
    """One end of a session. Owned by one asyncio loop."""

    def __init__(
        self,
        stream: _Stream,
        message_type: Callable[..., S],
        peer: str,
        configuration: Configuration,
        address: str = "",
    ) -> None:
        self.peer = peer
        self.address = address
        """Where the peer was dialled; empty at the end that was."""
        self._stream = stream
        self._configuration = configuration
        self._message_type = message_type
        self._outbox: asyncio.Queue[S] = asyncio.Queue()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._liveness = Liveness(configuration, asyncio.get_running_loop().time())
        self.confirmed_at = -math.inf
        """The latest time of this loop at which the peer surely was there, and had all that was sent before it."""

    @property
    def heard_at(self) -> float:
        """When the peer was last heard, as far as this end did not stand still since."""
        return self._liveness.heard_at

    def send(self, message: S) -> None:
        """Queues a message; after the end it goes nowhere."""
        if not self._ended.done():
            self._outbox.put_nowait(message)

    def close(self, reason: str) -> None:
        """Ends the session from this side."""
        if not self._ended.done():
            self._ended.set_result(reason)

    @property
    def is_open(self) -> bool:
        """Whether messages can still arrive."""
        return not self._ended.done()

    async def run(self, on_message: Callable[[R], None]) -> str:
        """Delivers messages until the session ends; answers why it ended."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(step) for step in (self._write(), self._read(on_message), self._beat())]
        try:
            return await self._ended
        finally:
            self.close("cancelled")
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while True:
                message: Any = await self._outbox.get()
                kind = message.WhichOneof("kind")
                if refused := too_large(f"'{kind}' to {self.peer}", message.ByteSize(), self._configuration):
                    log.error("%s", refused)
                    self.close(refused)
                    return
                await self._stream.write(message)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self.close(self._ending(error))

    async def _read(self, on_message: Callable[[R], None]) -> None:
        try:
            while True:
                message = await self._stream.read()
                if message is grpc.aio.EOF:
                    self.close(f"{self.peer} closed the connection")
                    return
                self._liveness.heard(asyncio.get_running_loop().time())
                kind = message.WhichOneof("kind")
                if kind == "heartbeat":
                    self._heartbeat(message.heartbeat)
                elif kind is not None:
                    on_message(message)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self.close(self._ending(error))
        except asyncio.CancelledError:
            self.close(f"connection to {self.peer} lost")
            raise
        except Exception as error:
            log.exception("handling a message from %s failed", self.peer)
            self.close(f"handling a message from {self.peer} failed: {error!r}")

    def _ending(self, error: Exception) -> str:
        reason = _reason(error)
        # What gRPC answers to a message, and from then on to all else, after the peer has ended the call.
        if reason == "Internal error from Core":
            return f"{self.peer} closed the connection"
        return f"connection to {self.peer} lost: {reason}"

    def _heartbeat(self, heartbeat: Heartbeat) -> None:
        if heartbeat.time:
            self.send(self._message_type(heartbeat=Heartbeat(echo=heartbeat.time)))
        if heartbeat.echo:
            self.confirmed_at = max(self.confirmed_at, heartbeat.echo)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.send(self._message_type(heartbeat=Heartbeat(time=loop.time())))
            await asyncio.sleep(self._liveness.interval)
            if self._liveness.is_lost(loop.time()):
                self.close(f"no heartbeat from {self.peer} for {self._liveness.timeout:g} s")


def _reason(error: Exception) -> str:
    return explain(error) if isinstance(error, grpc.RpcError) else type(error).__name__


async def serve_session(
    context: Any,
    message_type: Callable[..., S],
    peer: str,
    configuration: Configuration,
    started: Callable[[Session[S, R]], Callable[[R], None]],
) -> str:
    """The serving end, awaited by a stream-stream method. `started` gets the session and answers its handler.

    gRPC cancels the method when the client's end breaks or the server stops. That is an end like any other here: the
    answer is its reason, so what the caller does after a session's end is done on every end.
    """
    session: Session[S, R] = Session(context, message_type, peer, configuration)
    await context.send_initial_metadata(())  # what the dialling end waits for
    try:
        reason = await session.run(started(session))
    except asyncio.CancelledError:
        reason = f"connection to {session.peer} lost"
    log.debug("session with %s ended: %s", session.peer, reason)
    return reason


class Dialer:
    """Keeps a session to one peer alive: dials, runs, and dials again until stopped.

    A leader is dialled where it is then; a session with one that is followed by another ends.
    """

    RETRY_AFTER = 0.2

    def __init__(self, peer: str | Leader, service: Any, method: str, configuration: Configuration) -> None:
        self._peer = peer
        self._service = service
        self._method = method
        self._configuration = configuration

    async def dial_once(
        self, message_type: Callable[..., S], peer: str, started: Callable[[Session[S, R]], Callable[[R], None]]
    ) -> tuple[bool, str]:
        """One session from start to end: whether it ever connected, and why it ended."""
        try:
            address = self._peer if isinstance(self._peer, str) else await self._peer.lookup.address_of(self._peer.role)
        except UnreachableError as error:
            return False, f"{peer} is unreachable: {error}"
        async with open_channel(address, self._configuration) as channel:
            call = getattr(Stub(channel, self._service), self._method)(wait_for_ready=False)
            try:
                await call.wait_for_connection()
            except (grpc.RpcError, asyncio.InvalidStateError) as error:
                return False, f"{peer} at {address} is unreachable: {_reason(error)}"
            session: Session[S, R] = Session(call, message_type, f"{peer} at {address}", self._configuration, address)
            following = asyncio.create_task(self._follow(session, peer))
            try:
                return True, await session.run(started(session))
            finally:
                following.cancel()
                call.cancel()

    async def _follow(self, session: Session[S, R], peer: str) -> None:
        if not isinstance(self._peer, str):
            address = await self._peer.lookup.changed(self._peer.role, session.address)
            session.close(f"{peer} is now at {address}")

    async def keep_connected(
        self,
        message_type: Callable[..., S],
        peer: str,
        started: Callable[[Session[S, R]], Callable[[R], None]],
        ended: Callable[[str], None],
        give_up_after: float | None,
    ) -> str:
        """Dials until the peer stays unreachable for `give_up_after` seconds; answers the last reason.

        `ended` is called after each session that had connected.
        """
        loop = asyncio.get_running_loop()
        reachable_at = loop.time()
        while True:
            connected, reason = await self.dial_once(message_type, peer, started)
            if connected:
                reachable_at = loop.time()
                ended(reason)
            elif give_up_after is not None and loop.time() - reachable_at > give_up_after:
                return f"{reason} (tried for {give_up_after:g} s)"
            await asyncio.sleep(self.RETRY_AFTER)
