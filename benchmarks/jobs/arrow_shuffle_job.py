"""Arrow batches through a hash exchange: `python arrow_shuffle_job.py ROWS`."""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa
from job import environment, execute
from marks import report

from millstream.datastream import Function
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource

KEYS = 1000


class Columns:
    """Four int64 columns for a run of indices: a key, the index itself and two more.

    Reports the creation of the first.
    """

    def __init__(self) -> None:
        self._started = False

    def __call__(self, start: int, count: int) -> pa.RecordBatch:
        if not self._started:
            self._started = True
            report("source", first=time.monotonic_ns())
        index = np.arange(start, start + count, dtype=np.int64)
        columns = [index % KEYS, index, index + 1, -index]
        return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], names=["k", "a", "b", "c"])


class CountRows(Function):
    """Counts the rows of each key and sums the other columns, a batch at a time."""

    def open(self, runtime_context: object) -> None:
        self._counts = np.zeros(KEYS, dtype=np.int64)
        self._sums = [0, 0, 0]
        self._batches = 0
        self._last = 0

    def map_batches(self, batch: pa.RecordBatch) -> None:
        keys, *others = (column.to_numpy() for column in batch.columns)
        self._counts += np.bincount(keys, minlength=KEYS)
        self._sums = [total + int(column.sum()) for total, column in zip(self._sums, others, strict=True)]
        self._batches += 1
        self._last = time.monotonic_ns()

    def close(self) -> None:
        report("sink", last=self._last, counts=self._counts.tolist(), sums=self._sums, batches=self._batches)


def main(rows: int) -> None:
    env = environment()
    env.from_source(ColumnDataGeneratorSource(Columns(), rows)).key_by("k").map_batches(CountRows())
    execute(env, "arrow shuffle")


if __name__ == "__main__":
    main(int(sys.argv[1]))
