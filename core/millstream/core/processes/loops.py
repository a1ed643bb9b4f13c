"""The two ends of an asyncio loop that is not the program's: made in silence, and closed when nothing is left on it.

A server that is stopped has cancelled its calls, but the handlers still need some turns of the loop to end. gRPC prints
a traceback for each of them that is cancelled on top of that, as `asyncio.run` does with everything that is left.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from types import CoroutineType

_PATIENCE = 5.0  # seconds; far more than handlers need whose calls are over


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop, made on a thread whose name shows that what asyncio logs about it is not the program's."""
    with ThreadPoolExecutor(1, thread_name_prefix="millstream") as maker:
        return maker.submit(asyncio.new_event_loop).result()


async def end_tasks() -> None:
    """Waits for gRPC's handlers, whose servers have been stopped, and cancels everything else on this loop."""
    handlers = [task for task in _others() if not isinstance(task.get_coro(), CoroutineType)]  # gRPC's are compiled
    if handlers:
        await asyncio.wait(handlers, timeout=_PATIENCE)
    rest = _others()
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def _others() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
