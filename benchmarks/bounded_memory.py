"""A source at full speed in front of a sink that takes 50 µs for a record: backpressure has to keep memory bounded.

The resident memory of both slot workers is sampled for 20 s while records flow; the figure is the highest of either,
and how much of that came after the first quarter of the time, when all buffers have long been full.
"""

from __future__ import annotations

import time

from processes import INTERRUPTED, Run, resident_megabytes
from rows import Row, Scale, at_most, check

SECONDS = 20.0
INTERVAL = 0.1
GROWTH_LIMIT = 16.0  # MiB


def measure(scale: Scale) -> list[Row]:
    seconds = SECONDS * max(0.2, scale.factor)
    with Run() as run:
        run.start("slow_sink.py")
        run.wait_for(lambda: len(run.marks("flowing")) == 2, "records reach both sinks", 60)
        curve = _watch(run, seconds)
        run.interrupt()
        run.wait(60, expected=INTERRUPTED)
        check(run.marks("plan")[0]["strategies"] == ["HASH"], "the job's only exchange has to be a hash exchange")
        sinks = run.marks("sink")
        check(len(sinks) == 2, "both sinks had to be closed when the job was cancelled")
        taken, wrong = sum(mark["count"] for mark in sinks), sum(mark["wrong"] for mark in sinks)
        check(wrong == 0, f"{wrong} records overtook an earlier one")
    early = max(curve[: max(1, len(curve) // 4)])
    highest = max(curve)
    return [
        Row("highest resident memory of a slot worker", highest, "MiB", note=f"{taken:,} records in {seconds:.0f} s"),
        Row("growth after the first quarter of the time", highest - early, "MiB", at_most(GROWTH_LIMIT)),
    ]


def _watch(run: Run, seconds: float) -> list[float]:
    workers = run.workers()
    check(len(workers) == 2, f"there had to be two slot workers, not {len(workers)}")
    curve: list[float] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        run.check_alive()
        sizes = [resident_megabytes(pid) for pid in workers]
        check(all(size is not None for size in sizes), "a slot worker has ended")
        curve.append(max(size for size in sizes if size is not None))
        time.sleep(INTERVAL)
    return curve
