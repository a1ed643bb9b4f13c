"""An interval join of two keyed streams, where each row of the first finds about one partner: rows of both a second.

One operator by itself on one core, with a function that emits a record for each pair; the processor's time is taken,
the best of three. The interval grows with the number of keys: the work stays the same, and the state becomes larger.
What is kept is compared with what has to be: the rows that a row which is not late can still reach.
"""

from __future__ import annotations

from typing import Any

from processes import Run
from rows import Row, Scale, at_least, at_most, check

ROWS = 1_000_000
TIMES = 3
TIMEOUT = 300.0


def measure(scale: Scale) -> list[Row]:
    rows = scale.of(ROWS)
    small, large = ([_run(rows, keys) for _ in range(TIMES)] for keys in (1_000, 100_000))
    return [
        _row("1,000 keys", rows, small, True),
        _row("100,000 keys", rows, large, False),
        Row(
            "rows kept at the most, 100,000 keys", large[0]["kept"] / large[0]["needed"], "x what is needed",
            at_most(1.35), note=f"{large[0]['kept']:,} of {rows:,} rows",
        ),
    ]  # fmt: skip


def _row(what: str, rows: int, runs: list[dict[str, Any]], has_target: bool) -> Row:
    rates = [rows / run["seconds"] for run in runs]
    note = f"{runs[0]['results'] / rows:.2f} results a row; runs: {', '.join(f'{rate / 1e3:.0f} k' for rate in rates)}"
    return Row(f"rows/s joined, {what}", max(rates), "rows/s", at_least(300_000) if has_target else None, note=note)


def _run(rows: int, keys: int) -> dict[str, Any]:
    with Run() as run:
        run.start("interval_join_operator.py", str(rows), str(keys))
        run.wait(TIMEOUT)
        (mark,) = run.marks("join")
        check(mark["results"] == mark["expected"], f"{mark['expected']} pairs had to be emitted, not {mark['results']}")
        return dict(mark)
