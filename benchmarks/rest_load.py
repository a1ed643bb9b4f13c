"""What REST takes to answer ten open dashboards of a cluster with 50 jobs of 20 tasks, and what the dispatcher keeps.

A real cluster: one task manager, a slot worker for each job. The dashboards ask for the pages of the cluster, of jobs
and of vertices, as long as they are open; the workers, the task manager and the dashboards share the cores with the
dispatcher. The long form is an hour.
"""

from __future__ import annotations

import numpy as np
from processes import Run
from rows import Row, Scale, at_most, check

JOBS, TASKS, DASHBOARDS = 50, 20, 10
SECONDS = 30.0
LONG = 3_600.0
START = 300.0
GROWTH = 10.0  # MiB
NS_PER_MS = 1e6


def measure(scale: Scale) -> list[Row]:
    seconds = SECONDS if scale.factor <= 1 else LONG
    with Run() as run:
        run.start("rest_load_cluster.py", str(JOBS), str(TASKS), str(DASHBOARDS), f"{seconds:g}")
        run.wait(START + seconds)
        (memory,), (failed,) = run.marks("memory"), run.marks("failed")
        taken = run.samples("requests")[:, 0] / NS_PER_MS
    check(not failed["requests"], f"{failed['requests']} requests were not answered with 200")
    p50, p99 = np.percentile(taken, [50, 99])
    grown = memory["after"] - memory["before"]
    note = f"{len(taken):,} requests in {seconds:g} s, p50 {p50:.1f} ms, highest {taken.max():.1f} ms"
    return [
        Row("p99 of REST, ten dashboards, 50 jobs, 1,000 subtasks", float(p99), "ms", at_most(50), note=note),
        Row(
            f"what the dispatcher's memory grows by in {seconds:g} s of that", grown, "MiB", at_most(GROWTH),
            note=f"from {memory['before']:.0f} MiB",
        ),
    ]  # fmt: skip
