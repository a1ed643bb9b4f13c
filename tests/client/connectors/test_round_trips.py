"""What the file sinks write, the file sources read; what a sink cannot write is an error."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sink_harness import write_all
from source_harness import read_all

from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import ColumnBatch, RowBatch
from millstream.core.records.conversion import ConversionError
from millstream.core.row import Row
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import FileSink, FileSource


def read(source: FileSource) -> list[Any]:
    """All records, as the declared type."""
    return read_all(source, kind=source.get_produced_type())


@dataclass
class Cells:
    text: str | None
    number: int | None
    fraction: float | None
    yes: bool | None
    day: datetime.date | None
    when: datetime.datetime | None


_ODD = ["", " ", '"', '""', ",", "\n", "\r", "a\r\nb", "\\N", "null", "NaN", "\ufeffx", "\x00", "é"]
_TEXTS = st.text().filter(lambda text: _encodes(text)) | st.sampled_from(_ODD)
_TIMES = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2200, 1, 1))
_CELLS = st.builds(
    Cells,
    st.none() | _TEXTS,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.floats(),
    st.none() | st.booleans(),
    st.none() | st.dates(),
    st.none() | _TIMES.map(lambda when: when.replace(fold=0)),
)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.lists(_CELLS, min_size=1, max_size=8), st.sampled_from(["", "\\N", "null"]), st.booleans())
def test_csv_of_a_type(tmp_path_factory: pytest.TempPathFactory, rows: list[Cells], literal: str, header: bool) -> None:
    folder = tmp_path_factory.mktemp("csv")
    sink = FileSink.for_csv(folder, Cells, header=header, null_literal=literal)
    write_all(sink, RowBatch(rows[:3]), RowBatch(rows[3:]))
    source = FileSource.for_csv(folder, types=Cells, header=header, null_values=[literal])
    assert repr(read(source)) == repr(rows)


def test_none_and_empty_text_stay_apart_without_a_type(tmp_path: Path) -> None:
    rows = [{"a": None, "b": "", "c": math.nan}, {"a": "x", "b": None, "c": None}]
    write_all(FileSink.for_csv(tmp_path), RowBatch(rows))
    assert repr(read(FileSource.for_csv(tmp_path))) == repr([Row(**row) for row in rows])


@dataclass
class One:
    a: str | None


def test_one_column(tmp_path: Path) -> None:
    one = One
    rows = [one(""), one("x"), one(" ")]
    write_all(FileSink.for_csv(tmp_path / "text", one), RowBatch(rows))
    assert read(FileSource.for_csv(tmp_path / "text", types=one)) == rows
    with pytest.raises(ConnectorError, match=r"None in the only column, 'a', would be an empty line.*null_literal"):
        write_all(FileSink.for_csv(tmp_path / "none", one), RowBatch([one(None)]))
    write_all(FileSink.for_csv(tmp_path / "literal", one, null_literal="-"), RowBatch([one(None), one("-")]))
    assert read(FileSource.for_csv(tmp_path / "literal", types=one, null_values=["-"])) == [one(None), one("-")]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"a": b"\xff", "b": 1}, {}, "column 'a' holds bytes that are no UTF-8 text"),
        ({"a": [1], "b": 1}, {}, "column 'a' holds list"),
        ({"a": {"x": 1}, "b": 1}, {}, "column 'a' holds struct"),
        ({"a": 0, "b": 1}, {"null_literal": "0"}, "0 in the column 'a' would be read as None"),
        ({"a": math.nan, "b": 1}, {"null_literal": "nan"}, "nan in the column 'a' would be read as None"),
    ],
)
def test_what_csv_does_not_have_is_named(tmp_path: Path, row: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConnectorError, match=message):
        write_all(FileSink.for_csv(tmp_path, **options), RowBatch([row]))


@pytest.mark.parametrize(
    "options", [{"delimiter": '"'}, {"delimiter": "\n"}, {"null_literal": "a,b"}, {"delimiter": "é"}]
)
def test_bad_options_of_csv(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidProgramError):
        FileSink.for_csv(tmp_path, **options)


@dataclass
class Values:
    text: str | None
    whole: int
    fraction: float | None
    raw: bytes
    exact: Decimal
    when: datetime.datetime
    by_number: dict[int, list[float]]


_FINITE = st.floats(allow_nan=False, allow_infinity=False)
_VALUES = st.builds(
    Values,
    st.none() | st.text().filter(_encodes),
    st.integers() | st.sampled_from([2**53 + 1, 2**63, 2**64, -(2**70)]),
    st.none() | _FINITE,
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.datetimes().map(lambda when: when.replace(fold=0)),
    st.dictionaries(st.integers(), st.lists(_FINITE, max_size=2), max_size=2),
)


@given(rows=st.lists(_VALUES, min_size=1, max_size=5))
def test_json_of_a_type(tmp_path_factory: pytest.TempPathFactory, rows: list[Values]) -> None:
    folder = tmp_path_factory.mktemp("json")
    write_all(FileSink.for_json_lines(folder), RowBatch(rows))
    assert repr(read(FileSource.for_json_lines(folder, type_info=Values))) == repr(rows)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | _FINITE | st.text().filter(_encodes),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3).filter(_encodes), inner, max_size=3)
    ),
)


@given(rows=st.lists(_PLAIN, min_size=1, max_size=5))
def test_json_of_plain_values(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("json")
    write_all(FileSink.for_json_lines(folder), RowBatch(rows))
    assert repr(read(FileSource.for_json_lines(folder))) == repr(rows)


class Kind(Enum):
    A = "a"


@dataclass
class Nested:
    kind: Kind
    inner: Any


def _everywhere(value: Any) -> list[Callable[[], Any]]:
    return [
        lambda: value,
        lambda: {"a": {"b": [1.5, value]}},
        lambda: (None, value),
        lambda: Row(a=None, b=Row(value)),
        lambda: Nested(Kind.A, Nested(Kind.A, [value])),
        lambda: {"a": np.array([1.0, value])},
        lambda: np.float32(value),
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(7))
def test_what_is_no_number_of_json_is_named(tmp_path: Path, value: float, place: int) -> None:
    row = _everywhere(value)[place]()
    good = {"banana": "finance null", "none": None, "numbers": [1e308, 5e-324, 0.1]}
    with pytest.raises(ConnectorError, match=rf"is {value}, which JSON does not have; non_finite='null'"):
        write_all(FileSink.for_json_lines(tmp_path / "fails"), RowBatch([good, row, good]))
    write_all(FileSink.for_json_lines(tmp_path / "null", non_finite="null"), RowBatch([good, row]))
    assert "null" in repr(read(FileSource.for_json_lines(tmp_path / "null"))[1]).replace("None", "null")


def test_columns_with_what_is_no_number_are_refused_too(tmp_path: Path) -> None:
    batch = ColumnBatch(pa.record_batch({"a": [1.0, math.nan], "b": [None, 1]}))
    with pytest.raises(ConnectorError, match="a is nan"):
        write_all(FileSink.for_json_lines(tmp_path), batch)
    with pytest.raises(InvalidProgramError, match="non_finite must be 'fail' or 'null'"):
        FileSink.for_json_lines(tmp_path, non_finite="string")


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        ({1: "a", "1": "b"}, "1 and '1'"),
        ({"deep": [{"x": {2.5: 0, "2.5": 1}}]}, "2.5 and '2.5'"),
        (Row(a={-1: 0, "-1": 1}), "-1 and '-1'"),
        (Nested(Kind.A, {datetime.date(2024, 1, 2): 0, "2024-01-02": 1}), r".* and '2024-01-02'"),
    ],
)
def test_keys_that_are_one_in_json_are_refused(tmp_path: Path, row: Any, keys: str) -> None:
    with pytest.raises(ConnectorError, match=f"the keys {keys} would be the same in JSON"):
        write_all(FileSink.for_json_lines(tmp_path), RowBatch([{"1": 0, "2": 1}, {1: 0, 2: 1}, row]))


def test_half_of_a_surrogate_pair_is_named(tmp_path: Path) -> None:
    for make in (FileSink.for_json_lines, FileSink.for_csv):
        with pytest.raises(Exception, match="surrogates not allowed"):
            write_all(make(tmp_path), RowBatch([{"a": "\ud800", "b": 1}]))


@dataclass
class Place:
    x: float
    y: int | None = None


@dataclass
class Visit:
    at: Place | None
    all: list[Place | None]
    pair: tuple[int, Place | None] | None


VISITS = [
    Visit(Place(0.5), [None, Place(1.5, 2)], (1, None)),
    Visit(None, [], None),
    Visit(Place(2.0), [], (2, Place(0.25))),
]


def test_optional_values_are_of_their_type(tmp_path: Path) -> None:
    write_all(FileSink.for_json_lines(tmp_path / "json"), RowBatch(VISITS))
    write_all(FileSink.for_parquet(tmp_path / "parquet", Visit), RowBatch(VISITS))
    assert read(FileSource.for_json_lines(tmp_path / "json", type_info=Visit)) == VISITS
    assert read(FileSource.for_parquet(tmp_path / "parquet", type_info=Visit)) == VISITS
    for bad in (Place(1.5, True), Place("1")):  # type: ignore[arg-type]  # that is the point
        with pytest.raises(ConversionError, match=r"'at\.[xy]'"):
            write_all(FileSink.for_parquet(tmp_path / "bad", Visit), RowBatch([Visit(bad, [], None)]))


def test_optional_records_of_json(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('{"x": 1.5}\nnull\n')
    assert read(FileSource.for_json_lines(tmp_path / "a", type_info=Place | None)) == [Place(1.5), None]
    (tmp_path / "b").write_text('[{"x": 1.5}, null]\n')
    assert read(FileSource.for_json_lines(tmp_path / "b", type_info=list[Place | None])) == [[Place(1.5), None]]
    with pytest.raises(ConnectorError, match="not valid JSON"):
        read(FileSource.for_json_lines(tmp_path / "a", type_info=Place))


@dataclass
class Line:
    item: str
    count: int
    note: str | None


def test_a_field_that_is_not_optional_is_never_none(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('item,count,note\nrye,2,\n,3,""\noats,,a\nspelt,x,\n,4,b\n')
    kept = [Line("rye", 2, None), Line("", 3, ""), Line("", 4, "b")]
    assert read(FileSource.for_csv(tmp_path, types=Line, on_error="skip")) == kept
    given = FileSource.for_csv(tmp_path, types=Line, null_values=[""], on_error="skip")
    assert read(given) == kept[:1]
    with pytest.raises(ConnectorError, match=r"line 4: .*column 'count': no value"):
        read(FileSource.for_csv(tmp_path, types=Line))


def test_a_column_that_comes_twice_is_refused_if_it_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,count,note,item\nrye,2,,oats\n")
    with pytest.raises(ConnectorError, match=r"a\.csv: its header has item more than once"):
        read(FileSource.for_csv(tmp_path, types=Line))
    assert [row.count for row in read(FileSource.for_csv(tmp_path, columns=["count"]))] == [2]
    with pytest.raises(InvalidProgramError, match="got b more than once"):
        FileSource.for_csv(tmp_path, columns=["b", "b"])


@pytest.mark.parametrize("header", ["b,a,c\n", ""])
def test_columns_of_other_names_are_the_fields_in_their_order(tmp_path: Path, header: str) -> None:
    (tmp_path / "a.csv").write_text(f"{header}2,rye,\n")
    columns = ["a", "b", "c"] if header else ["b", "a", "c"]
    expected = Line("rye", 2, None) if header else Counted(2, "rye", None)
    source = FileSource.for_csv(tmp_path, columns=columns, types=type(expected), header=bool(header))
    assert read(source) == [expected]


@dataclass
class Counted:
    count: int
    item: str
    note: str | None
