"""Arrow batches of four int64 columns, generated in two slots, hash-partitioned between them, counted vectorised.

Rows/s are rows divided by the time from the first generated batch to the last counted one; default settings, best of
three. The counts of each key and the sums of the other columns are checked, and that no key is on both sides.
"""

from __future__ import annotations

from processes import Run
from rows import Row, Scale, at_least, check

KEYS = 1000
TIMES = 3


def measure(scale: Scale) -> list[Row]:
    rows = scale.of(40_000_000)
    rates, batches = zip(*(_run(rows) for _ in range(TIMES)), strict=True)
    runs = ", ".join(f"{rate / 1e6:.2f} M" for rate in rates)
    note = f"runs: {runs}; {rows / batches[0]:.0f} rows in a batch at its consumer"
    return [Row("rows/s through the exchange", max(rates), "rows/s", at_least(5e6), note=note)]


def _run(rows: int) -> tuple[float, int]:
    with Run() as run:
        run.start("arrow_shuffle_job.py", str(rows))
        run.wait(300)
        check(run.marks("plan")[0]["strategies"] == ["HASH"], "the job's only exchange has to be a hash exchange")
        sources, sinks = run.marks("source"), run.marks("sink")
        check(len(sources) == 2 and len({mark["pid"] for mark in sinks}) == 2, "two slot workers had to take part")
        first, second = (mark["counts"] for mark in sinks)
        for key, (left, right) in enumerate(zip(first, second, strict=True)):
            check(left == 0 or right == 0, f"key {key} is on both sides of the shuffle")
            check(left + right == rows // KEYS, f"key {key} came {left + right} times, not {rows // KEYS} times")
        sums = [sum(parts) for parts in zip(*(mark["sums"] for mark in sinks), strict=True)]
        total = rows * (rows - 1) // 2
        check(sums == [total, total + rows, -total], f"the sums of the columns are wrong: {sums}")
        seconds = (max(mark["last"] for mark in sinks) - min(mark["first"] for mark in sources)) / 1e9
        return rows / seconds, sum(mark["batches"] for mark in sinks)
