"""Avro in files and as messages; in Parquet's columns as well."""

from __future__ import annotations

import datetime
import io
import json
import pickle
import subprocess
import sys
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_harness import read_all
from thoroughness import cases
from waiting import DEADLINE

from millstream.common import InvalidProgramError, Row, Types
from millstream.common.serialization import BulkWriterFactory
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import FileSource, StreamFormat
from millstream.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from millstream.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters

_INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "i", "type": "int"}, {"name": "d", "type": "double"}],
}
_FIELDS: dict[str, Any] = {
    "nothing": "null",
    "flag": "boolean",
    "whole": "long",
    "real": "double",
    "text": ["null", "string"],
    "raw": "bytes",
    "four": {"type": "fixed", "name": "Four", "size": 4},
    "suit": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]},
    "inner": ["null", _INNER],
    "inners": {"type": "array", "items": "Inner"},
    "by_name": {"type": "map", "values": "Inner"},
    "union": ["int", "null", "string", {"type": "array", "items": "long"}, "Inner"],
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-millis"},
    "clock": {"type": "long", "logicalType": "time-micros"},
    "exact": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    "id": {"type": "string", "logicalType": "uuid"},
}
_SCHEMA = AvroSchema.parse_string(
    json.dumps(
        {
            "type": "record",
            "name": "Everything",
            "namespace": "of.avro",
            "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()],
        }
    )
)
_inner = st.fixed_dictionaries({"i": st.integers(-(2**31), 2**31 - 1), "d": st.floats(allow_nan=False)})
_times = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_records = st.fixed_dictionaries(
    {
        "nothing": st.none(),
        "flag": st.booleans(),
        "whole": st.integers(-(2**63), 2**63 - 1),
        "real": st.floats(allow_nan=False),
        "text": st.none() | _text,
        "raw": st.binary(max_size=5),
        "four": st.binary(min_size=4, max_size=4),
        "suit": st.sampled_from(["HEARTS", "SPADES"]),
        "inner": st.none() | _inner,
        "inners": st.lists(_inner, max_size=3),
        "by_name": st.dictionaries(_text, _inner, max_size=2),
        "union": st.none() | st.integers(0, 9) | _text | st.lists(st.integers(0, 9), max_size=2) | _inner,
        "day": st.dates(datetime.date(1900, 1, 1)),
        "at": _times.map(lambda at: at.replace(tzinfo=datetime.UTC)),
        "local": _times.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
        "clock": st.times(),
        "exact": st.decimals(-99999999, 99999999, places=2),
        "id": st.uuids(),
    }
)


def _file(factory: BulkWriterFactory, records: list[Any]) -> bytes:
    stream = io.BytesIO()
    writer = pickle.loads(pickle.dumps(factory)).create(stream)
    for record in records:
        writer.add_element(record)
    writer.finish()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("factory", "format_"),
    [
        (AvroBulkWriters.for_generic_record(_SCHEMA, "xz"), AvroInputFormat("unused", _SCHEMA)),
        (AvroParquetWriters.for_generic_record(_SCHEMA), AvroParquetReaders.for_generic_record(_SCHEMA)),
    ],
)
@settings(max_examples=cases(60))
@given(records=st.lists(_records, min_size=1, max_size=4))
def test_records_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    factory: BulkWriterFactory,
    format_: StreamFormat,
    records: list[dict[str, Any]],
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.file"
    path.write_bytes(_file(factory, records))
    assert read_all(FileSource.for_record_stream_format(format_, path)) == records


@settings(max_examples=cases(60))
@given(record=_records)
def test_messages_are_rows_that_make_the_same_messages(record: dict[str, Any]) -> None:
    schemas = (AvroRowSerializationSchema(None, str(_SCHEMA)), AvroRowDeserializationSchema(None, str(_SCHEMA)))
    writer, reader = pickle.loads(pickle.dumps(schemas))
    message = writer.serialize(record)
    row = reader.deserialize(message)
    assert list(row.get_fields_names()) == list(_FIELDS)
    assert all(inner.__class__ is Row for inner in row.inners)
    assert writer.serialize(row) == message
    if not isinstance(record["union"], dict):
        assert row.as_dict(True) | {"inners": record["inners"], "by_name": record["by_name"]} == record


def test_the_type_of_rows_follows_from_the_schema() -> None:
    kind = AvroRowDeserializationSchema(avro_schema_string=str(_SCHEMA)).get_produced_type()
    inner = Types.ROW_NAMED(["i", "d"], [Types.INT(), Types.DOUBLE()])
    found = dict(zip(kind.get_field_names(), kind.get_field_types(), strict=True))  # type: ignore[attr-defined]
    assert found["inner"] == inner
    assert found["inners"] == Types.LIST(inner)
    assert found["by_name"] == Types.MAP(Types.STRING(), inner)
    assert (found["whole"], found["text"], found["suit"]) == (Types.LONG(), Types.STRING(), Types.STRING())
    assert (found["day"], found["at"], found["exact"]) == (Types.SQL_DATE(), Types.INSTANT(), Types.BIG_DEC())
    assert found["union"] == Types.PICKLED_BYTE_ARRAY()


_TREE = """{"type": "record", "name": "Tree", "fields": [
    {"name": "value", "type": "int"}, {"name": "children", "type": {"type": "array", "items": "Tree"}}]}"""


def test_records_may_contain_themselves_but_not_as_columns() -> None:
    tree = {"value": 1, "children": [{"value": 2, "children": []}]}
    reader, writer = AvroRowDeserializationSchema(None, _TREE), AvroRowSerializationSchema(None, _TREE)
    row = reader.deserialize(writer.serialize(tree))
    assert row == Row(value=1, children=[Row(value=2, children=[])])
    assert writer.serialize(row) == writer.serialize(tree)
    with pytest.raises(InvalidProgramError, match="contains itself"):
        _file(AvroParquetWriters.for_generic_record(AvroSchema.parse_string(_TREE)), [tree])


@dataclass
class Sale:
    item: str
    amount: int


_SALE = AvroSchema.parse_string(
    """{"type": "record", "name": "Sale", "fields": [
    {"name": "item", "type": "string"}, {"name": "amount", "type": "int", "default": 7}]}"""
)


@pytest.mark.parametrize("make", [AvroBulkWriters.for_generic_record, AvroParquetWriters.for_generic_record])
@pytest.mark.parametrize("record", [Sale("a", 1), Row("a", 1), Row(amount=1, item="a"), ("a", 1)])
def test_rows_tuples_and_dataclasses_are_records_too(tmp_path: Path, make: Any, record: Any) -> None:
    (tmp_path / "a").write_bytes(_file(make(_SALE), [record]))
    is_avro = make is AvroBulkWriters.for_generic_record
    reader = AvroInputFormat(tmp_path, _SALE) if is_avro else AvroParquetReaders.for_generic_record(_SALE)
    assert read_all(FileSource.for_record_stream_format(reader, tmp_path)) == [{"item": "a", "amount": 1}]


@pytest.mark.parametrize("make", [AvroBulkWriters.for_generic_record, AvroParquetWriters.for_generic_record])
@pytest.mark.parametrize(
    "record",
    [{"item": "a", "amount": 2**40}, {"item": "a", "amount": 1.5}, {"item": None, "amount": 1}, {"amount": 1}, 5],
)
def test_what_the_schema_does_not_allow_is_refused_with_the_record(make: Any, record: Any) -> None:
    with pytest.raises(ConnectorError, match="cannot write as Avro") as raised:
        _file(make(_SALE), [record])
    assert repr(record) in str(raised.value)


def test_a_file_of_another_schema_is_read_by_the_readers(tmp_path: Path) -> None:
    older = AvroSchema.parse_string(
        '{"type": "record", "name": "Sale", "fields": [{"name": "item", "type": "string"}]}'
    )
    (tmp_path / "a.avro").write_bytes(_file(AvroBulkWriters.for_generic_record(older), [("x",)]))
    source = FileSource.for_record_stream_format(AvroInputFormat(tmp_path, _SALE), tmp_path)
    assert read_all(source) == [{"item": "x", "amount": 7}]


def test_files_of_columns_are_laid_out_as_in_java(tmp_path: Path) -> None:
    record = {"item": "x", "amount": 1}
    (tmp_path / "a.parquet").write_bytes(_file(AvroParquetWriters.for_generic_record(_SALE), [record]))
    assert pq.read_table(tmp_path / "a.parquet").to_pylist() == [record]
    union = AvroSchema.parse_string(
        '{"type": "record", "name": "U", "fields": [{"name": "u", "type": ["null", "int", "string"]}]}'
    )
    records = [{"u": 1}, {"u": "a"}, {"u": None}]
    (tmp_path / "b.parquet").write_bytes(_file(AvroParquetWriters.for_generic_record(union), records))
    found = pq.read_table(tmp_path / "b.parquet").to_pylist()
    assert found == [{"u": {"member0": 1, "member1": None}}, {"u": {"member0": None, "member1": "a"}}, {"u": None}]


def test_a_damaged_file_is_named_and_what_is_before_the_damage_is_read(tmp_path: Path) -> None:
    stream = io.BytesIO()
    records = [{"item": str(number), "amount": number} for number in range(300)]
    fastavro.writer(stream, _SALE.parsed, records, sync_interval=500)
    (tmp_path / "a.avro").write_bytes(stream.getvalue()[:-700])
    source = FileSource.for_record_stream_format(AvroInputFormat(tmp_path, _SALE), tmp_path, on_error="skip")
    found = read_all(source)
    assert 0 < len(found) < 300
    assert found == records[: len(found)]
    with pytest.raises(ConnectorError, match=r"a\.avro: damaged: "):
        read_all(FileSource.for_record_stream_format(AvroInputFormat(tmp_path, _SALE), tmp_path))


def test_what_is_no_avro_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(b"something else")
    with pytest.raises(ConnectorError, match=r"a\.avro: no Avro file: "):
        read_all(FileSource.for_record_stream_format(AvroInputFormat(tmp_path, _SALE), tmp_path))


@pytest.mark.parametrize("message", [b"", b"\x02a", b"\x02a\x02more"])
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"no Avro message|bytes more than the schema has"):
        AvroRowDeserializationSchema(avro_schema_string=str(_SALE)).deserialize(message)


def test_schemas_are_read_from_files_and_compared(tmp_path: Path) -> None:
    (tmp_path / "sale.avsc").write_text(str(_SALE))
    assert AvroSchema.parse_file(tmp_path / "sale.avsc") == _SALE == pickle.loads(pickle.dumps(_SALE))
    assert GenericRecordAvroTypeInfo(_SALE) == GenericRecordAvroTypeInfo(AvroSchema.parse_string(str(_SALE)))
    with pytest.raises(InvalidProgramError, match="cannot be read"):
        AvroSchema.parse_file(tmp_path / "none.avsc")
    for text in ("{", '{"type": "thing"}'):
        with pytest.raises(InvalidProgramError, match="no Avro schema"):
            AvroSchema.parse_string(text)


def test_classes_of_java_are_refused() -> None:
    for make in (AvroRowSerializationSchema, AvroRowDeserializationSchema):
        with pytest.raises(InvalidProgramError, match="no classes of Java"):
            make(record_class="com.Sale")
        with pytest.raises(TypeError, match="should be specified"):
            make()


def test_create_input_reads_where_the_format_says(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.create_input(AvroInputFormat(tmp_path, _SALE))
    assert stream.get_type() == GenericRecordAvroTypeInfo(_SALE)


def test_logical_types_come_as_what_they_are() -> None:
    values = {"day": datetime.date(2020, 2, 3), "exact": Decimal("1.50"), "id": uuid.UUID(int=7)}
    fields = [{"name": name, "type": _FIELDS[name]} for name in values]
    text = json.dumps({"type": "record", "name": "L", "fields": fields})
    message = AvroRowSerializationSchema(None, text).serialize(values)
    assert AvroRowDeserializationSchema(None, text).deserialize(message) == Row(**values)


_PROGRAM = """
import sys
sys.modules["fastavro"] = None
from millstream.common import InvalidProgramError
from millstream.datastream.formats.avro import AvroSchema
from millstream.datastream.formats import csv, json, orc, parquet
assert "pyarrow" not in sys.modules
try:
    AvroSchema.parse_string('"int"')
except InvalidProgramError as error:
    assert "pip install 'millstream[avro]'" in str(error), error
else:
    raise AssertionError("nothing was raised")
"""


@pytest.mark.process
def test_formats_are_light_and_a_library_that_is_missing_is_named() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
