"""A curve over the number of keys on the heap (int64 to a pair of int64), in two slots: memory and times.

Once a checkpoint holds every key and another has completed, one of the two slot workers is killed. The restart is the
time from there until both subtasks process records again: the loss is noticed, the other one is cancelled, a worker is
started, both read their state. There is no delay before the restart (Flink's default waits for a second). Memory is the
resident memory of both workers after a checkpoint, with what writing one takes, beyond that with the fewest keys.
Finally the program is run once more from the newest checkpoint: the additional time, compared with its start without
state, is the restore. 10 M keys are only in the long form.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from keyed_state import TIMEOUT, keyed_state_job
from rows import Row, Scale, Target, at_most

SIZES = ((10_000, "1 s"), (100_000, "1 s"), (1_000_000, "2 s"))
LONG = (10_000_000, "10 s")
TIMES = 3  # for the restart with the fewest keys


@dataclass(frozen=True, slots=True)
class Point:
    """Seconds, and MiB of both workers."""

    keys: int
    memory: float
    checkpoint: float
    restart: float
    restore: float


def measure(scale: Scale) -> list[Row]:
    least, *more = [*SIZES, *([LONG] if scale.factor >= 5 else [])]
    shrink = min(1.0, scale.factor)
    small = [_point(int(least[0] * shrink), least[1]) for _ in range(TIMES)]
    points = [_point(int(keys * shrink), interval) for keys, interval in more]
    base = statistics.median(point.memory for point in small)
    restarts = [point.restart for point in small]
    note = "runs: " + ", ".join(f"{each:.2f}" for each in restarts)
    rows = _rows(small[-1], statistics.median(restarts), at_most(2), note)
    for point in points:
        each = (point.memory - base) * 2**20 / (point.keys - small[0].keys)
        rows.append(Row(f"{_named(point.keys)}: memory a key", each, "bytes", note=f"{point.memory:.0f} MiB in all"))
        beyond = f"{point.restart - statistics.median(restarts):.2f} s more than with {_named(small[0].keys)}"
        rows += _rows(point, point.restart, None, beyond)
        rows.append(Row(f"{_named(point.keys)}: restore on a new start", point.restore, "s"))
    return rows


def _rows(point: Point, restart: float, target: Target | None, note: str) -> list[Row]:
    name = _named(point.keys)
    return [
        Row(f"{name}: checkpoint", point.checkpoint, "s"),
        Row(f"{name}: killed worker to processing again", restart, "s", target, note=note),
    ]


def _point(keys: int, interval: str) -> Point:
    with keyed_state_job(keys, interval) as job:
        without_state = job.start_seconds()
        job.wait_for_checkpoints(2)
        job.metadata()
        last = list(job.checkpoints().values())[-1]
        durations = job.durations()
        killed = time.monotonic_ns()
        os.kill(job.run.workers()[0], signal.SIGKILL)
        again = lambda: [m["moment"] for m in job.run.marks("flowing") if m["attempt"] > 0]  # noqa: E731
        job.run.wait_for(lambda: len(again()) >= 2, "both subtasks process again", TIMEOUT)
        job.stop()
        memory = sum(mark["memory"] for mark in last)
        restore = _start_from(job.newest(), keys) - without_state
        return Point(keys, memory, durations[-1], (max(again()) - killed) / 1e9, restore)


def _start_from(checkpoint: Path, keys: int) -> float:
    with keyed_state_job(keys, "0", options={"execution.state-recovery.path": str(checkpoint)}) as job:
        seconds = job.start_seconds()
        job.stop()
        return seconds


def _named(keys: int) -> str:
    return f"{keys:,} keys"
