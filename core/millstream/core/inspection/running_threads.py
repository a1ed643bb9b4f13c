"""Which threads of this process are on the CPU at this moment.

A thread is when it takes processor time in the moment after it was seen: that it was seen in some function means
nothing, for a thread that waits is in one, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from millstream.core.linux.threads import cpu_seconds, scheduler_state

_LOOK = 0.0002  # seconds in which a thread has to take processor time to count as running: shorter than most waits
_SHARE = 0.5  # of them, so that one which was woken meanwhile does not


def thread_name(ident: int) -> str:
    """Its name, or its number once it has ended."""
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"thread {ident}")


def taking_time(idents: Sequence[int]) -> set[int]:
    """Those that take processor time now, or would if there were a processor for them."""
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
            busy.add(ident)  # nobody can tell: what is seen counts as work, as it does elsewhere
    return busy
