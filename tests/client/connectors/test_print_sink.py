"""Printed records and their prefixes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from source_harness import runtime_context

from millstream.core.records.batches import ColumnBatch, RowBatch
from millstream.core.row import Row
from millstream.datastream.connectors.print import PrintSink


@pytest.mark.parametrize(
    ("identifier", "subtask", "parallelism", "prefix"),
    [
        (None, 0, 1, ""),
        (None, 1, 2, "2> "),
        ("out", 0, 1, "out> "),
        ("out", 2, 4, "out:3> "),
    ],
)
def test_prefixes_are_flinks(
    capsys: pytest.CaptureFixture[str], identifier: str | None, subtask: int, parallelism: int, prefix: str
) -> None:
    writer = PrintSink(identifier).create_writer(runtime_context(subtask, parallelism))
    writer.write(RowBatch(["text", (1, "a"), Row(1, "b"), Row(a=1, b="c")]))
    writer.write(RowBatch([]))
    assert capsys.readouterr().out == f"{prefix}text\n{prefix}(1, 'a')\n{prefix}<Row(1, 'b')>\n{prefix}+I[1, c]\n"


def test_columns_are_printed_as_rows_and_single_values_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    writer = PrintSink(to_stderr=True).create_writer(runtime_context())
    writer.write(ColumnBatch(pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None]})))
    writer.write(ColumnBatch(pa.RecordBatch.from_pydict({"value": [7]})))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "+I[1, x]\n+I[2, null]\n7\n")
