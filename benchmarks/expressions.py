"""Filters and maps by expressions over columns, against the same lambdas: one operator by itself on one core.

Records have two int64 columns, a double and a text. They arrive as rows of a declared type, in batches of 2,048, and as
Arrow batches of 8,192; for the lambda, Arrow batches become rows. A filter keeps half of the records. Figures are per
second of processor time, the best of three; the number of results is checked.
"""

from __future__ import annotations

from processes import Run
from rows import Peer, Row, Scale, Target, check

ROWS = 200_000
TIMEOUT = 300.0
FASTER = {"columns": 10.0}  # x the lambda


def measure(scale: Scale) -> list[Row]:
    rows = scale.of(ROWS)
    with Run() as run:
        run.start("expressions_operator.py", str(rows))
        run.wait(TIMEOUT)
        marks = run.marks("expressions")
    found = []
    for mark in sorted(marks, key=lambda mark: (mark["operation"], mark["form"])):
        kept = rows // 2 if mark["operation"] == "filter" else rows
        check(mark["results"] == [kept, kept], f"there were {mark['results']} results, not {kept}")
        lambdas, expressions = (rows / seconds for seconds in mark["seconds"])
        target = FASTER.get(mark["form"])
        found.append(
            Row(
                f"{mark['operation']}, {mark['form']}", expressions, "rows/s",
                None if target is None else Target(target, at_least=True, of_ratio=True), Peer("lambda", lambdas),
            )
        )  # fmt: skip
    check(len(found) == 4, f"there were {len(found)} figures")
    return found
