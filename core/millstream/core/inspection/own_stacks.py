"""Samples the stacks of this process's threads. Blocks while it samples, so it is called on a separate thread."""

from __future__ import annotations

import threading
import time
from collections import Counter

from millstream.core.inspection.frames import SeenFrame, frame_names
from millstream.core.inspection.running_threads import taking_time, thread_name
from millstream.core.inspection.threads import current_stacks
from millstream.core.messages.inspection import SampledStack


def sample_own_stacks(samples: int, interval_ms: int, depth: int) -> tuple[SampledStack, ...]:
    """Samples all threads except the calling one, including the runtime's frames."""
    found: Counter[tuple[tuple[str, ...], bool]] = Counter()
    due = time.monotonic()
    for _ in range(samples):
        stacks = current_stacks()
        stacks.pop(threading.get_ident(), None)
        seen = {
            ident: (
                thread_name(ident),
                *frame_names([SeenFrame.of(f, line, ()) for f, line in reversed(stack)], True, depth),
            )
            for ident, stack in stacks.items()
        }
        stacks.clear()  # release the frames, which keep their locals alive
        busy = taking_time(list(seen))
        found.update((names, ident in busy) for ident, names in seen.items())
        due = max(due + interval_ms / 1000, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0.0))
    return tuple(SampledStack(names, on_cpu, count) for (names, on_cpu), count in found.most_common())
