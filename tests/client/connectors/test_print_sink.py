"""Printed records and their prefixes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from source_harness import runtime_context

from millstream.common import Types
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
    writer.write(RowBatch(["text", (1, "a"), Row(1, "b"), Row(a=1)]))
    writer.write(RowBatch([]))
    assert capsys.readouterr().out == f"{prefix}text\n{prefix}(1, 'a')\n{prefix}<Row(1, 'b')>\n{prefix}Row(a=1)\n"


def test_records_of_a_declared_type_are_printed_as_flink_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    pair = Types.TUPLE([Types.STRING(), Types.DOUBLE()])
    writer = PrintSink().for_type(pair).create_writer(runtime_context())
    writer.write(RowBatch([("ann", 1e7), (None, 0.5)]))
    writer.write(ColumnBatch(pa.RecordBatch.from_pydict({"f0": ["bob"], "f1": [2.0]})))
    row = PrintSink("rows").for_type(Types.ROW([Types.INT(), Types.BOOLEAN()])).create_writer(runtime_context())
    row.write(RowBatch([Row(1, True)]))
    assert capsys.readouterr().out == "(ann,1.0E7)\n(null,0.5)\n(bob,2.0)\nrows> +I[1,True]\n"


def test_columns_are_printed_as_rows_and_single_values_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    writer = PrintSink(to_stderr=True).create_writer(runtime_context())
    writer.write(ColumnBatch(pa.RecordBatch.from_pydict({"a": [1, 2], "b": ["x", None]})))
    writer.write(ColumnBatch(pa.RecordBatch.from_pydict({"value": [7]})))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "+I[1, x]\n+I[2, null]\n7\n")
