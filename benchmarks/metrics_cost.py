"""What metrics, latency markers and the search for hot keys cost the Python pipeline (see python_pipeline).

Four ways by turns: tasks report hardly ever; they report every 100 ms, ten times as often as they do by default; they
look for hot keys; and all of that, with markers every 100 ms. What is counted a batch at a time is counted in all of
them. The cost is the median, over the rounds, of how much longer a run took than that of the same round without.
"""

from __future__ import annotations

import statistics

from python_pipeline import Timing, run_millstream
from rows import Row, Scale, at_most

RECORDS = 6_000_000
ROUNDS = 7
WITHOUT = ("metrics.fetcher.update-interval=1 h", "metrics.hot-keys.enabled=false")
METRICS = ("metrics.fetcher.update-interval=100 ms", "metrics.hot-keys.enabled=false")
KEYS = ("metrics.fetcher.update-interval=1 h", "metrics.hot-keys.enabled=true")
EVERYTHING = (
    "metrics.fetcher.update-interval=100 ms", "metrics.hot-keys.enabled=true", "metrics.latency.interval=100 ms",
)  # fmt: skip


def measure(scale: Scale) -> list[Row]:
    records = scale.of(RECORDS)
    ways = {"without": WITHOUT, "metrics": METRICS, "keys": KEYS, "everything": EVERYTHING}
    runs: dict[str, list[Timing]] = {name: [] for name in ways}
    for _ in range(ROUNDS):  # in turn, so that a slow moment of the machine hits them alike
        for name, options in ways.items():
            runs[name].append(run_millstream(records, "typed", *options))
    return [
        Row("cost of metrics, every 100 ms", _cost(runs, "metrics"), "%", at_most(2), note=_rates(runs, "metrics")),
        Row("cost of the search for hot keys", _cost(runs, "keys"), "%", at_most(2), note=_rates(runs, "keys")),
        Row(
            "cost of metrics, markers every 100 ms and hot keys", _cost(runs, "everything"), "%", at_most(3),
            note=_rates(runs, "everything"),
        ),
    ]  # fmt: skip


def _cost(runs: dict[str, list[Timing]], name: str) -> float:
    pairs = zip(runs["without"], runs[name], strict=True)
    return 100 * (statistics.median(without.rate / with_it.rate for without, with_it in pairs) - 1)


def _rates(runs: dict[str, list[Timing]], name: str) -> str:
    ours, theirs = (statistics.median(timing.rate for timing in runs[way]) / 1e6 for way in (name, "without"))
    return f"{ours:.2f} M against {theirs:.2f} M records/s, medians"
