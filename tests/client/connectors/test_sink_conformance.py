"""What every file sink promises: exactly what was written, once, when the input ended or a checkpoint completed."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from sink_harness import SinkHarness
from source_harness import read_all
from thoroughness import cases

from millstream.common.serialization import BulkWriter, BulkWriterFactory
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.records.conversion import rows_to_record_batch
from millstream.core.records.types import LONG, STRING, RowType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.connectors.base import Source
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.file_system import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from millstream.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema
from millstream.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from millstream.datastream.formats.orc import OrcBulkWriters
from millstream.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)

_ROW = RowType((LONG, STRING), ("i", "s"))


@dataclass(frozen=True)
class Record:
    i: int
    s: str


@dataclass(frozen=True)
class _Case:
    sink: Callable[[Path], FileSink]
    source: Callable[[Path], Source[Any]]
    seen: Callable[[int, str], Any]
    make: Callable[[int, str], Any]
    type: TypeInformation = _ROW
    gathers: bool = False
    """Whether rolled parts become larger ones."""


def _as_dict(i: int, s: str) -> dict[str, Any]:
    return {"i": i, "s": s}


def _as_row(i: int, s: str) -> Row:
    return Row(i=i, s=s)


def _text_source(folder: Path) -> Source[Any]:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)


def _csv_source(folder: Path) -> Source[Any]:
    return FileSource.for_csv(folder, types={"i": int, "s": str})


class _LinesFactory(BulkWriterFactory):
    """As a user would write one."""

    def create(self, stream: BinaryIO) -> BulkWriter:
        return _LinesWriter(stream)


class _LinesWriter(BulkWriter):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add_element(self, element: Any) -> None:
        self._stream.write(f"{element}\n".encode())

    def flush(self) -> None:
        raise AssertionError("a sink ends its files")

    def finish(self) -> None:
        pass


def _bulk(factory: BulkWriterFactory) -> Callable[[Path], FileSink]:
    return lambda folder: FileSink.for_bulk_format(folder, factory)


def _orc_source(folder: Path) -> Source[Any]:
    files = [path for path in sorted(folder.iterdir()) if path.suffix == ".orc" and path.name[0] != "."]
    return CollectionSource([Row(**row) for path in files for row in orc.read_table(path).to_pylist()])


def _compacted(folder: Path) -> FileSink:
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).set_size_threshold(60).build()
    return FileSink.for_json_lines(folder).enable_compact(strategy, FileCompactor.concat_file_compactor())


_SCHEMA = pa.schema([("i", pa.int64()), ("s", pa.string())])
_AVRO = AvroSchema.parse_string(
    '{"type": "record", "name": "r", "fields": [{"name": "i", "type": "long"}, {"name": "s", "type": "string"}]}'
)
_CSV = CsvSchema.builder().add_number_column("i").add_string_column("s").set_use_header().build()
_CASES: dict[str, _Case] = {
    "text of values": _Case(FileSink.for_row_format, _text_source, "{} {}".format, "{} {}".format, STRING),
    "text of rows": _Case(FileSink.for_row_format, _text_source, "+I[{}, {}]".format, _as_row),
    "csv of dicts": _Case(FileSink.for_csv, _csv_source, _as_row, _as_dict),
    "csv of a type": _Case(lambda p: FileSink.for_csv(p, Record), _csv_source, _as_row, Record),
    "csv of tuples": _Case(lambda p: FileSink.for_csv(p, _ROW), _csv_source, _as_row, lambda i, s: (i, s)),
    "json of dicts": _Case(FileSink.for_json_lines, FileSource.for_json_lines, _as_dict, _as_dict),
    "json of dataclasses": _Case(
        FileSink.for_json_lines, lambda p: FileSource.for_json_lines(p, type_info=Record), Record, Record
    ),
    "json of rows": _Case(
        FileSink.for_json_lines, lambda p: FileSource.for_json_lines(p, type_info=_ROW), _as_row, _as_row
    ),
    "parquet of dicts": _Case(FileSink.for_parquet, FileSource.for_parquet, _as_row, _as_dict),
    "parquet of a type": _Case(
        lambda p: FileSink.for_parquet(p, Record), FileSource.for_parquet, _as_row, Record
    ),
    "parquet of a schema": _Case(
        lambda p: FileSink.for_parquet(p, _SCHEMA), FileSource.for_parquet, _as_row, _as_row
    ),
    "json, compacted": _Case(_compacted, FileSource.for_json_lines, _as_dict, _as_dict, gathers=True),
    "bulk writers of one's own": _Case(
        lambda p: FileSink.for_bulk_format(p, _LinesFactory()), _text_source, "{} {}".format, "{} {}".format, STRING
    ),
    "bulk csv": _Case(
        _bulk(CsvBulkWriters.for_schema(_CSV)),
        lambda p: FileSource.for_record_stream_format(CsvReaderFormat.for_schema(_CSV), p), _as_row, _as_row,
    ),
    "bulk parquet": _Case(
        _bulk(ParquetBulkWriters.for_row_type(_ROW)),
        lambda p: FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(_SCHEMA), p), _as_row, _as_dict,
    ),
    "bulk orc": _Case(_bulk(OrcBulkWriters.for_row_type(Record)), _orc_source, _as_row, Record),
    "bulk avro": _Case(
        _bulk(AvroBulkWriters.for_generic_record(_AVRO, "deflate")),
        lambda p: FileSource.for_record_stream_format(AvroInputFormat(p, _AVRO), p), _as_dict, _as_row,
    ),
    "bulk avro in parquet": _Case(
        _bulk(AvroParquetWriters.for_generic_record(_AVRO)),
        lambda p: FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(_AVRO), p),
        _as_dict, _as_dict,
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=_CASES)
def case(request: pytest.FixtureRequest) -> _Case:
    return _CASES[request.param]


def _visible(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if not p.name.startswith("."))


_line = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)
_inputs = st.lists(
    st.tuples(st.booleans(), st.lists(st.tuples(st.integers(-(2**40), 2**40), _line), max_size=8)), max_size=6
)


def _batch(case: _Case, as_columns: bool, records: list[tuple[int, str]]) -> Batch:
    rows = [case.make(i, s) for i, s in records]
    if as_columns and rows:
        return ColumnBatch(rows_to_record_batch(rows, case.type))
    return RowBatch(rows)


@settings(max_examples=cases(30))
@given(inputs=_inputs, part_size=st.sampled_from([1, 40, 10**6]))
def test_the_end_of_the_input_shows_exactly_what_was_written(
    case: _Case, inputs: list[tuple[bool, list[tuple[int, str]]]], part_size: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _write_and_read(case, Path(folder), inputs, part_size)


def _write_and_read(
    case: _Case, folder: Path, inputs: list[tuple[bool, list[tuple[int, str]]]], part_size: int
) -> None:
    sink = case.sink(folder).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=part_size)).build()
    writer = SinkHarness(pickle.loads(pickle.dumps(sink)))
    for as_columns, records in inputs:
        writer.write(_batch(case, as_columns, records))
    writer.finish()
    writer.close()
    written = [record for _, records in inputs for record in records]
    assert not [p.name for p in folder.iterdir() if p.name.startswith(".")]
    filled = sum(1 for _, records in inputs if records)
    if case.gathers:
        assert len(_visible(folder)) == min(filled, 1)
    else:
        assert len(_visible(folder)) == {1: filled, 10**6: min(filled, 1)}.get(part_size, len(_visible(folder)))
    assert sorted(map(repr, read_all(case.source(folder)))) == sorted(repr(case.seen(i, s)) for i, s in written)


def test_nothing_is_visible_before_the_end_and_a_close_leaves_nothing(case: _Case, tmp_path: Path) -> None:
    writer = SinkHarness(case.sink(tmp_path / "out"))
    writer.write(_batch(case, False, [(1, "a"), (2, "b")]))
    assert _visible(tmp_path / "out") == []
    assert read_all(case.source(tmp_path / "out")) == []
    writer.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_second_run_adds_to_the_first(case: _Case, tmp_path: Path) -> None:
    for run in range(2):
        for subtask in range(2):
            writer = SinkHarness(case.sink(tmp_path), subtask, 2)
            writer.write(_batch(case, False, [(run, str(subtask))]))
            writer.finish()
            writer.close()
    assert len(_visible(tmp_path)) == 4
    expected = [case.seen(run, str(subtask)) for run in range(2) for subtask in range(2)]
    assert sorted(map(repr, read_all(case.source(tmp_path)))) == sorted(map(repr, expected))


@settings(max_examples=cases(30))
@given(
    inputs=_inputs,
    part_size=st.sampled_from([1, 40, 10**6]),
    steps=st.lists(st.sampled_from(["checkpoint", "complete", "crash", "lose"]), max_size=6),
)
def test_failures_neither_lose_nor_double_records(
    case: _Case, inputs: list[tuple[bool, list[tuple[int, str]]]], part_size: int, steps: list[str]
) -> None:
    """After each batch something happens to the sink; the records since the restored checkpoint come again."""
    with tempfile.TemporaryDirectory() as folder:
        _fail_and_read(case, Path(folder), inputs, part_size, steps)


def _fail_and_read(
    case: _Case, folder: Path, inputs: list[tuple[bool, list[tuple[int, str]]]], part_size: int, steps: list[str]
) -> None:
    sink = case.sink(folder).with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=part_size)).build()

    def start(attempt: int, restored: Any = ()) -> SinkHarness:
        copied = pickle.loads(pickle.dumps(sink))
        return SinkHarness(copied, attempt=attempt, checkpointed=True, restored=restored)

    writer, attempt, done, number = start(0), 0, 0, 0
    completed: tuple[int, Any] = (0, ())
    zombies: list[SinkHarness] = []
    while done < len(inputs):
        writer.write(_batch(case, *inputs[done]))
        done += 1
        step = steps.pop() if steps else ""
        if step in ("checkpoint", "complete"):
            number += 1
            elements = writer.checkpoint(number)
            if step == "complete":
                completed = (done, elements)
                writer.complete(number)
        elif step in ("crash", "lose"):
            if step == "crash":
                writer.close()
            else:  # it is not notified any longer
                zombies.append(writer)
            attempt += 1
            done, elements = completed
            writer = start(attempt, elements)
    writer.finish()
    number += 1
    writer.checkpoint(number)
    writer.complete(number)
    for ended in (writer, *zombies):
        ended.close()
    assert not [p.name for p in folder.iterdir() if p.name.startswith(".")]
    written = [record for _, records in inputs for record in records]
    assert sorted(map(repr, read_all(case.source(folder)))) == sorted(repr(case.seen(i, s)) for i, s in written)
