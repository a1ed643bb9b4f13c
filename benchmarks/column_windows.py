"""Sums of a column in windows of event time by key: Arrow batches, generated in two slots, through a hash exchange.

Records of three int64 columns, 1 M for each second of event time. Rows/s are rows divided by the time from the first
generated batch to the last result; default settings, best of three. The number of results and their total are checked.
Flink 2.3's SQL on this kind of machine: 0.68 M rows/s for 1 k keys, and 0.20 M for nearly unique ones.
"""

from __future__ import annotations

from processes import Run
from rows import Peer, Row, Scale, Target, at_least, check

KEYS = 1000
TIMES = 3
PER_SECOND = 1_000_000
SIZE, SLIDE = 6, 0.1  # seconds, of the long windows


def measure(scale: Scale) -> list[Row]:
    many, some = scale.of(36_000_000), scale.of(12_000_000)
    seconds = -(-many // PER_SECOND)
    long_windows, sliding = -(-many // (PER_SECOND * SIZE)), round(many / PER_SECOND / SLIDE + SIZE / SLIDE - 1)
    few_keys = _best("tumbling", KEYS, many, seconds * KEYS, 1)
    unique = _best("tumbling", 0, some, some, 1)
    one_window = _best("long", KEYS, many, long_windows * KEYS, 1)
    all_windows = _best("sliding", KEYS, many, sliding * KEYS, round(SIZE / SLIDE))
    tumbling = Peer("tumbling windows of the same size", one_window.value)
    return [
        Row("tumbling sum, 1 k keys", few_keys.value, "rows/s", at_least(8e6), note=few_keys.note),
        Row("tumbling sum, unique keys", unique.value, "rows/s", at_least(3e6), note=unique.note),
        Row(
            "sliding sum, size 60 times the slide, 1 k keys", all_windows.value, "rows/s",
            Target(0.5, at_least=True, of_ratio=True), tumbling, all_windows.note,
        ),
    ]  # fmt: skip


def _best(kind: str, keys: int, rows: int, results: int, windows: int) -> Row:
    runs = [_run(kind, keys, rows, results, windows) for _ in range(TIMES)]
    rates = ", ".join(f"{rate / 1e6:.2f} M" for rate, _ in runs)
    worked = min(worked for _, worked in runs) / rows * 1e9
    return Row(kind, max(rate for rate, _ in runs), "rows/s", note=f"runs: {rates}; {worked:.0f} ns of processor a row")


def _run(kind: str, keys: int, rows: int, results: int, windows: int) -> tuple[float, float]:
    with Run() as run:
        run.start("column_windows_job.py", kind, str(keys), str(rows))
        run.wait(300)
        check(run.marks("plan")[0]["strategies"] == ["HASH"], "the job's only exchange has to be a hash exchange")
        sources, sinks = run.marks("source"), run.marks("sink")
        check(len(sources) == 2 and len({mark["pid"] for mark in sinks}) == 2, "two slot workers had to take part")
        found = sum(mark["results"] for mark in sinks)
        check(found == results, f"there were {found} results, not {results}")
        total = sum(mark["total"] for mark in sinks)
        check(total == windows * rows // 100 * 4950, f"the sums add up to {total}")
        seconds = (max(mark["last"] for mark in sinks) - min(mark["first"] for mark in sources)) / 1e9
        return rows / seconds, sum(mark["worked"] for mark in sinks)
