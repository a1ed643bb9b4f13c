"""The Python pipeline on Millstream: `python pipeline_millstream.py RECORDS [KIND [KEY=VALUE ...]]`.

A kind is `typed`, `untyped`, `timed`, which is typed with unused event time, or `carried`, with a sink that
may read the timestamps, so that they go through the whole pipeline.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from job import environment, execute
from marks import report

from millstream.common import WatermarkStrategy
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.connectors.base import Sink, SinkWriter, SourceReaderContext
from millstream.datastream.connectors.index_split import IndexReader
from millstream.datastream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.functions import RuntimeContext


class TimedNumbers(NumberSequenceSource):
    """The number sequence; reports when its first batch is created."""

    def create_reader(self, context: SourceReaderContext) -> IndexReader:
        return _TimedReader(context)


class _TimedReader(IndexReader):
    def __init__(self, context: SourceReaderContext) -> None:
        super().__init__(context)
        self._first: int | None = None

    def make(self, indices: range) -> RowBatch:
        if self._first is None:
            self._first = time.monotonic_ns()
        return RowBatch(list(indices))

    def close(self) -> None:
        super().close()
        report("source", first=self._first)


class LastOfEachKey(Sink):
    """Keeps only the last value of each key and a count, to check the result."""

    reads_timestamps = False

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return _LastWriter()


class LastOfEachKeyWithTimes(LastOfEachKey):
    """The same, for batches with their timestamps."""

    reads_timestamps = True


class _LastWriter(SinkWriter):
    def __init__(self) -> None:
        self._values: dict[int, int] = {}
        self._count = 0
        self._last = 0

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, RowBatch)
        self._values.update(batch.rows)
        self._count += len(batch)
        self._last = time.monotonic_ns()

    def close(self) -> None:
        report("sink", last=self._last, count=self._count, values=self._values)


def main(records: int, kind: str, options: dict[str, str]) -> None:
    env = environment(options)
    hint: Any = None if kind == "untyped" else tuple[int, int]
    strategy = WatermarkStrategy.no_watermarks()
    if kind in ("timed", "carried"):
        strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda x, _: x)
    (
        env.from_source(TimedNumbers(0, records - 1), strategy)
        .map(lambda x: (x % 500, x), output_type=hint)
        .key_by(lambda pair: pair[0])
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .filter(lambda pair: pair[1] % 2 == 0)
        .sink_to(LastOfEachKeyWithTimes() if kind == "carried" else LastOfEachKey())
    )
    execute(env, "python pipeline")


if __name__ == "__main__":
    settings = dict(option.split("=", 1) for option in sys.argv[3:])
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "typed", settings)
