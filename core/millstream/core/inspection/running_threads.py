"""Determines which threads of this process are running on a CPU.

A thread is running if it uses processor time in the moment after it was sampled: its stack does not show it, since a
waiting thread is in a function, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from millstream.core.linux.threads import cpu_seconds, scheduler_state

_LOOK = 0.0002  # seconds in which a running thread uses processor time: shorter than most waits
_SHARE = 0.5  # of that time, so that a thread that was just woken does not count


def thread_name(ident: int) -> str:
    """Returns the name of a thread, or its number if it has ended."""
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"thread {ident}")


def taking_time(idents: Sequence[int]) -> set[int]:
    """Returns the threads that are running or runnable."""
    natives = {thread.ident: thread.native_id for thread in threading.enumerate() if thread.ident in idents}
    before = {ident: cpu_seconds(native) for ident, native in natives.items() if native is not None}
    began = time.perf_counter()
    time.sleep(_LOOK)
    needed = _SHARE * (time.perf_counter() - began)
    busy: set[int] = set()
    for ident, earlier in before.items():
        native = natives[ident] or 0
        later = cpu_seconds(native)
        if ident is not None and earlier is not None and later is not None:
            if later - earlier > needed or scheduler_state(native) == "R":
                busy.add(ident)
        elif ident is not None:
            busy.add(ident)  # unknown: it counts as running, as on other systems
    return busy
