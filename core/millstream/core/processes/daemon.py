"""Runs one service as a daemon: starts it, waits for a signal or for its failure, stops it, returns an exit status.

A service is started and stopped once. What keeps it from starting or from running is a `MillstreamError`, printed as
one line.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from typing import Protocol

from millstream.core.errors import MillstreamError
from millstream.core.logs.log_files import bound_output
from millstream.core.logs.logs import set_up_logging
from millstream.core.processes.loops import end_tasks
from millstream.core.processes.open_files import allow_open_files
from millstream.core.settings.configuration import Configuration

log = logging.getLogger(__name__)


class ServiceDismissed(MillstreamError):
    """The service is not needed any more: it ends, with this exit status, and that is no failure of its own."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


class Service(Protocol):
    """What the dispatcher, the job manager, the resource manager and the task manager have in common."""

    address: str  # host:port of its gRPC service, known once started

    async def start(self) -> None:
        """Listens, and begins to reach for its peers in the background. Raises MillstreamError when it cannot."""

    async def stop(self) -> None:
        """Ends everything that it started, processes included. May be called twice."""

    async def lacks(self) -> str:
        """The peers or files that it lacks, so that it cannot do its work now; empty when it can."""

    async def failure(self) -> MillstreamError:
        """Returns only when the service cannot continue, such as a peer unreachable after its timeout."""


def run_service(
    name: str, make: Callable[[Configuration], Service], configuration: Configuration, signal_status: bool = False
) -> int:
    """The body of `millstream <service>`: 0 after SIGTERM or SIGINT, 1 after a failure.

    `signal_status`: as a shell does, 143 and 130, where 0 means that the service has done its work.
    """
    allow_open_files()
    bound_output(configuration)
    set_up_logging(name, configuration)
    try:
        number = asyncio.run(_run(name, make, configuration))
    except ServiceDismissed as reason:
        log.info("%s", reason)
        return reason.status
    except MillstreamError as error:
        print(f"millstream {name}: {error}", file=sys.stderr)
        return 1
    return 128 + number if signal_status else 0


async def _run(name: str, make: Callable[[Configuration], Service], configuration: Configuration) -> int:
    """Until a signal, which it returns."""
    from millstream.core.processes.health import served_health  # not for the services of `python job.py`

    loop = asyncio.get_running_loop()
    stop_requested = asyncio.Event()
    received: list[int] = []

    def stop(number: int) -> None:
        received.append(number)
        stop_requested.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    service = make(configuration)
    waits: list[asyncio.Task[object]] = []

    async def lacks() -> str:
        return await service.lacks() if waits else "it is starting"

    try:
        async with served_health(lacks, configuration):
            await service.start()
            log.info("%s is up at %s", name, service.address)
            waits = [loop.create_task(stop_requested.wait()), loop.create_task(service.failure())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if waits[1].done() and not stop_requested.is_set():
            failure = waits[1].result()
            assert isinstance(failure, MillstreamError)
            raise failure
        log.info("stopping %s", name)
        return received[0]
    finally:
        for wait in waits:
            wait.cancel()
        await service.stop()
        await end_tasks()
