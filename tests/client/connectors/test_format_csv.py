"""CSV by a schema: what is written is read as it was, and what is no record is named with its file and line."""

from __future__ import annotations

import datetime
import io
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_harness import SourceHarness, read_all
from thoroughness import cases

from millstream.common import InvalidProgramError, Row, Types
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import FileSource
from millstream.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
)

_KINDS = {
    "text": Types.STRING(), "small": Types.BYTE(), "whole": Types.LONG(), "real": Types.DOUBLE(),
    "exact": Types.BIG_DEC(), "flag": Types.BOOLEAN(), "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "day": Types.SQL_DATE(), "at": Types.SQL_TIMESTAMP(), "numbers": Types.LIST(Types.INT()),
    "pair": Types.ROW([Types.STRING(), Types.LONG()]),
}  # fmt: skip
_TYPE = Types.ROW_NAMED(list(_KINDS), list(_KINDS.values()))
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_rows = st.builds(
    Row,
    text=st.none() | _text,
    small=st.none() | st.integers(-128, 127),
    whole=st.none() | st.integers(-(2**63), 2**63 - 1),
    real=st.none() | st.floats(allow_nan=False),
    exact=st.none() | st.decimals(allow_nan=False, allow_infinity=False),
    flag=st.none() | st.booleans(),
    raw=st.none() | st.binary(max_size=5),
    day=st.none() | st.dates(),
    at=st.none() | st.datetimes(),
    numbers=st.none() | st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    pair=st.none() | st.builds(Row, f0=_text.filter(lambda text: ";" not in text), f1=st.integers(0, 9)),
)
_dialects = st.sampled_from(
    [(",", '"', None, ""), ("|", "'", "\\", "NULL"), ("\t", '"', "!", "1"), ("-", "`", None, "0"), (":", '"', ".", "")]
)


@settings(max_examples=cases(150))
@given(row=_rows, dialect=_dialects)
def test_a_message_is_read_as_it_was_written(row: Row, dialect: tuple[str, str, str | None, str]) -> None:
    delimiter, quote, escape, null = dialect
    schemas: list[Any] = []
    for builder in (CsvRowSerializationSchema.Builder(_TYPE), CsvRowDeserializationSchema.Builder(_TYPE)):
        builder.set_field_delimiter(delimiter).set_quote_character(quote).set_null_literal(null)
        schemas.append((builder if escape is None else builder.set_escape_character(escape)).build())
    writer, reader = pickle.loads(pickle.dumps(schemas))
    assert reader.deserialize(writer.serialize(row)) == row


@settings(max_examples=cases(60))
@given(rows=st.lists(st.tuples(_text, st.none() | st.integers(0, 9)), max_size=20), dialect=_dialects)
def test_a_file_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, int | None]],
    dialect: tuple[str, str, str | None, str],
) -> None:
    delimiter, quote, escape, null = dialect
    builder = CsvSchema.builder().add_string_column("s").add_number_column("n")
    builder.set_column_separator(delimiter).set_quote_char(quote).set_null_value(null).set_use_header()
    schema = (builder if escape is None else builder.set_escape_char(escape)).set_strict_headers().build()
    path = tmp_path_factory.getbasetemp() / "round.csv"
    path.write_bytes(_csv(schema, rows))
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), path)
    assert read_all(source) == [Row(s=s, n=n) for s, n in rows]


def _csv(schema: CsvSchema, rows: list[Any]) -> bytes:
    stream = io.BytesIO()
    writer = CsvBulkWriters.for_schema(schema).create(stream)
    for row in rows:
        writer.add_element(row)
    writer.finish()
    return stream.getvalue()


def _read(tmp_path: Path, builder: CsvSchemaBuilder, text: str, **more: Any) -> list[Any]:
    (tmp_path / "a.csv").write_text(text)
    return read_all(FileSource.for_record_stream_format(CsvReaderFormat.for_schema(builder.build()), tmp_path, **more))


def _two() -> CsvSchemaBuilder:
    return CsvSchema.builder().add_string_column("s").add_number_column("n", Types.BYTE())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("a", "expected 2 values, got 1"),
        ("a,1,2", "expected 2 values, got 3"),
        ("a,b", "column 'n': 'b' is no Byte"),
        ("a,128", "column 'n': '128' is no Byte"),
        ('"a"b,1', "a quote that does not end, or continues behind its end, in value 1"),
    ],
)
def test_what_is_no_record_is_named_with_its_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    text = f'first,1\n"two\nlines",2\n{line}\nlast,4\n'
    with pytest.raises(ConnectorError) as raised:
        _read(tmp_path, _two(), text)
    assert str(raised.value).startswith(f"file source: {tmp_path}/a.csv, line 4: not valid CSV: {reason}; at byte 22")
    assert [row.s for row in _read(tmp_path, _two(), text, on_error="skip")] == ["first", "two\nlines", "last"]


def test_a_restored_reader_does_not_count_what_is_no_record_again(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\nb\nc,3\nd\ne,5\n")
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(_two().build()), tmp_path, on_error="skip")
    harness = SourceHarness(source, 1)
    for choice in range(8):
        harness.step(choice, 1)
    snapshot = harness.snapshot()
    harness.close()
    again = SourceHarness(source, 1, snapshot)
    assert [row.s for row in again.run_to_end()] == ["a", "c", "e"]
    assert again.count("numRecordsInErrors") == 2
    again.close()


def test_a_header_is_passed_over_unless_it_is_checked(tmp_path: Path) -> None:
    assert _read(tmp_path, _two().set_use_header(), "x,y\na,1\n") == [Row(s="a", n=1)]
    with pytest.raises(ConnectorError, match=r"a\.csv: its header is x, y, not s, n"):
        _read(tmp_path, _two().set_use_header().set_strict_headers(), "x,y\na,1\n")


def test_a_column_of_lists_without_a_separator_holds_one_element(tmp_path: Path) -> None:
    builder = CsvSchema.builder().add_array_column("a", ";").add_array_column("b", "/")
    builder.remove_array_element_separator(0).disable_array_element_separator()
    assert _read(tmp_path, builder, "1;2,3/4\n") == [Row(a=["1;2"], b=["3", "4"])]


def test_columns_come_from_another_schema_and_go() -> None:
    builder = CsvSchema.builder().add_columns_from(_two().build()).add_boolean_column("b")
    assert (builder.size(), len(builder.build()), builder.build().size()) == (3, 3, 3)
    assert builder.build().get_type_info() == Types.ROW_NAMED(
        ["s", "n", "b"], [Types.STRING(), Types.BYTE(), Types.BOOLEAN()]
    )
    assert builder.clear_columns().size() == 0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b: b.set_column_separator(",,"), "one ASCII character"),
        (lambda b: b.set_quote_char(","), "one character for two things"),
        (lambda b: b.set_line_separator("x"), "a CSV line ends with"),
        (lambda b: b.add_number_column("x", Types.STRING()), "no type of numbers"),
        (lambda b: b.add_array_column("x", element_type=Types.LIST(Types.INT())), "expected a plain type"),
        (lambda b: b.add_string_column("s").build(), "different names"),
        (lambda b: b.set_any_property_name("x"), "no place for values"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(build: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        build(_two())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("a", 1.5), "column 'n': 1.5 is no Byte"),
        (("a", True), "column 'n': True is no Byte"),
        ((3, 1), "column 's': 3 is no String"),
        (("a", 300), "300 is no Byte"),
        (("a",), "1 fields, expected 2"),
        ({"s": "a", "x": 1}, "further fields, x"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_with_the_record(row: Any, message: str) -> None:
    with pytest.raises(ConnectorError, match=message) as raised:
        _csv(_two().build(), [row])
    assert repr(row) in str(raised.value)


def test_without_quotes_text_that_needs_them_is_refused() -> None:
    schema = CsvSchema.builder().add_string_column("s").add_string_column("t").disable_quote_char().build()
    assert _csv(schema, [("a b", "c")]) == b"a b,c\n"
    for text in ("a,b", "a\nb", ""):
        with pytest.raises(ConnectorError, match="there are no quotes"):
            _csv(schema, [(text, "c")])


def test_lists_that_would_be_read_as_others_are_refused() -> None:
    schema = CsvSchema.builder().add_array_column("a").add_number_column("n").build()
    for values in (["a;b"], [""]):
        with pytest.raises(ConnectorError, match=r"column 'a'"):
            _csv(schema, [(values, 1)])
    assert _csv(schema, [([], 1), (None, 2)]) == b'"",1\n,2\n'


def test_types_that_csv_does_not_have_are_refused() -> None:
    for kind in (Types.MAP(Types.STRING(), Types.INT()), Types.LIST(Types.LIST(Types.INT()))):
        with pytest.raises(InvalidProgramError, match="CSV has no"):
            CsvRowSerializationSchema.Builder(Types.ROW([kind])).build()


def test_a_day_is_no_moment() -> None:
    schema = CsvRowSerializationSchema.Builder(Types.ROW([Types.SQL_DATE(), Types.INT()])).build()
    assert schema.serialize(Row(datetime.date(2020, 1, 2), 3)) == b"2020-01-02,3\n"
    with pytest.raises(ValueError, match="is no Date"):
        schema.serialize(Row(datetime.datetime(2020, 1, 2), 3))


def test_messages_that_cannot_be_read_are_errors_or_none() -> None:
    builder = CsvRowDeserializationSchema.Builder(Types.ROW([Types.INT(), Types.BIG_DEC()]))
    assert builder.build().deserialize(b"1,2.50\r\n") == Row(f0=1, f1=Decimal("2.50"))
    with pytest.raises(ValueError, match="column 'f0': 'x' is no Integer"):
        builder.build().deserialize(b"x,1")
    lenient = builder.set_ignore_parse_errors(True).set_allow_comments(True).build()
    assert lenient.deserialize(b"x,1") is None
    assert lenient.deserialize(b"# 1,1") is None


def test_a_message_is_a_row() -> None:
    with pytest.raises(InvalidProgramError, match="a CSV message is a row"):
        CsvRowSerializationSchema.Builder(Types.STRING())
    with pytest.raises(TypeError, match="must not be None"):
        CsvRowDeserializationSchema.Builder(None)
