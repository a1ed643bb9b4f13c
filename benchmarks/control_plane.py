"""What checkpoints of a large job cost its job manager: 10 task managers to 1,000, with ten tasks each, every 10 s.

The job manager is the real one, on the simulator's clock and network, with messages as bytes and metadata in files;
task managers only speak. Counted is the processor's time in which the job manager itself runs: its sessions and their
heartbeats, messages from and into bytes, the coordinator, the metadata. Not counted are gRPC and the kernel below that.
Tasks report no metrics in these runs, but for the last row, in which they do so every 10 s.
"""

from __future__ import annotations

from processes import Run
from rows import Row, Scale, at_most, check

TASK_MANAGERS = (10, 100, 1_000)
CHECKPOINTS = 3
INTERVAL = 10.0
TIMEOUT = 900.0
_NEVER = "1 d"
Measured = tuple[float, float]


def measure(scale: Scale) -> list[Row]:
    """The short form leaves out the largest one."""
    numbers = TASK_MANAGERS if scale.factor > 1 else TASK_MANAGERS[:-1]
    rows: list[Row] = []
    for number in numbers:
        seconds, starting = _run(number, _NEVER)
        note = f"{seconds / number * 1e3:.2f} ms for each task manager; {starting:.1f} s to start the job"
        share = at_most(INTERVAL * 1e3) if number == TASK_MANAGERS[-1] else None
        rows.append(
            Row(f"job manager, a checkpoint of {number * 10:,} tasks", seconds * 1e3, "ms of CPU", share, note=note)
        )
    seconds, _ = _run(numbers[-1], "10 s")
    what = f"job manager, a checkpoint of {numbers[-1] * 10:,} tasks and their metrics"
    return [*rows, Row(what, seconds * 1e3, "ms of CPU")]


def _run(number: int, metrics: str) -> Measured:
    with Run() as run:
        run.start("control_plane_capacity.py", str(number), str(CHECKPOINTS), metrics)
        run.wait(TIMEOUT)
        (mark,) = run.marks("capacity")
        taken = mark["checkpoints"]
        check(taken == CHECKPOINTS, f"{CHECKPOINTS} checkpoints had to complete, not {taken}")
        return mark["spent"] / taken, mark["starting"]
