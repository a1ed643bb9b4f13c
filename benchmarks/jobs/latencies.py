"""A sink that measures how old records are when they arrive."""

from __future__ import annotations

import os
import time
from array import array

from marks import report, report_samples

from millstream.core.records.batches import Batch, ColumnBatch
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import RuntimeContext


class LatencySink(Sink):
    """For records `(…, moment in ns, process id of the source)`.

    Reports the moment, the age in ns, and whether the record was sent by another process.
    """

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return _LatencyWriter()


class _LatencyWriter(SinkWriter):
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._moments = array("q")
        self._ages = array("q")
        self._remote = array("q")
        self._last = 0

    def write(self, batch: Batch) -> None:
        now = self._last = time.monotonic_ns()
        pid = self._pid
        if isinstance(batch, ColumnBatch):
            moments, pids = (column.to_pylist() for column in batch.data.columns[-2:])
        else:
            moments, pids = [row[-2] for row in batch.rows], [row[-1] for row in batch.rows]
        self._moments.extend(moments)
        self._ages.extend([now - moment for moment in moments])
        self._remote.extend([source != pid for source in pids])

    def close(self) -> None:
        report_samples("latencies", self._moments, self._ages, self._remote)
        report("sink", last=self._last, count=len(self._ages))
