"""What a process uses of its host: processor time, memory, threads, and the work of the garbage collector.

Under Flink's names, which say JVM: who has a dashboard for these finds them. The heap is what the process holds in
memory. A task manager's figures are those of its supervisor and of all its slot workers together.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Mapping

from msgspec import Struct

from millstream.core.linux.memory import threads_and_memory
from millstream.core.metrics.model import Number
from millstream.core.metrics.rates import Rates

_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessUse(Struct, frozen=True, array_like=True):
    """Of one process, or the sum of several."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    threads: int = 0
    collections: int = 0
    """Of the garbage collector, so far."""
    collecting_seconds: float = 0.0
    """That it took for them, since the first request."""

    def __add__(self, other: ProcessUse) -> ProcessUse:
        return ProcessUse(
            self.cpu_seconds + other.cpu_seconds,
            self.memory_bytes + other.memory_bytes,
            self.threads + other.threads,
            self.collections + other.collections,
            self.collecting_seconds + other.collecting_seconds,
        )


class _Collecting:
    """The time that the garbage collector takes; called by it, on whatever thread, which then has the interpreter."""

    __slots__ = ("_began", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began


_collecting = _Collecting()


def own_use() -> ProcessUse:
    """Of this process, now."""
    if _collecting not in gc.callbacks:
        gc.callbacks.append(_collecting)
    threads, pages = threads_and_memory()
    collections = sum(entry["collections"] for entry in gc.get_stats())
    return ProcessUse(time.process_time(), pages * _PAGE, threads, collections, _collecting.seconds)


class ProcessFigures:
    """Of one process, or of several: the load is over the last seconds with a request."""

    __slots__ = ("_processors", "_rates")

    def __init__(self) -> None:
        self._rates: Rates | None = None
        self._processors = os.cpu_count() or 1

    def gauges(self, use: ProcessUse, now: float) -> dict[str, Number]:
        """By Flink's names; `now` is of the monotonic clock."""
        used = {"cpu": use.cpu_seconds, "collecting": use.collecting_seconds}
        if self._rates is None:  # what was used before is no load of now
            self._rates = Rates(now, used)
        rates = self._rates.update(now, used)
        load = rates["cpu"] / self._processors
        return {
            "Status.JVM.CPU.Load": min(max(load, 0.0), 1.0),
            "Status.JVM.CPU.Time": round(use.cpu_seconds * 1e9),
            "Status.JVM.Memory.Heap.Used": use.memory_bytes,
            "Status.JVM.Threads.Count": use.threads,
            "Status.JVM.GarbageCollector.All.Count": use.collections,
            "Status.JVM.GarbageCollector.All.Time": round(use.collecting_seconds * 1000),
            "Status.JVM.GarbageCollector.All.TimeMsPerSecond": rates["collecting"] * 1000,
        }
