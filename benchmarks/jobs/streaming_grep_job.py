"""A streaming grep at full speed: `python streaming_grep_job.py LINES rows|columns`.

The matches are sent to the sinks.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from grep_lines import PATTERN, POOL, make_lines
from job import environment, execute
from latencies import LatencySink

from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource, DataGeneratorSource


class RowLines:
    """`(line, moment in ns, process id)` for an index."""

    def __init__(self) -> None:
        self._lines = make_lines()
        self._pid = -1

    def __call__(self, index: int) -> tuple[str, int, int]:
        if self._pid < 0:
            self._pid = os.getpid()
        return self._lines[index % POOL], time.monotonic_ns(), self._pid


class ColumnLines:
    """The same as columns, for a run of indices."""

    def __init__(self) -> None:
        lines = make_lines()
        self._lines = pa.array(lines * 8)  # a run is at most 65,536 lines from anywhere in the pool

    def __call__(self, start: int, count: int) -> pa.RecordBatch:
        moments, pids = (pa.repeat(value, count) for value in (time.monotonic_ns(), os.getpid()))
        lines = self._lines.slice(start % POOL, count)
        return pa.RecordBatch.from_arrays([lines, moments, pids], names=["line", "moment", "pid"])


def grep(batch: pa.RecordBatch) -> pa.RecordBatch:
    # The regular expression engine finds a literal in less than half of match_substring's time.
    return batch.filter(pc.match_substring_regex(batch.column("line"), PATTERN))


def main(lines: int, form: str) -> None:
    env = environment()
    if form == "rows":
        hint: Any = tuple[str, int, int]
        matches = env.from_source(DataGeneratorSource(RowLines(), lines, type_info=hint)).filter(
            lambda record: PATTERN in record[0]
        )
    else:
        matches = env.from_source(ColumnDataGeneratorSource(ColumnLines(), lines)).map_batches(grep)
    matches.rebalance().sink_to(LatencySink())
    execute(env, "streaming grep")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
