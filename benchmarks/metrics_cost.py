"""What metrics, latency markers and the search for hot keys cost the Python pipeline (see python_pipeline).

Three configurations alternately: tasks hardly ever report; they look for hot keys; and all of it, with reports every
second as by default, hot keys and markers every 100 ms. What is counted a batch at a time is counted in all of them.
The cost is how much more of the processor's time the best of the rounds took, all processes together, from the start of
the program to its end: other load of the machine only adds to it.
"""

from __future__ import annotations

import resource

from python_pipeline import run_millstream
from rows import Row, Scale, at_most

RECORDS = 10_000_000
ROUNDS = 8
WITHOUT = ("metrics.fetcher.update-interval=1 h", "metrics.hot-keys.enabled=false")
WAYS = {
    "without": WITHOUT,
    "keys": (WITHOUT[0], "metrics.hot-keys.enabled=true"),
    "everything": ("metrics.hot-keys.enabled=true", "metrics.latency.interval=100 ms"),
}


def measure(scale: Scale) -> list[Row]:
    records = scale.of(RECORDS)
    runs: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):  # alternately, so that a slow moment of the machine affects them alike
        for name, options in WAYS.items():
            before = _processor_seconds()
            run_millstream(records, "typed", *options)
            runs[name].append((_processor_seconds() - before) / records * 1e9)
    without = min(runs["without"])
    keys, everything = (100 * (min(runs[name]) / without - 1) for name in ("keys", "everything"))
    note = "; ".join(f"{name}: {', '.join(f'{each:.0f}' for each in found)}" for name, found in runs.items())
    return [
        Row("cost of the search for hot keys", keys, "%", at_most(2)),
        Row("cost of metrics, markers and hot keys", everything, "%", at_most(3), note=f"ns a record: {note}"),
    ]


def _processor_seconds() -> float:
    """Returns the CPU time of all programs that have ended, and of their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
