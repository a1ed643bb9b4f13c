"""The cost of a large job for its job manager: its start, and checkpoints every 10 s, of ten tasks on each task
manager.

The job manager is the real one, on the simulator's clock and network, with messages as bytes and metadata in files;
task managers are simulated. Counted is the processor's time in which the job manager itself runs: its sessions and
their heartbeats, messages from and into bytes, the coordinator, the metadata. Not counted are gRPC and the kernel below
that. Tasks report no metrics in these runs, except for the last row, in which they report every 10 s. The start goes
from the job's submission to all tasks running.
"""

from __future__ import annotations

from processes import Run
from rows import Row, Scale, at_most, check

TASK_MANAGERS = (10, 100, 1_000)
VERTICES = 10
CHECKPOINTS = 3
INTERVAL = 10.0
STARTING = 10.0  # seconds
TIMEOUT = 300.0
_NEVER = "1 d"
Measured = tuple[float, float]


def measure(scale: Scale) -> list[Row]:
    del scale  # only the largest size counts
    rows: list[Row] = []
    for number in TASK_MANAGERS:
        seconds, starting = _run(number, _NEVER)
        largest, tasks = number == TASK_MANAGERS[-1], f"{number * VERTICES:,} tasks"
        limits = (at_most(STARTING), at_most(INTERVAL * 1e3)) if largest else (None, None)
        rows += [
            Row(f"job manager, start of {tasks}", starting, "s of CPU", limits[0], note=_each(starting, number)),
            Row(
                f"job manager, a checkpoint of {tasks}", seconds * 1e3, "ms of CPU", limits[1],
                note=_each(seconds, number),
            ),
        ]  # fmt: skip
    seconds, _ = _run(TASK_MANAGERS[-1], "10 s")
    what = f"job manager, a checkpoint of {TASK_MANAGERS[-1] * VERTICES:,} tasks and their metrics"
    return [*rows, Row(what, seconds * 1e3, "ms of CPU", at_most(INTERVAL * 1e3))]


def _each(seconds: float, number: int) -> str:
    return f"{seconds / number * 1e3:.2f} ms for each task manager"


def _run(number: int, metrics: str) -> Measured:
    with Run() as run:
        run.start("control_plane_capacity.py", str(number), str(CHECKPOINTS), metrics)
        run.wait(TIMEOUT)
        (mark,) = run.marks("capacity")
        taken = mark["checkpoints"]
        check(taken == CHECKPOINTS, f"{CHECKPOINTS} checkpoints had to complete, not {taken}")
        return mark["spent"] / taken, mark["starting"]
