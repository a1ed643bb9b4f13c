"""Prints records, for people."""

from __future__ import annotations

import sys
from typing import Any

from millstream.core.logs.named_prints import plain
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.records.conversion import VALUE_COLUMN, record_batch_to_rows
from millstream.core.records.types import PICKLED
from millstream.core.row import as_printed
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import RuntimeContext


class PrintSink(Sink):
    """A line for each record on standard output or standard error, prefixed as Flink does.

    `2> ` names the subtask when there are several, `name> ` the sink when it has an identifier, `name:2> ` both.
    """

    def __init__(self, identifier: str | None = None, to_stderr: bool = False) -> None:
        self._identifier = identifier
        self._to_stderr = to_stderr

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        """Knows its prefix."""
        parts = [self._identifier] if self._identifier else []
        if context.get_number_of_parallel_subtasks() > 1:
            parts.append(str(context.get_index_of_this_subtask() + 1))
        return _PrintWriter(f"{':'.join(parts)}> " if parts else "", self._to_stderr)


class _PrintWriter(SinkWriter):
    def __init__(self, prefix: str, to_stderr: bool) -> None:
        self._prefix = prefix
        self._to_stderr = to_stderr

    def write(self, batch: Batch) -> None:
        """One write for the batch, so that lines of other subtasks never come between."""
        prefix = self._prefix
        lines = [f"{prefix}{row}\n" for row in as_printed(_rows(batch))]
        if lines:
            stream = plain(sys.stderr if self._to_stderr else sys.stdout)
            stream.write("".join(lines))
            stream.flush()


def _rows(batch: Batch) -> list[Any]:
    if isinstance(batch, RowBatch):
        return batch.rows
    rows = record_batch_to_rows(batch.data, PICKLED)
    return [row[0] for row in rows] if batch.data.schema.names == [VALUE_COLUMN] else rows
