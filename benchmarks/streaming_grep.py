"""Streaming grep: log lines of about 100 characters are made and filtered by a substring, as fast as two slots can.

One line in a hundred matches; the matches go round robin to sinks in both slots, where their age is measured: at full
load, from the generator to the sink, for those that cross between the slot workers. Making the lines is part of the
work. The published figures are Flink's of 2015 on 120 cores: 80 M lines/s, p99 50 ms.
"""

from __future__ import annotations

import latency
from machine import cores
from processes import Run
from rows import Peer, Row, Scale, at_least, check

FLINK_PER_CORE = 80e6 / 120
FLINK_P99 = 50.0
WARM_UP = 0.3
ONE_IN = 100
SLOTS = 2


def measure(scale: Scale) -> list[Row]:
    return [*_rows("rows", scale.of(8_000_000)), *_rows("columns", scale.of(60_000_000))]


def _rows(form: str, lines: int) -> list[Row]:
    rate, measured = _run(form, lines)
    name = "Python strings" if form == "rows" else "Arrow columns"
    return [
        Row(
            f"lines/s a core, {name}", rate / min(SLOTS, cores()), "lines/s", at_least(FLINK_PER_CORE),
            Peer("Flink 2015, a core", FLINK_PER_CORE, same_run=False),
        ),
        Row(f"p50 at full load, {name}", measured.p50, "ms"),
        Row(
            f"p99 at full load, {name}", measured.p99, "ms", None,
            Peer("Flink 2015", FLINK_P99, same_run=False),
            f"highest {measured.highest:.1f} ms of {measured.samples:,} matches",
        ),
    ]  # fmt: skip


def _run(form: str, lines: int) -> tuple[float, latency.Latency]:
    with Run() as run:
        run.start("streaming_grep_job.py", str(lines), form)
        run.wait(300)
        check(run.marks("plan")[0]["strategies"] == ["REBALANCE"], "the matches have to be distributed to both slots")
        sinks = run.marks("sink")
        count = sum(mark["count"] for mark in sinks)
        check(count == lines // ONE_IN, f"{lines // ONE_IN} lines had to match, not {count}")
        check(len({mark["pid"] for mark in sinks}) == SLOTS, "two slot workers had to take part")
        first = int(run.samples("latencies")[:, 0].min())  # line 0 is a match
        seconds = (max(mark["last"] for mark in sinks) - first) / 1e9
        return lines / seconds, latency.of_run(run, min(WARM_UP, seconds / 4))
