"""Sessions over real loopback gRPC: order, heartbeats, ends, and reconnecting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from fuzzed_messages import anything, words
from hypothesis import given, settings
from links import Link
from ports import free_port
from thoroughness import cases
from waiting import run

from millstream.core.errors import UnreachableError
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.messages.resource_manager import NotEnoughSlots, Overview, Requirement
from millstream.core.messages.session import Empty, Heartbeat, Hello
from millstream.core.services.leader_lookup import ConfiguredLeaders, KnownLeader, Leader, Role, address_options
from millstream.core.services.rpc import TAKEN, open_channel, serve, service_handler, session_call
from millstream.core.services.session import STANDS_BY, Dialer, Session, serve_session
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contract import SessionContract
from millstream.core.wire.contracts import (
    JOB_MANAGER_AT_RESOURCE_MANAGER,
    RESOURCE_MANAGER,
    TASK_MANAGER_AT_RESOURCE_MANAGER,
)

SESSION = JOB_MANAGER_AT_RESOURCE_MANAGER
CALM = Configuration({"heartbeat.interval": "10 s", "heartbeat.timeout": "50 s"})
HASTY = Configuration({"heartbeat.interval": "25 ms", "heartbeat.timeout": "500 ms"})


def report(number: int, job_id: str = "job") -> Requirement:
    return Requirement(JobId(job_id), number)


def notice(number: int) -> NotEnoughSlots:
    return NotEnoughSlots(JobId("job"), number, 0, 0, 0, 0)


class Server:
    """Serves sessions; `handle` is called with each message."""

    def __init__(self, configuration: Configuration, handle: Callable[[Any, Any], None], epoch: int | None) -> None:
        self.epoch = None if epoch is None else LeaderEpoch(epoch)
        self.configuration = configuration
        self.handle = handle
        self.sessions: asyncio.Queue[Session[Any, Any]] = asyncio.Queue()
        self.ends: asyncio.Queue[str] = asyncio.Queue()
        self.address = ""
        self.grpc_server: grpc.aio.Server | None = None

    async def connect_job_manager(self, _requests: Any, context: Any) -> None:
        def started(session: Session[Any, Any]) -> Callable[[Any], None]:
            self.sessions.put_nowait(session)
            return lambda message: self.handle(session, message)

        reason = await serve_session(context, SESSION, "client", self.configuration, self.epoch, started)
        self.ends.put_nowait(reason)

    async def connect_task_manager(self, _requests: Any, context: Any) -> None:
        """A peer that accepts a session and then sends nothing."""
        await context.send_initial_metadata(TAKEN)
        with contextlib.suppress(grpc.RpcError):
            while await context.read() is not grpc.aio.EOF:
                pass

    async def get_overview(self, _request: Empty, _context: Any) -> Overview:
        return Overview(pending_slots=7)

    async def stop(self) -> None:
        if self.grpc_server is not None:
            await self.grpc_server.stop(0)
            self.grpc_server = None


@contextlib.asynccontextmanager
async def serving(
    configuration: Configuration = CALM,
    handle: Callable[[Any, Any], None] = lambda session, message: None,
    port: int = 0,
    epoch: int | None = 1,
) -> AsyncIterator[Server]:
    server = Server(configuration, handle, epoch)
    handlers = [service_handler(RESOURCE_MANAGER, server)]
    server.grpc_server, bound = await serve("127.0.0.1", port, handlers, configuration, "resourcemanager.rpc.port")
    server.address = f"127.0.0.1:{bound}"
    try:
        yield server
    finally:
        await server.stop()


def dialled(
    server: Server, configuration: Configuration = CALM, contract: SessionContract[Any, Any] = SESSION
) -> Link[Any, Any]:
    return Link(server.address, contract, configuration, peer="the server")


@contextlib.asynccontextmanager
async def connected(
    configuration: Configuration = CALM, handle: Callable[[Any, Any], None] = lambda session, message: None
) -> AsyncIterator[tuple[Server, Link[Any, Any], Session[Any, Any]]]:
    """A server, and a client with its session; both ends are closed at the end."""
    async with serving(configuration, handle) as server:
        client = dialled(server, configuration)
        yield server, client, await client.session
        await client.close()


def never(_session: Session[Any, Any]) -> Callable[[Any], None]:
    raise AssertionError("there is no session")


@contextlib.asynccontextmanager
async def keeping_connected(
    dialer: Dialer[Any, Any], peer: str, started: Callable[[Session[Any, Any]], Callable[[Any], None]]
) -> AsyncIterator[asyncio.Queue[str]]:
    """Yields the reasons for which sessions end."""
    ends: asyncio.Queue[str] = asyncio.Queue()
    keeping = asyncio.create_task(dialer.keep_connected(peer, started, ends.put_nowait, None))
    yield ends
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_messages_arrive_in_order_in_both_directions() -> None:
    def respond(session: Any, message: Any) -> None:
        session.send(notice(message.slots))

    async with connected(handle=respond) as (server, client, session):
        for number in range(500):
            session.send(report(number))
        responses = [(await client.received.get()).available for _ in range(500)]
        assert responses == list(range(500))
        await client.close()
        assert await server.ends.get() == "connection to client lost"


class Hanging:
    """The serving end's stream after a greeting: its messages end, or nothing more arrives."""

    def __init__(self, *, ends: bool) -> None:
        self._incoming: asyncio.Queue[Any] = asyncio.Queue()
        self._incoming.put_nowait(SESSION.up.to_bytes(Hello(LeaderEpoch(1))))
        if ends:
            self._incoming.put_nowait(grpc.aio.EOF)

    async def send_initial_metadata(self, _metadata: Any) -> None:
        """The connecting end would continue."""

    async def read(self) -> Any:
        return await self._incoming.get()

    async def write(self, _message: bytes) -> None:
        """The message is not read."""


@pytest.mark.parametrize("ends", [True, False], ids=["its messages end", "its call is cancelled"])
async def test_a_client_that_is_gone_is_reported_the_same_way_whatever_is_noticed_first(ends: bool) -> None:
    begun = asyncio.Event()

    def started(_session: Session[Any, Any]) -> Callable[[Any], None]:
        begun.set()
        return lambda message: None

    serving = asyncio.create_task(
        serve_session(Hanging(ends=ends), SESSION, "client", CALM, LeaderEpoch(1), started)
    )  # fmt: skip
    await begun.wait()
    if not ends:
        serving.cancel()
    assert await serving == "connection to client lost"


async def test_services_do_not_use_a_web_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind such a proxy, the variables are set for everything that a user runs."""
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with serving() as server:
        client = dialled(server)
        await asyncio.wait({client.end, client.session}, return_when=asyncio.FIRST_COMPLETED)
        assert not client.end.done(), client.end.result()
        await client.close()


async def test_large_messages_are_delivered() -> None:
    def measure(session: Any, message: Any) -> None:
        session.send(notice(len(message.job_id)))

    async with connected(handle=measure) as (_, client, session):
        session.send(report(1, "x" * (8 << 20)))
        assert (await client.received.get()).available == 8 << 20


async def test_heartbeats_keep_a_quiet_session_alive_and_are_not_delivered() -> None:
    seen: list[Any] = []
    async with connected(HASTY, lambda session, message: seen.append(message)) as (server, client, session):
        served = await server.sessions.get()
        await asyncio.wait({client.end}, timeout=0.75)
        assert session.is_open
        assert served.is_open
        assert seen == []
        assert client.received.empty()


async def test_two_ends_whose_process_was_frozen_keep_their_session() -> None:
    async with connected(HASTY, lambda session, message: session.send(notice(7))) as (_, client, session):
        threading.Event().wait(0.75)  # the loop of both ends stands still
        session.send(report(1))
        assert (await client.received.get()).available == 7
        assert session.is_open


async def test_a_message_that_is_too_large_ends_the_session_with_its_kind_and_the_remedy() -> None:
    small = Configuration({"rpc.message.max-size": "1 mb"})
    async with serving() as server:
        client = dialled(server, small)
        session = await client.session
        session.send(report(1, "x" * (1 << 20)))
        _, reason = await client.end
        assert reason.startswith(f"'Requirement' to the server at {server.address} has 1.0 MiB, more than ")
        assert "rpc.message.max-size allows (1 MiB)" in reason


async def test_a_message_that_cannot_be_written_ends_the_session_instead_of_blocking_it() -> None:
    async with connected() as (server, client, session):
        session.send(report(1, "half a pair: \udc80"))
        _, reason = await client.end
        assert reason.startswith(f"sending a message to the server at {server.address} failed: Unicode")


async def test_each_end_knows_when_the_other_was_last_reachable() -> None:
    before = asyncio.get_running_loop().time()
    async with connected(HASTY) as (_, client, session):
        while session.confirmed_at < before:
            await asyncio.wait({client.end}, timeout=0.01)
        assert session.confirmed_at <= asyncio.get_running_loop().time()


async def test_a_silent_peer_is_lost_after_the_heartbeat_timeout() -> None:
    async with serving(CALM) as server:
        client = dialled(server, HASTY, TASK_MANAGER_AT_RESOURCE_MANAGER)
        connected, reason = await client.end
        assert not connected
        assert reason == f"no heartbeat from the server at {server.address} for 0.5 s"


async def test_the_serving_end_drops_a_silent_client_too() -> None:
    async with serving(HASTY) as server, open_channel(server.address, CALM) as channel:
        call = session_call(channel, SESSION)
        await call.wait_for_connection()
        await call.write(SESSION.up.to_bytes(Heartbeat()))
        assert await server.ends.get() == "no heartbeat from client for 0.5 s"
        call.cancel()


class BusyNetwork:
    """The network of a process which stands still between its first step and its second."""

    serve = staticmethod(serve)

    def open_channel(self, address: str, configuration: Configuration) -> Any:
        channel = open_channel(address, configuration)
        dial = channel.stream_stream

        def dial_and_stand_still(method: str) -> Callable[..., Any]:
            def start(**named: Any) -> Any:
                call: Any = dial(method)(**named)
                wait = call.wait_for_connection

                async def wait_and_stand_still() -> None:
                    await wait()
                    time.sleep(0.2)  # noqa: ASYNC251  # not only this task: the whole loop, while the response arrives

                call.wait_for_connection = wait_and_stand_still
                return call

            return start

        channel.stream_stream = dial_and_stand_still  # type: ignore[method-assign]
        return channel


def test_the_reason_of_a_refusal_is_reported_even_if_it_precedes_the_greeting() -> None:
    """gRPC only reports its own "Internal error from Core" for a call that had ended before a message was sent."""
    addresses: queue.Queue[str] = queue.Queue()
    over = threading.Event()

    async def stand_by() -> None:
        async with serving(epoch=None) as server:
            addresses.put(server.address)
            await asyncio.to_thread(over.wait)

    async def dial() -> None:
        dialer = Dialer(address := addresses.get(), SESSION, CALM, BusyNetwork())
        connected, reason = await dialer.dial_once("the server", never)
        assert (connected, reason) == (False, f"the server at {address} is unreachable: {STANDS_BY}")

    standby = threading.Thread(target=run, args=(stand_by,))
    standby.start()
    try:
        run(dial)
    finally:
        over.set()
        standby.join()


async def test_any_message_counts_as_a_heartbeat() -> None:
    enough = asyncio.Event()
    numbers: list[int] = []

    def note(_session: Any, message: Any) -> None:
        numbers.append(message.slots)
        if len(numbers) == 12:
            enough.set()

    async with serving(HASTY, note) as server, open_channel(server.address, CALM) as channel:
        call = session_call(channel, SESSION)
        await call.wait_for_connection()
        await call.write(SESSION.up.to_bytes(Hello(ANY_EPOCH)))
        ended = asyncio.get_running_loop().create_task(server.ends.get())
        for number in range(12):
            await call.write(SESSION.up.to_bytes(report(number)))
            await asyncio.wait({ended}, timeout=0.075)
        await enough.wait()
        assert numbers == list(range(12))
        call.cancel()
        await ended


async def test_a_server_that_stops_is_noticed_at_once() -> None:
    async with connected() as (server, client, session):
        await server.sessions.get()
        await server.stop()
        begun, reason = await client.end
        assert begun
        assert server.address in reason
        assert not session.is_open
        session.send(report(1))


async def test_a_client_that_goes_is_noticed_at_once() -> None:
    async with connected() as (server, client, _):
        served = await server.sessions.get()
        await client.close()
        await server.ends.get()
        assert not served.is_open


async def test_closing_from_the_serving_end_reaches_the_client() -> None:
    async with serving() as server:
        for _ in range(30):  # the end may come before, while or after the client writes
            client = dialled(server)
            await client.session
            (await server.sessions.get()).close("enough")
            assert await server.ends.get() == "enough"
            assert await client.end == (True, f"the server at {server.address} closed the connection")


async def test_a_handler_that_raises_closes_its_session_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def handle(session: Any, message: Any) -> None:
        if message.job_id == "bad":
            raise KeyError("a bug")
        session.send(notice(message.slots))

    async with serving(handle=handle) as server:
        good, bad = dialled(server), dialled(server)
        (await bad.session).send(report(1, "bad"))
        assert (await server.ends.get()) == "handling a message from client failed: KeyError('a bug')"
        await bad.end
        (await good.session).send(report(5))
        assert (await good.received.get()).available == 5
        await good.close()
    assert "handling a message from client failed" in caplog.text


async def test_a_session_ends_once_and_keeps_its_first_reason() -> None:
    async with connected() as (_, client, session):
        session.close("first")
        session.close("second")
        assert await client.end == (True, "first")


async def test_connecting_gives_up_after_its_timeout_and_reports_it() -> None:
    address = "127.0.0.1:1"
    dialer = Dialer(address, SESSION, CALM)

    reason = await dialer.keep_connected("the server", never, lambda _: None, 0.3)
    assert reason.startswith(f"the server at {address} is unreachable: ")
    assert reason.endswith("(tried for 0.3 s)")
    assert "\n" not in reason


async def test_a_server_that_comes_back_is_reconnected_to() -> None:
    sessions: asyncio.Queue[Session[Any, Any]] = asyncio.Queue()

    def started(session: Session[Any, Any]) -> Callable[[Any], None]:
        sessions.put_nowait(session)
        session.send(report(1, "registration"))
        return lambda message: None

    registrations: asyncio.Queue[str] = asyncio.Queue()

    def note(_session: Any, message: Any) -> None:
        registrations.put_nowait(message.job_id)

    port = free_port()
    dialer = Dialer(f"127.0.0.1:{port}", SESSION, CALM)
    async with keeping_connected(dialer, "the server", started) as ends:
        async with serving(handle=note, port=port) as first:
            assert await registrations.get() == "registration"
            while not ends.empty():
                ends.get_nowait()  # the server did not listen yet
        assert first.address in await ends.get()
        async with serving(handle=note, port=port):
            assert await registrations.get() == "registration"
            assert sessions.qsize() == 2


class MovingLeader:
    """A `LeaderLookup` whose leader is set by the test; at first there is none."""

    def __init__(self) -> None:
        self._leader: KnownLeader | None = None
        self._moved = asyncio.Event()

    def move_to(self, address: str, epoch: int = 0) -> None:
        self._leader = KnownLeader(address, LeaderEpoch(epoch))
        self._moved.set()
        self._moved = asyncio.Event()

    async def leader_of(self, role: Role) -> KnownLeader:
        if self._leader is None:
            raise UnreachableError(f"there is no {role}")
        return self._leader

    async def changed(self, role: Role, leader: KnownLeader) -> KnownLeader:
        while self._leader in (None, leader):
            await self._moved.wait()
        assert self._leader is not None
        return self._leader


async def test_a_leader_is_connected_to_at_its_current_address() -> None:
    dialled: asyncio.Queue[str] = asyncio.Queue()

    def started(session: Session[Any, Any]) -> Callable[[Any], None]:
        dialled.put_nowait(session.address)
        return lambda message: None

    leaders = MovingLeader()
    dialer = Dialer(Leader(leaders, Role.RESOURCE_MANAGER), SESSION, CALM)
    assert await dialer.dial_once("the leader", started) == (
        False, "the leader is unreachable: there is no resourcemanager"
    )  # fmt: skip
    async with serving() as first, serving() as second:
        leaders.move_to(first.address)
        async with keeping_connected(dialer, "the leader", started) as ends:
            assert await dialled.get() == first.address
            leaders.move_to(second.address)
            assert await ends.get() == f"the leader is now at {second.address}"
            assert await dialled.get() == second.address


async def test_ends_that_follow_different_leaders_have_no_session() -> None:
    """In both directions, so that neither acts on messages of a leader that another has replaced."""
    leaders = MovingLeader()
    dialer = Dialer(Leader(leaders, Role.RESOURCE_MANAGER), SESSION, CALM)
    async with serving(epoch=4) as server:
        leaders.move_to(server.address, epoch=5)
        begun, reason = await dialer.dial_once("the leader", never)
        assert not begun
        assert reason.endswith("expected the leader of epoch 5, but found that of epoch 4")
        assert await server.ends.get() in (
            "client: expected the leader of epoch 5, but found that of epoch 4",
            "connection to client lost",  # the connecting end was faster
        )
        assert server.sessions.empty()


async def test_a_replaced_leader_is_not_reconnected_to() -> None:
    leaders = MovingLeader()
    dialer = Dialer(Leader(leaders, Role.RESOURCE_MANAGER), SESSION, CALM)

    def close(session: Session[Any, Any]) -> Callable[[Any], None]:
        session.close("seen")
        return lambda message: None

    async with serving(epoch=4) as old, serving(epoch=5) as new:
        leaders.move_to(new.address, epoch=5)
        assert await dialer.dial_once("the leader", close) == (True, "seen")
        leaders.move_to(old.address, epoch=4)
        begun, reason = await dialer.dial_once("the leader", close)
        assert not begun
        assert reason.endswith("found the leader of epoch 4, which was replaced by that of epoch 5")


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (SESSION.up.to_bytes(report(1)), "client sent Requirement before the handshake"),
        (b"\xff", "client sent an invalid message: this is no millstream.resourcemanager.JobManagerReport"),
    ],
)
async def test_a_peer_that_does_not_greet_is_disconnected(
    first: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as server, open_channel(server.address, CALM) as channel:
        call = session_call(channel, SESSION)
        await call.wait_for_connection()
        await call.write(first)
        assert (await server.ends.get()).startswith(reason)
        assert server.sessions.empty()
        call.cancel()
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.getMessage().startswith(f"session with client ended: {reason}")


@settings(max_examples=cases(40))
@given(first=anything(SESSION.service.methods_by_name[SESSION.method].output_type, words()))
def test_a_server_may_respond_with_anything(first: bytes) -> None:
    """The connecting end learns why there is no session, or has one that ends."""

    async def respond(_requests: Any, context: Any) -> None:
        await context.send_initial_metadata(TAKEN)
        await context.write(first)

    async def scenario() -> None:
        method: Any = grpc.stream_stream_rpc_method_handler(respond)
        handler = grpc.method_handlers_generic_handler(SESSION.service.full_name, {SESSION.method: method})
        server, port = await serve("127.0.0.1", 0, [handler], CALM, "resourcemanager.rpc.port")
        try:
            _, reason = await Dialer(f"127.0.0.1:{port}", SESSION, CALM).dial_once("server", lambda _: lambda _: None)
            assert reason.startswith(f"server at 127.0.0.1:{port} ")
        finally:
            await server.stop(None)

    run(scenario)


async def test_configured_leaders_never_change() -> None:
    options = address_options(Role.DISPATCHER, "[::1]:7")
    leaders = ConfiguredLeaders(Configuration(options))
    configured = KnownLeader("[::1]:7")
    assert await leaders.leader_of(Role.DISPATCHER) == configured
    assert await leaders.changed(Role.DISPATCHER, KnownLeader("127.0.0.1:6122")) == configured
    forever = asyncio.ensure_future(leaders.changed(Role.DISPATCHER, configured))
    await asyncio.wait([forever], timeout=0)
    assert not forever.done()
    forever.cancel()


async def test_a_peer_that_accepts_connections_and_does_not_respond_is_given_up_in_time() -> None:
    """Like a frozen process: its kernel still accepts connections."""

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        begun, reason = await Dialer(address, SESSION, CALM).dial_once("the peer", never, within=0.2)
        assert (begun, reason) == (False, f"the peer at {address} is unreachable: it did not respond within 0.2 s")
        begun, reason = await Dialer(address, SESSION, HASTY).dial_once("the peer", never)
        assert (begun, reason) == (False, f"the peer at {address} is unreachable: it did not respond within 0.5 s")
