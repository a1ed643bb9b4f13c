"""A running job is rescaled from one slot to two and back, in a cluster of processes that handles 2,000 records/s.

The whole time is from the request until all tasks run at the new parallelism; until its tasks are stopped the job keeps
running, while slots, workers and a checkpoint are prepared. The gap is the longest time between two results.
"""

from __future__ import annotations

import statistics
from typing import Any

from processes import Run
from rows import Row, Scale, at_most, check

TIMES = 3
RATE = 2_000


def measure(scale: Scale) -> list[Row]:
    del scale  # it has no size
    with Run() as run:
        run.start("rescale_cluster.py", str(TIMES), str(RATE))
        run.wait(180)
        rescales, (lost,) = run.marks("rescale"), run.marks("lost")
    check(not lost["keys"], f"counts of the keys {lost['keys']} are lost")
    up, down = ([each for each in rescales if each["parallelism"] == wanted] for wanted in (2, 1))
    check(len(up) == len(down) == TIMES, f"there had to be {TIMES} of each, not {len(up)} and {len(down)}")
    return [
        *_rows("1 to 2", up),
        *_rows("2 to 1", down),
    ]


def _rows(way: str, figures: list[dict[str, Any]]) -> list[Row]:
    return [
        Row(f"rescale from {way}, from the request, median of three", *_median(figures, "whole")),
        Row(f"no task runs, {way}, median", *_median(figures, "stopped")),
        Row(f"longest gap in the output, {way}, median", *_median(figures, "gap"), at_most(2), note=_runs(figures)),
    ]


def _median(figures: list[dict[str, Any]], what: str) -> tuple[float, str]:
    return statistics.median(each[what] for each in figures), "s"


def _runs(figures: list[dict[str, Any]]) -> str:
    return "runs: " + ", ".join(f"{each['gap']:.2f}" for each in figures)
