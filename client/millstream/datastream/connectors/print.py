"""Prints records, for people."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from millstream.core.logs.named_prints import plain
from millstream.core.records.batches import Batch, lines_of
from millstream.core.records.texts import as_printed, printed
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.connectors.base import Sink, SinkWriter
from millstream.datastream.functions import RuntimeContext


class PrintSink(Sink):
    """A line for each record on standard output or standard error, prefixed as Flink does.

    `2> ` names the subtask when there are several, `name> ` the sink when it has an identifier, `name:2> ` both.
    Records of a declared type are written as Flink writes them, others by `str`.
    """

    reads_timestamps = False

    def __init__(
        self, identifier: str | None = None, to_stderr: bool = False, record_type: TypeInformation = PICKLED
    ) -> None:
        self._identifier = identifier
        self._to_stderr = to_stderr
        self._type = record_type

    def for_type(self, record_type: TypeInformation) -> PrintSink:
        """Returns a sink that prints records of `record_type`."""
        return PrintSink(self._identifier, self._to_stderr, record_type)

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        """Creates a writer whose lines have the prefix of its subtask."""
        parts = [self._identifier] if self._identifier else []
        if context.get_number_of_parallel_subtasks() > 1:
            parts.append(str(context.get_index_of_this_subtask() + 1))
        return _PrintWriter(f"{':'.join(parts)}> " if parts else "", self._to_stderr, printed(self._type))


class _PrintWriter(SinkWriter):
    def __init__(self, prefix: str, to_stderr: bool, text: Callable[[Any], str]) -> None:
        self._prefix = prefix
        self._to_stderr = to_stderr
        self._text = text

    def write(self, batch: Batch) -> None:
        """One write for the batch, so that lines of other subtasks never come between."""
        prefix, text = self._prefix, self._text
        rows = lines_of(batch)
        if batch.in_columns and text is str:
            rows = as_printed(rows)
        lines = [f"{prefix}{text(row)}\n" for row in rows]
        if lines:
            stream = plain(sys.stderr if self._to_stderr else sys.stdout)
            stream.write("".join(lines))
            stream.flush()
