"""The cost of serving REST to ten open dashboards of a cluster with 50 jobs of 20 tasks, and the dispatcher's memory.

A real cluster: one task manager, a slot worker for each job. Each dashboard shows one page after the other: it holds a
stream of the page's paths open (`/updates`), as the real ones do, and besides requests the paths themselves twice a
second. The workers, the task manager and the dashboards share the cores with the dispatcher. The long form is an hour.
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
        (memory,), (failed,), (cores,) = run.marks("memory"), run.marks("failed"), run.marks("cores")
        (kinds,), requests, shown = run.marks("kinds"), run.samples("requests"), run.samples("pages")[:, 0] / NS_PER_MS
    taken = requests[:, 0] / NS_PER_MS
    by_kind = {kind: np.percentile(taken[requests[:, 1] == at], 99) for at, kind in enumerate(kinds["kinds"])}
    slowest = ", ".join(f"{kind} {by_kind[kind]:.0f}" for kind in sorted(by_kind, key=by_kind.__getitem__)[:-4:-1])
    check(not failed["requests"], f"{failed['requests']} requests did not return 200")
    tenth = max(1, len(memory["mebibytes"]) // 10)  # it fluctuates by some MiB from second to second
    first, last = (float(np.median(some)) for some in (memory["mebibytes"][:tenth], memory["mebibytes"][-tenth:]))
    return [
        Row(
            "p99 of REST, ten dashboards, 50 jobs, 1,000 subtasks", float(np.percentile(taken, 99)), "ms", at_most(50),
            note=f"{len(taken):,} requests in {seconds:g} s, {_spread(taken)}; p99 of the slowest: {slowest}",
        ),
        Row(
            "p99 until a page that is opened has all its responses", float(np.percentile(shown, 99)), "ms",
            note=f"{len(shown):,} streams, {_spread(shown)}",
        ),
        Row(
            f"growth of the dispatcher's memory in {seconds:g} s of that", last - first, "MiB", at_most(GROWTH),
            note=f"from {first:.0f} to {last:.0f} MiB, medians of the first and the last tenth of the time",
        ),
        _cores("CPU of that cluster with no page open", cores["unseen"]),
        _cores("CPU while ten dashboards are open", cores["seen"]),
    ]  # fmt: skip


def _spread(times: np.ndarray[tuple[int], np.dtype[np.float64]]) -> str:
    return f"p50 {np.percentile(times, 50):.1f} ms, highest {times.max():.1f} ms"


def _cores(what: str, taken: dict[str, float]) -> Row:
    return Row(what, sum(taken.values()), "cores", note=", ".join(f"{kind} {used:.2f}" for kind, used in taken.items()))
