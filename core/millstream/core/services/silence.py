"""Sending heartbeats to a peer until it counts as lost: the shell around `liveness.py`.

A process whose native code holds the interpreter lock sends nothing, and yet it is well. So before a silent peer counts
as lost, it is checked in another way, which needs no interpreter: one that is frozen, cut off or gone does not respond.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from millstream.core.linux.processes import is_stopped
from millstream.core.services.liveness import Liveness
from millstream.core.services.rpc import open_channel
from millstream.core.settings.configuration import Configuration

log = logging.getLogger(__name__)
_MISSED_BEATS = 2  # before a silent peer is checked in the other way


async def until_silent(
    name: str, liveness: Liveness, beat: Callable[[], None], responds: Callable[[], Awaitable[bool]]
) -> None:
    """Returns once the peer counts as lost. `beat` is called at each interval, `responds` when beats were missed."""
    loop = asyncio.get_running_loop()
    check: asyncio.Task[None] | None = None

    async def check_otherwise() -> None:
        if await responds():
            log.info("%s is silent, but its process responds: native code may hold its interpreter lock", name)
            liveness.heard(loop.time())

    try:
        while not liveness.is_lost(loop.time()):
            beat()
            if liveness.silence > _MISSED_BEATS * liveness.interval and (check is None or check.done()):
                check = loop.create_task(check_otherwise())
            await asyncio.sleep(liveness.interval)
    finally:
        if check is not None:
            check.cancel()


def reason_of_silence(pid: int, timeout: float, otherwise: str) -> str:
    """Why a process that counts as lost was silent for the timeout: it is stopped, or `otherwise`."""
    silent = f"its process {pid} did not respond for {timeout:g} s (heartbeat.timeout)"
    return f"{silent}: {'it was stopped (SIGSTOP) and not continued (SIGCONT)' if is_stopped(pid) else otherwise}"


async def accepts_connections(address: str, configuration: Configuration, timeout: float) -> bool:
    """Whether a process takes a gRPC connection: its native threads do, also while its interpreter is busy."""
    async with open_channel(address, configuration) as channel:
        try:
            async with asyncio.timeout(timeout):
                await channel.channel_ready()
        except TimeoutError:
            return False
        return True
