"""What every bounded source promises: each record exactly once, in any interleaving, across snapshots."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fetched_log import LogSource
from hypothesis import given, settings
from hypothesis import strategies as st
from source_harness import SourceHarness, read_all, runtime_context
from thoroughness import cases

from millstream.common import Types
from millstream.common.serialization import BulkWriterFactory
from millstream.core.records.batches import RowBatch
from millstream.core.row import Row
from millstream.datastream.connectors.base import Boundedness, Source
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource, DataGeneratorSource
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.connectors.file_system.csv.format import CsvFormat
from millstream.datastream.connectors.hybrid_source import HybridSource
from millstream.datastream.connectors.kept_records import KeptRecordsSink, KeptRecordsSource, kept_files
from millstream.datastream.connectors.number_sequence import NumberSequenceSource
from millstream.datastream.formats.avro import AvroInputFormat, AvroSchema
from millstream.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from millstream.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetColumnarRowInputFormat,
)

_LINES = [f"line {i} {'é' * (i % 7)}" for i in range(60)] + ["", "after an empty line", "", ""] + ["x" * 300]
_Case = tuple[Source[Any], list[Any]]


def _double(index: int) -> int:
    return index * 2


def _columns(start: int, n: int) -> dict[str, list[int]]:
    return {"i": list(range(start, start + n))}


def _text(folder: Path) -> _Case:
    (folder / "sub").mkdir()
    (folder / "a.txt").write_text("\n".join(_LINES) + "\n", "utf-8")
    (folder / "sub" / "no-end.txt").write_text("\n".join(_LINES), "utf-8")
    (folder / "empty.txt").write_text("")
    (folder / ".hidden").write_text("hidden\n")
    (folder / "_SUCCESS").write_text("hidden\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    return source.with_block_size(37), _LINES * 2


def _gzip(folder: Path) -> _Case:
    for name in ("a.txt.gz", "b.txt.gz"):
        with gzip.open(folder / name, "wt", encoding="utf-8") as file:
            file.write("\n".join(_LINES) + "\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder / "*.gz").build()
    return source.with_block_size(16), _LINES * 2


def _utf16(folder: Path) -> _Case:
    (folder / "a.txt").write_bytes("\r\n".join(_LINES).encode("utf-16"))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-16"), str(folder / "a.txt"))
    return source.with_block_size(16), _LINES


def _json(folder: Path) -> _Case:
    records = [{"i": i, "s": "é\n" * (i % 5)} for i in range(70)]
    lines = [json.dumps(r, ensure_ascii=i % 2 == 0) for i, r in enumerate(records)]
    (folder / "a.jsonl").write_text("\n".join(lines[:40]) + "\n\n \n" + "\r\n".join(lines[40:]), "utf-8")
    return FileSource.for_json_lines(folder).with_block_size(50), records


def _csv(folder: Path) -> _Case:
    for part in range(3):
        body = "".join(f'{i},"text {i}\nwith ""a"" line, end"\n' for i in range(part * 30, part * 30 + 30))
        (folder / f"{part}.csv").write_text("i,s\n" + body)
    expected = [Row(i=i, s=f'text {i}\nwith "a" line, end') for i in range(90)]
    return FileSource.for_csv(folder).with_block_size(20), expected


def _small_blocks(folder: Path) -> _Case:
    (folder / "a.csv").write_text("i,s\n" + "".join(f"{i},text {i}\n" for i in range(100)))
    return FileSource(CsvFormat(block_size=64), folder), [Row(i=i, s=f"text {i}") for i in range(100)]


def _parquet(folder: Path) -> _Case:
    for part in range(2):
        table = pa.table({"i": range(part * 50, part * 50 + 50), "s": [str(i) for i in range(50)]})
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=7)
    expected = [Row(i=i, s=str(i % 50)) for i in range(100)]
    return FileSource.for_parquet(folder).with_block_size(600), expected


_AVRO = AvroSchema.parse_string(
    '{"type": "record", "name": "r", "fields": [{"name": "i", "type": "long"}, {"name": "s", "type": "string"}]}'
)
_RECORDS = [{"i": i, "s": "é" * (i % 9)} for i in range(120)]


def _written(path: Path, factory: BulkWriterFactory, records: list[Any]) -> None:
    with path.open("wb") as stream:
        writer = factory.create(stream)
        for record in records:
            writer.add_element(record)
        writer.finish()


def _avro(folder: Path) -> _Case:
    for part in range(2):
        with (folder / f"{part}.avro").open("wb") as stream:
            fastavro.writer(stream, _AVRO.parsed, _RECORDS, sync_interval=200)
    source = FileSource.for_record_stream_format(AvroInputFormat(folder, _AVRO), folder)
    return source.with_block_size(150), _RECORDS * 2


def _avro_parquet(folder: Path) -> _Case:
    _written(folder / "a.parquet", AvroParquetWriters.for_generic_record(_AVRO), _RECORDS)
    return FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(_AVRO), folder), _RECORDS


def _columnar(folder: Path) -> _Case:
    pq.write_table(pa.table({"s": [r["s"] for r in _RECORDS], "I": range(120)}), folder / "a", row_group_size=13)
    kind = Types.ROW_NAMED(["i", "s", "absent"], [Types.INT(), Types.STRING(), Types.DOUBLE()])
    columns = ParquetColumnarRowInputFormat(kind, batch_size=10, is_case_sensitive=False)
    expected = [Row(**record, absent=None) for record in _RECORDS]
    return FileSource.for_bulk_file_format(columns, folder).with_block_size(300), expected


def _csv_rows(folder: Path) -> _Case:
    builder = CsvSchema.builder().add_number_column("i").add_array_column("s", "/").set_escape_char("!")
    schema = builder.set_allow_comments().set_skip_first_data_row().set_use_header().build()
    expected = [Row(i=i, s=[f"a,{i}", 'b"\nc'][: i % 3]) for i in range(70)]
    _written(folder / "a.csv", CsvBulkWriters.for_schema(schema), [Row(i=0, s=None), *expected])
    lines = (folder / "a.csv").read_text().replace("\n11,", "\n# a comment, in between\n11,")
    (folder / "a.csv").write_text(lines)
    return FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), folder), expected


def _hybrid(folder: Path) -> _Case:
    lines, expected = _text(folder)
    numbers = NumberSequenceSource(0, 40)
    return HybridSource.builder(numbers).add_source(lines).add_source(numbers).build(), [
        *range(41),
        *expected,
        *range(41),
    ]


def _kept(folder: Path) -> _Case:
    """In batches of different sizes, of two subtasks; one of them was tried twice."""
    sink = KeptRecordsSink(str(folder))
    parts = {(0, 0): [[-1]], (0, 1): [list(range(7)), [], list(range(7, 30))], (1, 0): [[30], list(range(31, 40))]}
    for (subtask, attempt), batches in parts.items():
        writer = sink.create_writer(runtime_context(subtask, 2, attempt=attempt))
        for rows in batches:
            writer.write(RowBatch(rows))
        writer.flush(end_of_input=True)
        writer.close()
    files = kept_files(str(folder), 2)
    assert files is not None
    return KeptRecordsSource(files, Types.LONG()), list(range(40))


_CASES: dict[str, Callable[[Path], _Case]] = {
    "numbers": lambda _: (NumberSequenceSource(-5, 94), list(range(-5, 95))),
    "one number": lambda _: (NumberSequenceSource(3, 3), [3]),
    "collection": lambda _: (CollectionSource([{"n": i} for i in range(50)]), [{"n": i} for i in range(50)]),
    "empty collection": lambda _: (CollectionSource([]), []),
    "large collection": lambda folder: (
        CollectionSource(str(i) * 20_000 for i in range(80)).shipped(lambda: folder)[0],
        [str(i) * 20_000 for i in range(80)],
    ),
    "generated rows": lambda _: (DataGeneratorSource(_double, 101), [i * 2 for i in range(101)]),
    "generated columns": lambda _: (
        ColumnDataGeneratorSource(_columns, 101, rows_per_batch=8),
        [Row(i=i) for i in range(101)],
    ),
    "text": _text,
    "gzip text": _gzip,
    "utf-16 text": _utf16,
    "json lines": _json,
    "csv": _csv,
    "csv in small blocks": _small_blocks,
    "parquet": _parquet,
    "one after another": _hybrid,
    "avro": _avro,
    "avro in parquet": _avro_parquet,
    "parquet of a row type": _columnar,
    "csv of a schema": _csv_rows,
    "what another job has kept": _kept,
    "fetched in a thread": lambda _: (source := LogSource((40, 1, 90)), source.expected()),
}


@pytest.fixture(scope="module", params=_CASES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Case:
    return _CASES[request.param](tmp_path_factory.mktemp("source"))


def _counted(rows: list[Any]) -> Counter[str]:
    return Counter(map(repr, rows))


_steps = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 40)), max_size=60)


def test_it_is_bounded(case: _Case) -> None:
    assert case[0].get_boundedness() is Boundedness.BOUNDED


def test_one_reader_reads_in_order(case: _Case) -> None:
    source, expected = case
    assert read_all(source) == expected


Steps = list[tuple[int, int]]


@settings(max_examples=cases(40))
@given(parallelism=st.sampled_from([1, 2, 3]), steps=_steps, max_rows=st.integers(1, 50))
def test_every_record_comes_exactly_once(case: _Case, parallelism: int, steps: Steps, max_rows: int) -> None:
    source, expected = case
    with SourceHarness(source, parallelism) as harness:
        harness.steps(steps)
        assert _counted(harness.run_to_end(max_rows)) == _counted(expected)


@settings(max_examples=cases(40))
@given(
    parallelism=st.sampled_from([1, 2, 3]),
    phases=st.lists(st.tuples(_steps, st.integers(0, 2)), min_size=1, max_size=3),
)
def test_the_splits_of_a_failed_reader_are_read_again(
    case: _Case, parallelism: int, phases: list[tuple[Steps, int]]
) -> None:
    source, expected = case
    with SourceHarness(source, parallelism) as harness:
        for steps, failing in phases:
            harness.steps(steps)
            if harness.requests or not all(harness.ended):
                harness.fail(failing % parallelism)
        harness.run_to_end()
        assert _counted([row for rows in harness.by_subtask for row in rows]) == _counted(expected)


@settings(max_examples=cases(40))
@given(
    parallelism=st.sampled_from([1, 2, 3]),
    phases=st.lists(st.tuples(_steps, _steps, st.sampled_from([1, 2, 3])), min_size=1, max_size=3),
)
def test_a_restore_loses_and_repeats_nothing(
    case: _Case, parallelism: int, phases: list[tuple[Steps, Steps, int]]
) -> None:
    source, expected = case
    snapshot = None
    for before, after, next_parallelism in phases:
        with SourceHarness(source, parallelism, snapshot) as harness:
            harness.steps(before)
            snapshot = harness.snapshot()
            harness.steps(after)
        parallelism = next_parallelism
    with SourceHarness(source, parallelism, snapshot) as harness:
        assert _counted(harness.run_to_end()) == _counted(expected)


@settings(max_examples=cases(40))
@given(
    before=_steps,
    phases=st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=3), _steps), min_size=1, max_size=4),
)
def test_splits_that_are_paused_are_not_read_and_resume_where_they_were(
    case: _Case, before: Steps, phases: list[tuple[list[int], Steps]]
) -> None:
    """One reader has the splits of three, as after a restore; only those of which something was read are ever ahead."""
    source, expected = case
    with SourceHarness(source, 3) as harness:
        harness.steps(before)
        snapshot = harness.snapshot()
    with SourceHarness(source, 1, snapshot) as harness:
        (reader,) = harness.readers
        seen: list[str] = []
        paused: set[str] = set()
        for choices, steps in phases:
            chosen = {seen[choice % len(seen)] for choice in choices if seen}
            reader.pause_or_resume_splits(sorted(chosen - paused), sorted(paused - chosen))
            paused = chosen
            for choice, rows in steps:
                emitted = len(harness.emitted)
                harness.step(choice, rows)
                split = reader.current_split_id()
                if len(harness.emitted) > emitted and split is not None:
                    assert split not in paused
                    seen.append(split)
        reader.pause_or_resume_splits([], sorted(paused))
        assert _counted(harness.run_to_end()) == _counted(expected)
