"""What a simulation happens in: one random for everything, one loop, one network, and the story of the run."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from virtual_calls import Call
from virtual_loop import VirtualClock, VirtualLoop, VirtualProcess
from virtual_network import VirtualNetwork

from millstream.core.wire import contracts
from millstream.core.wire.contract import SessionContract

LONGEST_TOLD = 300  # characters of a message
_SESSIONS: dict[str, SessionContract[Any, Any]] = {
    f"/{contract.service.full_name}/{contract.method}": contract
    for contract in vars(contracts).values()
    if isinstance(contract, SessionContract)
}


@dataclass(frozen=True, slots=True)
class Message:
    """One that was sent; what it says is only looked at when the story is told."""

    raw: bytes
    call: Call
    up: bool

    def __str__(self) -> str:
        client, server, path = self.call.client.process.name, self.call.server.process.name, self.call.path
        contract = _SESSIONS.get(path)
        said = path
        if contract is not None:
            said = str((contract.up if self.up else contract.down).from_bytes(self.raw))[:LONGEST_TOLD]
        return f"{client} -> {server}: {said}" if self.up else f"{server} -> {client}: {said}"


class World:
    """Of one run."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.loop = VirtualLoop(self.random)
        self.clock = VirtualClock(self.loop)
        self.network = VirtualNetwork(self.loop, self.random, self._sent)
        self.has_mishaps = True
        self._story: list[tuple[float, object]] = []
        self._digest = hashlib.blake2b(digest_size=8)

    def mishap(self, probability: float) -> bool:
        """Whether something goes wrong that goes wrong this often, as long as anything does."""
        return self.has_mishaps and self.random.random() < probability

    def kill(self, process: VirtualProcess) -> None:
        """It does nothing more, and its sockets break."""
        process.is_alive = False
        self.network.process_died(process)

    def later(self, process: VirtualProcess, delay: float, action: Callable[..., None], *args: Any) -> None:
        """In that process, unless it is dead by then."""
        self.loop.call_later(delay, action, *args, context=process.context)

    def tell(self, event: object) -> None:
        if self.loop.is_over:
            return
        self._story.append((self.loop.time(), event))
        self._digest.update(f"{self.loop.time()} {event}".encode())

    def _sent(self, raw: bytes, call: Call, up: bool) -> None:
        now = self.loop.time()
        self._story.append((now, Message(raw, call, up)))
        said = f"{now} {call.path} {call.client.process.name} {call.server.process.name} {up} {len(raw)}"
        self._digest.update(said.encode())

    @property
    def digest(self) -> str:
        """Equal for equal runs. Ids are random and count only by their length: nothing may depend on their order."""
        return self._digest.hexdigest()

    def story(self, lines: int | None = None) -> str:
        """All of it, or the end."""
        told = [f"{time:9.3f} {event}" for time, event in self._story]
        return "\n".join([line for line in told if ": Heartbeat(" not in line][-(lines or 0) :])


class StoryOfLogs(logging.Handler):
    """What services log becomes part of the story; an error is a bug that nothing may provoke."""

    def __init__(self, world: World, level: int) -> None:
        super().__init__(level)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.tell(f"    {record.name.removeprefix('millstream.')}: {record.getMessage()}")
        if record.levelno >= logging.ERROR:
            error = record.exc_info[1] if record.exc_info else None
            self._world.loop.call_exception_handler(
                {"message": record.getMessage(), "exception": error or AssertionError(record.getMessage())}
            )
