"""Vectorised windows behind a hash exchange: `python column_windows_job.py KIND KEYS ROWS`, KEYS 0 for unique ones."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import pyarrow as pa
from job import SLOTS, environment, execute
from marks import report

from millstream.common import Types, WatermarkStrategy
from millstream.datastream import Function
from millstream.datastream.aggregates import sum
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource
from millstream.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows, WindowAssigner

PER_MILLISECOND = 500  # records of each source, of event time
WINDOWS: dict[str, WindowAssigner[Any, Any]] = {
    "tumbling": TumblingEventTimeWindows.of(1000),
    "long": TumblingEventTimeWindows.of(6000),
    "sliding": SlidingEventTimeWindows.of(6000, 100),
}


class Columns:
    """A key, a value and a time for a run of indices; the timestamps of both sources advance together."""

    def __init__(self, keys: int, rows: int) -> None:
        self._keys = keys
        self._share = rows // SLOTS
        self._started = False

    def __call__(self, start: int, count: int) -> pa.RecordBatch:
        if not self._started:
            self._started = True
            report("source", first=time.monotonic_ns())
        index = np.arange(start, start + count, dtype=np.int64)
        keys = index % self._keys if self._keys else index * 7919 % (1 << 40)
        times = index % self._share // PER_MILLISECOND
        return pa.RecordBatch.from_arrays([pa.array(c) for c in (keys, index % 100, times)], names=["k", "v", "t"])


class Totals(Function):
    """Counts and sums the results, and measures the CPU time of this process."""

    def open(self, runtime_context: object) -> None:
        self._results = self._total = self._last = 0
        self._worked = time.process_time()

    def map_batches(self, batch: pa.RecordBatch) -> None:
        self._results += batch.num_rows
        self._total += int(batch.column("sum_v").to_numpy().sum())
        self._last = time.monotonic_ns()

    def close(self) -> None:
        worked = time.process_time() - self._worked
        report("sink", last=self._last, results=self._results, total=self._total, worked=worked)


def main(kind: str, keys: int, rows: int) -> None:
    env = environment()
    record = Types.ROW_NAMED(["k", "v", "t"], [Types.LONG(), Types.LONG(), Types.LONG()])
    source = ColumnDataGeneratorSource(Columns(keys, rows), rows, type_info=record)
    timed = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_field("t")
    windows = env.from_source(source, timed, "columns").key_by("k").window(WINDOWS[kind])
    windows.aggregate(sum("v")).map_batches(Totals())
    execute(env, "column windows")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
