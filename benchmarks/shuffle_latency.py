"""Latency through a key_by shuffle between two slots at 20,000 records/s in total.

Measured from the moment when a record is due at this rate, so that delays of a source count, to the sink after the
shuffle. Only records sent from one slot worker to the other count; the first second is left out. Every record has to
arrive.
"""

from __future__ import annotations

import latency
from processes import Run
from rows import Row, Scale, at_most, check

RATE = 20_000
WARM_UP = 1.0


def measure(scale: Scale) -> list[Row]:
    seconds = max(2.0, 10.0 * scale.factor)
    usual = _run(seconds, None)
    quick = _run(seconds, "1 ms")
    return [
        Row("p50, default settings", usual.p50, "ms", at_most(15)),
        Row("p99, default settings", usual.p99, "ms", at_most(50), note=_note(usual)),
        Row("p50, buffer timeout 1 ms", quick.p50, "ms"),
        Row("p99, buffer timeout 1 ms", quick.p99, "ms", at_most(10), note=_note(quick)),
    ]


def _run(seconds: float, buffer_timeout: str | None) -> latency.Latency:
    with Run() as run:
        run.start(
            "shuffle_latency_job.py", str(RATE), str(seconds), *([] if buffer_timeout is None else [buffer_timeout])
        )
        run.wait(seconds + 60)
        check(run.marks("plan")[0]["strategies"] == ["HASH"], "the job's only exchange has to be a hash exchange")
        sinks = run.marks("sink")
        count = sum(mark["count"] for mark in sinks)
        check(count == int(RATE * seconds), f"{int(RATE * seconds)} records had to arrive, not {count}")
        check(len({mark["pid"] for mark in sinks}) == 2, "two slot workers had to take part")
        return latency.of_run(run, WARM_UP)


def _note(measured: latency.Latency) -> str:
    return f"highest {measured.highest:.1f} ms of {measured.samples:,} records"
