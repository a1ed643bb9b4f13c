"""A network between virtual processes: calls and sessions as over gRPC, with everything that can go wrong.

A call carries frames in order in both directions, each with a latency of its own; a direction may be slow for a while.
Between two processes that are cut off, in both directions or in one, frames wait until that is over. When a call
breaks, each end still gets what had arrived, then notices, in its own time; what was in flight is lost. So one end may
have dialled again before the other knows that anything happened. The sockets of a process that is killed break like
that.

Within a call nothing overtakes and nothing comes twice: that is what gRPC promises. Between calls everything does: a
call that was made later may arrive first, and one that was made once may arrive twice (`comes_twice`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import grpc
from virtual_calls import Call, End
from virtual_grpc import VirtualChannel, VirtualServer
from virtual_loop import VirtualLoop, VirtualProcess

from millstream.core.errors import MillstreamError
from millstream.core.settings.configuration import Configuration

LATENCIES = (0.0005, 0.001, 0.002, 0.02)
SLOWEST = 3.0
CONNECT_TIMEOUT = 20.0  # gRPC's
LOST = End(grpc.StatusCode.UNAVAILABLE, "Socket closed")
REFUSED = End(grpc.StatusCode.UNAVAILABLE, "Connection refused")
TIMED_OUT = End(grpc.StatusCode.UNAVAILABLE, "connection attempt timed out")


class VirtualNetwork:
    """All of it. `sent` is called with every message: its bytes, the call, and whether it goes to the server."""

    def __init__(
        self,
        loop: VirtualLoop,
        random: Random,
        sent: Callable[[bytes, Call, bool], None],
    ) -> None:
        self.loop = loop
        self.random = random
        self.sent = sent
        self.calls: list[Call] = []
        self._servers: dict[str, VirtualServer] = {}
        self._ports = itertools.count(40_000)
        self._cut_off: dict[tuple[VirtualProcess, VirtualProcess], float] = {}
        self.has_news = False
        """Whether something else than heartbeats has arrived since this was set back."""
        self.comes_twice = 0.0
        """How often a call that has one response arrives twice."""

    def of(self, process: VirtualProcess) -> ProcessNetwork:
        """As this process reaches it."""
        return ProcessNetwork(self, process)

    # Faults

    def open_calls(self) -> list[Call]:
        return [call for call in self.calls if call.is_open]

    def cut_off(self, source: VirtualProcess, target: VirtualProcess, seconds: float) -> None:
        """In this direction."""
        self._cut_off[source, target] = self.loop.time() + seconds

    def heal(self) -> None:
        """Ends all partitions."""
        self._cut_off.clear()
        for call in self.open_calls():
            call.to_server.go_on()
            call.to_client.go_on()

    def process_died(self, process: VirtualProcess) -> None:
        """Its sockets are gone."""
        self._servers = {address: s for address, s in self._servers.items() if s.process is not process}
        for call in self.open_calls():
            if process in (call.client.process, call.server.process):
                call.break_off(LOST)

    def cut_off_until(self, source: VirtualProcess, target: VirtualProcess) -> float:
        """When frames can pass again; a time in the past when they can."""
        return self._cut_off.get((source, target), 0.0) if self._cut_off else 0.0

    # Calls

    def listen(self, host: str, port: int, server: VirtualServer) -> int:
        port = port or next(self._ports)
        address = f"{host}:{port}"
        if address in self._servers:
            raise MillstreamError(f"cannot listen on {address}: is the port in use?")
        self._servers[address] = server
        return port

    def stop_listening(self, server: VirtualServer) -> None:
        self._servers = {address: s for address, s in self._servers.items() if s is not server}

    def is_listening(self, server: VirtualServer) -> bool:
        return server in self._servers.values()

    def dial(self, process: VirtualProcess, address: str, path: str) -> Call:
        """A call in flight to the server at the address."""
        self.calls = self.open_calls()
        server = self._servers.get(address)
        if server is None:
            call = Call(self, process, process, path)
            self.loop.call_later(self.latency(), call.client.arrived, REFUSED, context=process.context)
            return call
        call = Call(self, process, server.process, path)
        self.calls.append(call)
        call.server.on_dialled = lambda: server.accept(call)
        call.to_server.send(None)
        self.loop.call_later(CONNECT_TIMEOUT, call.not_connected, TIMED_OUT, context=process.context)
        return call

    def latency(self) -> float:
        return LATENCIES[int(self.random.random() * len(LATENCIES))]

    def slowness(self) -> float:
        """For how long nothing may pass: mostly a very short time."""
        return self.random.uniform(0, self.random.choice((0.0, 0.0, 0.5, SLOWEST)))


class ProcessNetwork:
    """A `millstream.core.services.network.Network`."""

    def __init__(self, network: VirtualNetwork, process: VirtualProcess) -> None:
        self._network = network
        self._process = process

    async def serve(
        self, host: str, port: int, handlers: list[grpc.GenericRpcHandler], configuration: Configuration, key: str
    ) -> tuple[Any, int]:
        server = VirtualServer(self._network, self._process, handlers)
        return server, self._network.listen(host, port, server)

    def open_channel(self, address: str, configuration: Configuration) -> Any:
        return VirtualChannel(self._network, self._process, address)
