"""What a simulation happens in: one random for everything, one loop, one network, and the story of the run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Any

from parcels import Parcel
from story import Fault, Message, Story, Violation
from virtual_calls import Call
from virtual_loop import VirtualClock, VirtualLoop, VirtualProcess
from virtual_network import VirtualNetwork

from millstream.core.jobs.ids import ANY_EPOCH
from millstream.core.logs.logs import is_reported
from millstream.core.messages.session import Heartbeat, Hello


class World:
    """Of one run. By `scale`, all that processes do takes longer or shorter."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        self.scale = scale
        self.random = Random(seed)
        self.loop = VirtualLoop(self.random)
        self.clock = VirtualClock(self.loop)
        self.network = VirtualNetwork(self.loop, self.random, self._sent)
        self.has_mishaps = True
        self.story = Story()

    def mishap(self, probability: float) -> bool:
        """Whether something goes wrong that goes wrong this often, as long as anything does."""
        return self.has_mishaps and self.random.random() < probability

    def up_to(self, seconds: float) -> float:
        """A time that something takes."""
        return self.random.random() * seconds * self.scale

    def kill(self, process: VirtualProcess) -> None:
        """It does nothing more, and its sockets break."""
        self.loop.kill(process)
        self.network.process_died(process)

    def later(self, process: VirtualProcess, delay: float, action: Callable[..., None], *args: Any) -> None:
        """In that process, unless it is dead by then."""
        self.loop.call_later(delay, action, *args, context=process.context)

    def tell(self, event: object) -> None:
        if not self.loop.is_over:
            self.story.tell(self.loop.time(), event)

    def tell_fault(self, what: str) -> None:
        self.tell(Fault(what))

    def _sent(self, raw: bytes, call: Call, up: bool) -> None:
        self.story.tell(self.loop.time(), Message(raw, call, up))
        if type(raw) is Parcel:
            self._check_epochs(raw.message, call, up)

    def _check_epochs(self, message: Any, call: Call, up: bool) -> None:
        """All messages of a session are sent under one leader's epoch, on which both ends agreed."""
        if type(message) is Hello:
            call.epochs[up] = message.epoch
        elif type(message) is not Heartbeat and len(call.epochs) == 2:
            looked_for, leads = call.epochs[True], call.epochs[False]
            if looked_for not in (ANY_EPOCH, leads):
                ends = f"{call.client.process.name} and {call.server.process.name}"
                what = f"{ends} talk though epoch {looked_for} was looked for and {leads} found"
                raise Violation(what, call.client.process.name)


class StoryOfLogs(logging.Handler):
    """What services log becomes part of the story. An error is a bug, unless it reports the failure of a job."""

    def __init__(self, world: World, level: int) -> None:
        super().__init__(level)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.tell(f"    {record.name.removeprefix('millstream.')}: {record.getMessage()}")
        if record.levelno >= logging.ERROR and not is_reported(record):
            error = record.exc_info[1] if record.exc_info else None
            self._world.loop.call_exception_handler(
                {"message": record.getMessage(), "exception": error or AssertionError(record.getMessage())}
            )
