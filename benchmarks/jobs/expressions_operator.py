"""`expressions_operator.py ROWS`: filters and maps of rows and of columns, by a lambda and by an expression."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
from marks import report
from operator_run import seconds_of

from millstream.common import Row, Types
from millstream.core.jobs.plan.plan import FilterSpec, MapSpec, OperatorSpec
from millstream.core.records.batches import Batch, ColumnBatch
from millstream.datastream.adapters.calculations import filter_of, map_of
from millstream.datastream.expressions import col
from millstream.datastream.expressions import row as row_of
from millstream.taskmanager.testing import OperatorHarness

RECORD = Types.ROW_NAMED(
    ["id", "amount", "price", "user"], [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.STRING()]
)
OF_ROWS, OF_COLUMNS = 2048, 8192  # records in a batch, as sources make them, and as kernels like them
TIMES = 3
SPECS: dict[str, tuple[OperatorSpec, OperatorSpec]] = {
    "filter": (
        FilterSpec(lambda r: r.amount > 50 and r.user != "user-1"),
        filter_of((col("amount") > 50) & (col("user") != "user-1"), RECORD),
    ),
    "map": (
        MapSpec(lambda r: Row(id=r.id, cost=r.amount * r.price + 1)),
        map_of(row_of(col("id"), (col("amount") * col("price") + 1).alias("cost")), RECORD)[0],
    ),
}


def batches_of(count: int, form: str) -> list[tuple[int, Batch]]:
    """So many records; of amounts from 1 to 100, half are above 50."""
    numbers = np.arange(count)
    users = pa.array([f"user-{number}" for number in range(2, 102)]).take(pa.array(numbers % 100))
    data = pa.record_batch(
        [pa.array(numbers), pa.array(numbers % 100 + 1), pa.array(numbers % 1000 / 8), users],
        names=["id", "amount", "price", "user"],
    )
    size = OF_ROWS if form == "rows" else OF_COLUMNS
    parts = [ColumnBatch(data.slice(start, size)) for start in range(0, count, size)]
    return [(0, part.to_rows(RECORD) if form == "rows" else part) for part in parts]


def best(spec: OperatorSpec, batches: Any) -> tuple[float, int]:
    """Returns the shortest time, and the number of results."""
    return min(seconds_of(OperatorHarness(spec, RECORD).open(), batches) for _ in range(TIMES))


def main(count: int) -> None:
    """Reports the times of the lambda and of the expression for each operation and form."""
    for form in ("rows", "columns"):
        batches = batches_of(count, form)
        for operation, specs in SPECS.items():
            found = [best(spec, batches) for spec in specs]
            report(
                "expressions", operation=operation, form=form,
                seconds=[seconds for seconds, _ in found], results=[results for _, results in found],
            )  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]))
