"""Waiting for a child that leads a session of its own, so that what it has started ends with it."""

from __future__ import annotations

import asyncio
import os
import subprocess

from millstream.core.linux.processes import open_process
from millstream.core.processes.process_session import kill_session


async def end_of_session(process: subprocess.Popen[bytes]) -> int:
    """The exit status, once nothing of the session is left. When this is cancelled, the child is killed first."""
    try:
        await _end_of(process)
    finally:
        kill_session(process.pid)  # not waited for yet on Linux: no other process has its id
        status = await asyncio.shield(asyncio.to_thread(process.wait))
    return status


async def _end_of(process: subprocess.Popen[bytes]) -> None:
    """Returns when this child has ended, on Linux without waiting for it as its parent: it keeps its number."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    handle = open_process(process.pid)
    if handle is None:
        await asyncio.to_thread(process.wait)
        return
    try:
        loop.add_reader(handle, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)
