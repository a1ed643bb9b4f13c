"""Event-time timers, one for each of a million keys: set while records are processed, then fired by watermarks.

The function is called for each record, and for each timer, for which it emits a record. One operator by itself on one
core; the processor's time is taken, the best of three.
"""

from __future__ import annotations

from processes import Run
from rows import Row, Scale, at_least, check

TIMERS = 1_000_000
TIMES = 3
TIMEOUT = 300.0


def measure(scale: Scale) -> list[Row]:
    timers = scale.of(TIMERS)
    runs = [_run(timers) for _ in range(TIMES)]
    setting, firing = min(runs, key=sum)
    rates = ", ".join(f"{timers / sum(each) / 1e3:.0f} k" for each in runs)
    note = f"{setting / timers * 1e6:.2f} µs to set one, {firing / timers * 1e6:.2f} µs to fire it; runs: {rates}"
    return [Row("timers/s set and fired", timers / (setting + firing), "timers/s", at_least(500_000), note=note)]


def _run(timers: int) -> tuple[float, float]:
    with Run() as run:
        run.start("timers_operator.py", str(timers))
        run.wait(TIMEOUT)
        (mark,) = run.marks("timers")
        check(mark["fired"] == timers, f"{timers} timers had to fire, not {mark['fired']}")
        return mark["setting"], mark["firing"]
