"""The gRPC exchange: one stream for each pair of slot workers, on a thread of its own.

Of two workers, the one whose address sorts first connects. The worker's loop passes frames to be sent; frames that
arrive are put into its mailbox as `FrameArrived`, and the end of a stream as `PeerLost`. The exchange itself only reads
the greeting. Nothing is retried: a lost stream means a lost peer, until a task that is deployed later connects to it
again. Frames sent to a lost peer before that are dropped.

A peer whose native code holds the interpreter lock is not lost (`millstream.core.services.silence`): its gRPC threads
need no lock, and take a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, assert_never

import grpc
from msgspec import Struct

from millstream.core.jobs.ids import JobId
from millstream.core.messages.session import Heartbeat
from millstream.core.processes.forking import keep_port_from_children
from millstream.core.processes.loops import end_tasks, new_loop
from millstream.core.services.liveness import Liveness
from millstream.core.services.rpc import dialled, explain
from millstream.core.services.security import check_listen, server_credentials
from millstream.core.services.silence import accepts_connections, until_silent
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import SSL_INTERNAL_ENABLED, TASKMANAGER_HOST
from millstream.core.settings.options.tasks import NETWORK_CONNECT_TIMEOUT, TASKMANAGER_MEMORY_SEGMENT_SIZE
from millstream.core.wire.wire import UnknownKindError, WireError
from millstream.taskmanager.worker.network.frames import (
    FRAME,
    SERVICE,
    Backlog,
    Credit,
    Data,
    Frame,
    Hello,
)
from millstream.taskmanager.worker.network.outbox import Outbox

log = logging.getLogger(__name__)
_HEADROOM = 64 * 1024
_REASON_TIMEOUT = 1.0
_STOP_TIMEOUT = 60.0
_NO_MEMORY = "this worker has no memory left for what it sent"


class FrameArrived(Struct, frozen=True):
    """A well-formed frame of a known peer."""

    peer: str
    frame: Frame


class PeerLost(Struct, frozen=True):
    """The stream to a peer ended, or was never established."""

    peer: str
    reason: str


class _Refused(Exception):
    """The stream has to be closed; the reason is sent to the peer."""


class _Peer:
    """One stream, once it is established. Owned by the exchange's loop, except for `outbox`."""

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self.wake = asyncio.Event()
        self.outbox = Outbox(partial(loop.call_soon_threadsafe, self.wake.set))
        self.attached = asyncio.Event()
        self.refuse: str | None = None
        self.lost = False


class DataPlane:
    """One slot worker's end of the data plane. Public methods may be called from any thread after `start`."""

    def __init__(self, job_id: JobId, host: str, configuration: Configuration, post: Callable[[Any], None]) -> None:
        self.address = ""
        self._job_id = job_id
        self._host = host
        self._configuration = configuration
        self._post = post
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._run, name="millstream data-plane", daemon=True)
        self._peers: dict[str, _Peer] = {}
        self._lost: set[str] = set()
        self._expecting = threading.Lock()
        self._dials: set[asyncio.Task[None]] = set()
        self._server: grpc.aio.Server | None = None
        limit = configuration.get(TASKMANAGER_MEMORY_SEGMENT_SIZE) + _HEADROOM
        self._options = [
            ("grpc.max_receive_message_length", limit),
            ("grpc.max_send_message_length", limit),
            ("grpc.so_reuseport", 0),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.enable_http_proxy", 0),
        ]

    def start(self) -> None:
        """Listens on a free port; `address` is set afterwards."""
        check_listen(self._host, self._configuration, SSL_INTERNAL_ENABLED, TASKMANAGER_HOST)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def stop(self) -> None:
        """Ends all streams and the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_STOP_TIMEOUT)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_TIMEOUT)
        elif not self._loop.is_closed():
            self._loop.close()  # it never ran

    @property
    def peers(self) -> list[str]:
        """The workers to which a stream exists or is being established."""
        return list(self._peers)

    def connect(self, peer: str) -> None:
        """Ensures that a stream to the peer exists or is being established."""
        self._lost.discard(peer)
        self._expect(peer)

    def send(self, peer: str, frame: Frame) -> None:
        """Encodes a frame and queues it. The order per peer is kept."""
        entry = self._peers.get(peer)
        if entry is None:
            if peer in self._lost:
                return
            entry = self._expect(peer)
        entry.outbox.put(FRAME.to_bytes(frame))

    def refuse(self, peer: str, reason: str) -> None:
        """Closes the stream to a peer that violated the protocol, and sends it the reason."""
        self._loop.call_soon_threadsafe(self._refuse, peer, reason)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(end_tasks())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _listen(self) -> None:
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._accept)
        self._server = grpc.aio.server(options=self._options)
        service = grpc.method_handlers_generic_handler(SERVICE, {"Exchange": handler})
        self._server.add_generic_rpc_handlers((service,))
        credentials = server_credentials(self._configuration)
        where = f"{self._host}:0"
        add = self._server
        port = add.add_insecure_port(where) if credentials is None else add.add_secure_port(where, credentials)
        keep_port_from_children(f"{self._host}:{port}")
        await self._server.start()
        self.address = f"{self._host}:{port}"

    async def _close(self) -> None:
        for peer in self._peers.values():
            peer.lost = True
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        if self._server is not None:
            await self._server.stop(None)

    def _expect(self, address: str) -> _Peer:
        """Called on any thread: the entry is created at once, so that frames sent one after the other stay in order."""
        with self._expecting:
            peer = self._peers.get(address)
            if peer is None:
                peer = self._peers[address] = _Peer(address, self._loop)
                self._loop.call_soon_threadsafe(self._serve, peer)
            return peer

    def _serve(self, peer: _Peer) -> None:
        serve = self._dial(peer) if self.address < peer.address else self._await_dial(peer)
        task = self._loop.create_task(serve)
        self._dials.add(task)
        task.add_done_callback(self._dials.discard)

    def _refuse(self, address: str, reason: str) -> None:
        peer = self._peers.get(address)
        if peer is not None:
            peer.refuse = reason
            peer.wake.set()

    def _lose(self, peer: _Peer, reason: str) -> None:
        if not peer.lost:
            peer.lost = True
            self._lost.add(peer.address)
            with self._expecting:  # before the notification: its receiver may connect again at once
                if self._peers.get(peer.address) is peer:
                    del self._peers[peer.address]
            self._post(PeerLost(peer.address, reason))

    async def _await_dial(self, peer: _Peer) -> None:
        timeout = self._configuration.get(NETWORK_CONNECT_TIMEOUT)
        while True:
            try:
                async with asyncio.timeout(timeout):  # `wait_for` may swallow the cancellation by `_close`
                    await peer.attached.wait()
                return
            except TimeoutError:
                if peer.lost or not await accepts_connections(peer.address, self._configuration, timeout):
                    self._lose(peer, f"it did not connect within {timeout:g} s")
                    return
            log.warning("%s has not connected for %g s, but its process responds: still waiting", peer.address, timeout)

    def _channel(self, address: str) -> grpc.aio.Channel:
        return dialled(address, self._configuration, self._options)

    async def _dial(self, peer: _Peer) -> None:
        timeout = self._configuration.get(NETWORK_CONNECT_TIMEOUT)
        async with self._channel(peer.address) as channel:
            try:
                async with asyncio.timeout(timeout):
                    await channel.channel_ready()
            except TimeoutError:
                self._lose(peer, f"no connection within {timeout:g} s{await _reason(channel)}")
                return
            call: Any = channel.stream_stream(f"/{SERVICE}/Exchange")()
            try:
                await call.write(self._hello())
                first = await call.read()
                if first is grpc.aio.EOF:
                    raise _Refused("it closed the connection")
                self._check_hello(first)
                await self._exchange(peer, call)
            except _Refused as refused:
                self._lose(peer, str(refused))
            except grpc.RpcError as error:
                self._lose(peer, explain(error))
            except asyncio.InvalidStateError:
                self._lose(peer, "the connection was closed")
            except MemoryError:
                self._lose(peer, _NO_MEMORY)
            finally:
                call.cancel()
                self._lose(peer, "the connection was closed")

    async def _accept(self, _requests: Any, context: Any) -> None:
        """The serving end of one stream.

        Invalid data of an unknown client ends this stream and affects nothing else.
        """
        peer: _Peer | None = None
        try:
            first = await context.read()
            if first is grpc.aio.EOF:
                return
            hello = self._check_hello(first)
            if hello.worker_address >= self.address:
                raise _Refused(f"{hello.worker_address} must wait for the connection of {self.address}")
            known = self._peers.get(hello.worker_address)
            if known is not None and known.attached.is_set():
                reason = "it connected again"  # it noticed the end of the stream first
                self._lose(known, reason)
                known.refuse = reason
                known.wake.set()
            peer = self._expect(hello.worker_address)
            peer.attached.set()
            await context.write(self._hello())
            await self._exchange(peer, context)
        except _Refused as refused:
            if peer is not None:
                self._lose(peer, str(refused))
            else:
                log.warning("refused a data stream from %s: %s", context.peer(), refused)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refused))
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            if peer is not None:
                self._lose(peer, explain(error) if isinstance(error, grpc.RpcError) else "the connection was closed")
        except MemoryError:
            if peer is not None:
                self._lose(peer, _NO_MEMORY)
        finally:
            if peer is not None:
                self._lose(peer, "the connection was closed")

    async def _exchange(self, peer: _Peer, stream: Any) -> None:
        liveness = Liveness(self._configuration, self._loop.time())
        steps = (self._read(peer, stream, liveness), self._write(peer, stream), self._beat(peer, liveness))
        tasks = [self._loop.create_task(step) for step in steps]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            self._lose(peer, "it closed the connection")
        finally:
            for task in tasks:
                task.cancel()
            with contextlib.suppress(Exception):
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, peer: _Peer, stream: Any, liveness: Liveness) -> None:
        post, address = self._post, peer.address
        while (raw := await stream.read()) is not grpc.aio.EOF:
            liveness.heard(self._loop.time())
            frame = _parse(raw)
            match frame:
                case Data() | Credit() | Backlog() | Hello():
                    post(FrameArrived(address, frame))
                case Heartbeat():
                    pass  # it was received
                case _:
                    assert_never(frame)

    async def _beat(self, peer: _Peer, liveness: Liveness) -> None:
        """Sends heartbeats, and notices when the peer is frozen, or cut off without a message."""
        await until_silent(
            peer.address,
            liveness,
            lambda: self.send(peer.address, Heartbeat()),
            lambda: accepts_connections(peer.address, self._configuration, liveness.timeout),
        )
        raise _Refused(f"no heartbeat for {liveness.timeout:g} s")

    async def _write(self, peer: _Peer, stream: Any) -> None:
        outbox = peer.outbox
        while True:
            while (frame := outbox.take()) is not None:
                await stream.write(frame)
            if peer.refuse is not None:
                raise _Refused(peer.refuse)
            peer.wake.clear()
            if outbox.may_sleep() and peer.refuse is None:
                await peer.wake.wait()

    def _hello(self) -> bytes:
        return FRAME.to_bytes(Hello(self._job_id, self.address))

    def _check_hello(self, raw: bytes) -> Hello:
        match _parse(raw):
            case Hello(job_id) as hello:
                if job_id != self._job_id:
                    raise _Refused(f"this worker runs job {self._job_id}, not {job_id}")
                return hello
            case _:
                raise _Refused("the first frame has to be a hello")


async def _reason(channel: grpc.aio.Channel) -> str:
    """Why the last attempt to connect has failed; empty if unknown."""
    call: Any = channel.stream_stream(f"/{SERVICE}/Exchange")()
    try:
        async with asyncio.timeout(_REASON_TIMEOUT):
            await call.wait_for_connection()
    except grpc.RpcError as error:
        return f": {explain(error)}"
    except TimeoutError:
        pass
    finally:
        call.cancel()
    return ""


def _parse(raw: bytes) -> Frame:
    try:
        return FRAME.from_bytes(raw)
    except UnknownKindError as error:
        raise _Refused("unexpected frame: it has no kind") from error
    except WireError as error:
        raise _Refused("malformed frame") from error
