"""Paths, options, types and errors of the file source."""

from __future__ import annotations

import datetime
import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from source_harness import SourceHarness, read_all

from millstream.core.errors import InvalidProgramError, MillstreamError
from millstream.core.records.batches import ColumnBatch
from millstream.core.records.types import LONG, PICKLED, STRING, DataclassType, ListType, MapType, RowType, TupleType
from millstream.core.row import Row
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import FileSource, StreamFormat


@dataclass
class Point:
    x: int
    when: datetime.date


def _text(*paths: Any) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(charset="UTF-8"), *paths).build()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.txt", "a.txt", "sub/c.txt", "sub/.h/d.txt", "sub/_tmp/e.txt", ".f.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(f"{path.stem}\n")
    return tmp_path


def test_directories_are_read_recursively_without_hidden_files(folder: Path) -> None:
    assert read_all(_text(folder)) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("*.txt", ["a", "b"]), ("**/*.txt", ["a", "b", "c", "e"]), ("[a]*", ["a"]), ("s?b", ["c"])],
)
def test_patterns(folder: Path, pattern: str, expected: list[str]) -> None:
    assert sorted(read_all(_text(str(folder / pattern)))) == expected


def test_paths_keep_their_order_and_a_file_is_read_once(folder: Path) -> None:
    assert read_all(_text(folder / "b.txt", f"file://{folder}/a.txt", folder)) == ["b", "a", "c"]


def test_a_relative_path_is_resolved_where_the_program_runs(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    source = _text("a.txt")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert read_all(source) == ["a"]


def test_a_name_with_pattern_characters_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a[1].txt").write_text("x\n")
    assert read_all(_text(tmp_path / "a[1].txt")) == ["x"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("nope.txt", r"nope\.txt does not exist"), ("*.nope", r"no file matches .*\*\.nope")],
)
def test_a_path_that_finds_nothing_is_named(folder: Path, name: str, message: str) -> None:
    with pytest.raises(ConnectorError, match=message):
        read_all(_text(folder / name))


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileSource.for_csv(),
        lambda: _text("s3://bucket/key"),
        lambda: _text(""),
        lambda: _text("a").with_block_size(0),
        lambda: StreamFormat.text_line_format("no-such-charset"),
        lambda: FileSource.for_csv("a", delimiter=";;"),
        lambda: FileSource.for_csv("a", types=int),
        lambda: FileSource.for_csv("a", types=tuple[int, str]),
        lambda: FileSource.for_csv("a", types=Point, columns=["x"]),
    ],
)
def test_bad_options_are_refused_at_once(make: Any) -> None:
    with pytest.raises(InvalidProgramError):
        make()


def test_text_in_another_charset(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("é\r\nü".encode("latin-1"))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format("ISO-8859-1"), tmp_path)
    assert read_all(source) == ["é", "ü"]
    assert source.get_produced_type() == STRING


@pytest.mark.parametrize(
    ("type_info", "line", "expected"),
    [
        (PICKLED, '{"x": [1, null]}', {"x": [1, None]}),
        (Point, '{"x": 1, "when": "2024-02-29", "extra": 0}', Point(1, datetime.date(2024, 2, 29))),
        (TupleType((LONG, STRING)), '[1, "a"]', (1, "a")),
        (RowType((LONG, STRING), ("a", "b")), '{"b": "x", "c": 1}', Row(a=None, b="x")),
        (
            RowType((RowType((LONG,), ("n",)), ListType(RowType((LONG,), ("n",)))), ("one", "many")),
            '{"one": {"n": 1}, "many": [{"n": 2}, null]}',
            Row(one=Row(n=1), many=[Row(n=2), None]),
        ),
        (MapType(STRING, RowType((LONG,), ("n",))), '{"k": {"n": 1}}', {"k": Row(n=1)}),
        (dict[str, int], '{"k": 1}', {"k": 1}),
        (int, "3", 3),
    ],
)
def test_json_lines_become_the_declared_type(tmp_path: Path, type_info: Any, line: str, expected: Any) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\n")
    assert read_all(FileSource.for_json_lines(tmp_path, type_info=type_info)) == [expected]


@pytest.mark.parametrize(
    ("type_info", "bad", "message"),
    [
        (PICKLED, "{x", r"not valid JSON: "),
        (Point, '{"x": "no", "when": "2024-01-01"}', r"not valid JSON of Point\(.*Expected `int.*`, got `str`"),
        (PICKLED, "1 2", r"not valid JSON"),
    ],
)
def test_bad_json_names_file_and_line(tmp_path: Path, type_info: Any, bad: str, message: str) -> None:
    good = '{"x": 1, "when": "2024-01-01"}\n'
    (tmp_path / "a.jsonl").write_text(good * 3 + "\n" + bad + "\n" + good)
    with pytest.raises(ConnectorError, match=r"a\.jsonl, line 5: " + message):
        read_all(FileSource.for_json_lines(tmp_path, type_info=type_info).with_block_size(10))


_CSV = "i;s\n1;x\n2;NA\n"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (_CSV, {"delimiter": ";"}, [Row(i=1, s="x"), Row(i=2, s="NA")]),
        (_CSV, {"delimiter": ";", "null_values": ["NA"]}, [Row(i=1, s="x"), Row(i=2, s=None)]),
        (_CSV, {"delimiter": ";", "columns": ["s"]}, [Row(s="x"), Row(s="NA")]),
        (_CSV, {"delimiter": ";", "types": {"i": str}}, [Row(i="1", s="x"), Row(i="2", s="NA")]),
        ("1,a\n", {"header": False}, [Row(f0=1, f1="a")]),
        ("1,a", {"header": False}, [Row(f0=1, f1="a")]),
        ("a,b", {}, []),
        ("1,a\n", {"header": False, "columns": ["p", "q"]}, [Row(p=1, q="a")]),
        ("1,a\n", {"header": False, "types": tuple[float, str]}, [Row(f0=1.0, f1="a")]),
        ("b,a\n1,2\n", {"columns": ["a", "b"], "types": tuple[str, int]}, [Row(a="2", b=1)]),
        ('a\n"x\n', {"quote": None}, [Row(a='"x')]),
        ("a,b\n", {}, []),
        ("", {}, []),
    ],
)
def test_csv_options(tmp_path: Path, text: str, options: dict[str, Any], expected: list[Row]) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert read_all(FileSource.for_csv(tmp_path, **options)) == expected


def test_csv_of_a_dataclass_and_compressed(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write("when,other,x\n2024-02-29,?,1\n")
    source = FileSource.for_csv(tmp_path, types=Point)
    assert source.get_produced_type() == DataclassType(Point)
    assert read_all(source) == [Row(x=1, when=datetime.date(2024, 2, 29))]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("i\n1\nx\n", {"types": {"i": int}}, r"a\.csv, line 3: not valid CSV: column 'i': .*'x'; at byte 4: b'x'"),
        ("i,j\n1,2\n1\n", {}, r"a\.csv, line 3: not valid CSV: .*Expected 2 columns, got 1"),
        ("i\n1\n", {"columns": ["nope"]}, r"a\.csv: .*nope"),
    ],
)
def test_bad_csv_names_file_and_row(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ConnectorError, match=message):
        read_all(FileSource.for_csv(tmp_path, **options))


def test_a_long_csv_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("i,s\n" + "".join(f"{i},{'x' * 100}\n" for i in range(30_000)))
    rows = read_all(FileSource.for_csv(path), max_rows=4096)
    assert [row.i for row in rows] == list(range(30_000))


def test_parquet_columns_and_batches(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"], "c": [None]}), tmp_path / "a.parquet")
    assert read_all(FileSource.for_parquet(tmp_path, columns=["b", "a"])) == [Row(b="x", a=1)]
    with pytest.raises(ConnectorError, match=r"a\.parquet: no column z; it has a, b, c"):
        read_all(FileSource.for_parquet(tmp_path, columns=["z"]))


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"not parquet at all")
    with pytest.raises(MillstreamError, match=r"a\.parquet: .*[Pp]arquet"):
        read_all(FileSource.for_parquet(tmp_path))


def test_column_formats_produce_column_batches(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    with SourceHarness(FileSource.for_parquet(tmp_path), 1) as harness:
        harness._work()
        harness.enumerator.handle_split_request(harness.requests.popleft(), "")
        harness._deliver(0)
        assert isinstance(harness.readers[0].poll_next(2), ColumnBatch)
        (split,) = harness.readers[0].snapshot_state(1)
        assert split.position == 2
