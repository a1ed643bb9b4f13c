"""A session: one long-lived bidirectional gRPC stream between two services, with heartbeats both ways.

It begins with a handshake, in which both ends agree on the epoch of the leader (`millstream.core.services.handshake`).
After that both ends only exchange messages: received messages are handled in order, and sending never blocks. A session
ends once, with a reason: the ends did not agree, the peer closed it, the stream broke (at once when a process dies), or
no heartbeat was received for `heartbeat.timeout`. The client (`Dialer`) reconnects until it is stopped.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import grpc

from millstream.core.errors import UnreachableError
from millstream.core.jobs.ids import LeaderEpoch
from millstream.core.logs.printable import printable
from millstream.core.logs.repeats import Repeats
from millstream.core.messages.session import Heartbeat, Hello, SessionSignal
from millstream.core.services.handshake import EpochsSeen, disagreement
from millstream.core.services.leader_lookup import KnownLeader, Leader
from millstream.core.services.liveness import Liveness
from millstream.core.services.network import GRPC, Network
from millstream.core.services.rpc import TAKEN, explain, session_call, taken, too_large
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HEARTBEAT_TIMEOUT
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.wire import Wire, WireError

S = TypeVar("S")
R = TypeVar("R")
log = logging.getLogger(__name__)

_USUAL = 5  # failed connection attempts in a row that are usual while services start
STANDS_BY = "this service is a standby: another one may be the leader"


class _Stream(Protocol):
    """A stream of byte strings, each one message."""

    async def read(self) -> Any: ...

    async def write(self, message: bytes) -> None: ...


class Session(Generic[S, R]):
    """One end of a session. Owned by one asyncio loop."""

    def __init__(
        self,
        stream: _Stream,
        outgoing: Wire[S | SessionSignal],
        incoming: Wire[R | SessionSignal],
        peer: str,
        configuration: Configuration,
        address: str = "",
    ) -> None:
        self.peer = peer
        self.address = address
        """The address of the peer at the client; empty at the server."""
        self._stream = stream
        self._outgoing = outgoing
        self._incoming = incoming
        self._configuration = configuration
        self._outbox: asyncio.Queue[S | SessionSignal] = asyncio.Queue()
        self._ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._liveness = Liveness(configuration, asyncio.get_running_loop().time())
        self._on_message: Callable[[R], None] | None = None
        self._greeted = asyncio.Event()  # our first message has been sent to the peer
        self.was_refused = False
        """Whether it ended because of an invalid message of the peer."""
        self.confirmed_at = -math.inf
        """The latest time of this loop at which the peer was alive and had received all messages sent before."""

    @property
    def heard_at(self) -> float:
        """When a message of the peer was last received, not counting time in which this end was suspended."""
        return self._liveness.heard_at

    @property
    def has_begun(self) -> bool:
        """Whether both ends have agreed on the epoch."""
        return self._on_message is not None

    def send(self, message: S | SessionSignal) -> None:
        """Queues a message; after the end of the session it is dropped."""
        if not self._ended.done():
            self._outbox.put_nowait(message)

    def close(self, reason: str) -> None:
        """Ends the session from this side."""
        if not self._ended.done():
            self._ended.set_result(reason)

    def refuse(self, reason: str) -> None:
        """Ends the session because of an invalid message of the peer."""
        if self.is_open:
            self.was_refused = True
            self.close(printable(reason))

    @property
    def is_open(self) -> bool:
        """Whether messages can still arrive."""
        return not self._ended.done()

    async def run(
        self,
        epoch: LeaderEpoch,
        refusal: Callable[[LeaderEpoch], str],
        started: Callable[[Session[S, R]], Callable[[R], None]],
    ) -> str:
        """Sends `epoch`, and runs the session unless `refusal` rejects the peer's; returns why the session ended.

        `started` is called after the handshake, and returns the handler of the peer's messages.
        """

        def greeted(hello: Hello) -> None:
            if refused := refusal(hello.epoch):
                self.refuse(f"{self.peer}: {refused}")
            else:
                self._on_message = started(self)

        self.send(Hello(epoch))
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(step) for step in (self._write(), self._read(greeted), self._beat())]
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
                message = await self._outbox.get()
                raw = self._outgoing.to_bytes(message)
                what = f"'{type(message).__name__}' to {self.peer}"
                if refused := too_large(what, len(raw), self._configuration):
                    log.error("%s", refused)
                    self.close(refused)
                    return
                await self._stream.write(raw)
                self._greeted.set()
                del message, raw  # it may hold a whole job, and the next message may be sent much later
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # the call is over: the peer's remaining messages are still read, and then the status
        except Exception as error:
            log.exception("sending a message to %s failed", self.peer)
            self.close(f"sending a message to {self.peer} failed: {error!r}")
        finally:
            self._greeted.set()

    async def _read(self, greeted: Callable[[Hello], None]) -> None:
        await self._greeted.wait()  # an end that refuses the other has sent it the reason, with its first message
        try:
            while True:
                raw = await self._stream.read()
                if raw is grpc.aio.EOF:
                    self.close(self._hung_up())
                    return
                self._liveness.heard(asyncio.get_running_loop().time())
                self._take(self._incoming.from_bytes(raw), greeted)
        except (grpc.RpcError, asyncio.InvalidStateError) as error:
            self.close(self._ending(error))
        except WireError as error:
            self.refuse(f"{self.peer} sent an invalid message: {error}")
        except asyncio.CancelledError:
            self.close(f"connection to {self.peer} lost")
            raise
        except Exception as error:
            log.exception("handling a message from %s failed", self.peer)
            self.close(f"handling a message from {self.peer} failed: {error!r}")

    def _take(self, message: Any, greeted: Callable[[Hello], None]) -> None:
        if isinstance(message, Heartbeat):
            self._heartbeat(message)
        elif isinstance(message, Hello):
            if self.has_begun:
                self.refuse(f"{self.peer} sent a second handshake")
            else:
                greeted(message)
        elif self._on_message is not None:
            self._on_message(message)
        else:
            self.refuse(f"{self.peer} sent {type(message).__name__} before the handshake")

    def _ending(self, error: Exception) -> str:
        reason = _reason(error)
        # What gRPC reports for a message, and all later ones, after the peer has ended the call.
        return self._hung_up() if reason == "Internal error from Core" else f"connection to {self.peer} lost: {reason}"

    def _hung_up(self) -> str:
        """Returns the reason when the peer's messages have ended.

        A client closes a session by cancelling the call, and the death of a process has the same effect. gRPC reports
        it to the server twice: its messages end, and its method is cancelled. Which is first depends on the load of the
        loop, so both have to result in the same reason.
        """
        return f"{self.peer} closed the connection" if self.address else f"connection to {self.peer} lost"

    def _heartbeat(self, heartbeat: Heartbeat) -> None:
        if heartbeat.time:
            self.send(Heartbeat(echo=heartbeat.time))
        if heartbeat.echo:
            self.confirmed_at = max(self.confirmed_at, heartbeat.echo)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.send(Heartbeat(time=loop.time()))
            await asyncio.sleep(self._liveness.interval)
            if self._liveness.is_lost(loop.time()):
                self.close(f"no heartbeat from {self.peer} for {self._liveness.timeout:g} s")


def _reason(error: Exception) -> str:
    return explain(error) if isinstance(error, grpc.RpcError) else type(error).__name__


async def serve_session(
    context: Any,
    contract: SessionContract[R, S],
    peer: str,
    configuration: Configuration,
    epoch: LeaderEpoch | None,
    started: Callable[[Session[S, R]], Callable[[R], None]],
) -> str:
    """Serves a session as the leader of `epoch`, awaited by a stream-stream method; returns why it ended.

    `started` is as in `Session.run`. Without an epoch this service is a standby, and refuses sessions.

    gRPC cancels the method when the client's connection breaks or the server stops. That is an end like any other here:
    the reason is returned, so that the caller's cleanup always runs.
    """
    if epoch is None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, STANDS_BY)
        return STANDS_BY
    session: Session[S, R] = Session(context, contract.down, contract.up, peer, configuration)
    await context.send_initial_metadata(TAKEN)
    try:
        reason = await session.run(epoch, lambda looked_for: disagreement(looked_for, epoch), started)
    except asyncio.CancelledError:
        reason = f"connection to {session.peer} lost"  # the same reason as in `Session`, when the messages end first
    level = logging.WARNING if session.was_refused else logging.DEBUG
    log.log(level, "session with %s ended: %s", session.peer, reason)
    return reason


class Dialer(Generic[S, R]):
    """Maintains a session with one peer: connects, runs it, and reconnects until stopped.

    The leader's address is looked up for each connection; a session ends when another leader is elected.
    """

    RETRY_AFTER = 0.2

    def __init__(
        self,
        peer: str | Leader,
        contract: SessionContract[S, R],
        configuration: Configuration,
        network: Network = GRPC,
    ) -> None:
        self._peer = peer
        self._contract = contract
        self._configuration = configuration
        self._network = network
        self._epochs = EpochsSeen()

    async def dial_once(
        self, peer: str, started: Callable[[Session[S, R]], Callable[[R], None]], within: float | None = None
    ) -> tuple[bool, str]:
        """Runs one session; returns whether it began, and why it ended.

        The attempt fails if the peer does not respond `within` this many seconds, by default `heartbeat.timeout`: it
        may be frozen, or the network may drop messages.
        """
        if within is None:
            within = self._configuration.get(HEARTBEAT_TIMEOUT)
        try:
            leader = await self._leader()
        except UnreachableError as error:
            return False, f"{peer} is unreachable: {error}"
        address = leader.address
        async with self._network.open_channel(address, self._configuration) as channel:
            call = session_call(channel, self._contract)
            try:
                async with asyncio.timeout(within):
                    await taken(call)
            except TimeoutError:
                return False, f"{peer} at {address} is unreachable: it did not respond within {within:.3g} s"
            except (grpc.RpcError, asyncio.InvalidStateError) as error:
                return False, f"{peer} at {address} is unreachable: {_reason(error)}"
            contract, name = self._contract, f"{peer} at {address}"
            session: Session[S, R] = Session(call, contract.up, contract.down, name, self._configuration, address)
            following = asyncio.create_task(self._follow(session, leader, peer))
            try:
                reason = await session.run(
                    leader.epoch, lambda leads: self._epochs.refusal(leader.epoch, leads), started
                )
                return session.has_begun, reason
            finally:
                following.cancel()
                call.cancel()

    async def _leader(self) -> KnownLeader:
        if isinstance(self._peer, str):
            return KnownLeader(self._peer)
        return await self._peer.lookup.leader_of(self._peer.role)

    async def _follow(self, session: Session[S, R], leader: KnownLeader, peer: str) -> None:
        if not isinstance(self._peer, str):
            new = await self._peer.lookup.changed(self._peer.role, leader)
            session.close(f"{peer} is now at {new.address}")

    async def keep_connected(
        self,
        peer: str,
        started: Callable[[Session[S, R]], Callable[[R], None]],
        ended: Callable[[str], None],
        give_up_after: float | None,
    ) -> str:
        """Reconnects until the peer has been unreachable for `give_up_after` seconds; returns the last reason.

        `ended` is called after each session that had begun.
        """
        loop = asyncio.get_running_loop()
        reachable_at = loop.time()
        failures = Repeats()
        while True:
            connected, reason = await self.dial_once(peer, started)
            if connected:
                reachable_at, failures = loop.time(), Repeats()
                ended(reason)
            elif failures.is_told(peer, loop.time()) and failures.count > _USUAL:
                seconds = loop.time() - reachable_at
                log.warning("%s; reconnecting (%d attempts in %.0f s)", reason, failures.count, seconds)
            if not connected and give_up_after is not None and loop.time() - reachable_at > give_up_after:
                return f"{reason} (tried for {give_up_after:g} s)"
            await asyncio.sleep(self.RETRY_AFTER)
