"""Parquet and ORC by a row type: what is written, what is read, and what is refused."""

from __future__ import annotations

import datetime
import io
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from source_harness import read_all

from millstream.common import Configuration, InvalidProgramError, Row, Types
from millstream.common.serialization import BulkWriterFactory
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.file_system import FileSink, FileSource
from millstream.datastream.formats.orc import OrcBulkWriters
from millstream.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

_KINDS = {
    "text": Types.STRING(), "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()), "flag": Types.BOOLEAN(),
    "exact": Types.BIG_DEC(), "whole": Types.INT(), "large": Types.LONG(), "real": Types.DOUBLE(),
    "day": Types.SQL_DATE(), "at": Types.SQL_TIMESTAMP(), "moment": Types.INSTANT(),
    "numbers": Types.BASIC_ARRAY(Types.INT()), "inner": Types.ROW_NAMED(["a"], [Types.STRING()]),
    "by_name": Types.MAP(Types.STRING(), Types.LONG()),
}  # fmt: skip
_TYPE = Types.ROW_NAMED(list(_KINDS), list(_KINDS.values()))
_AT = datetime.datetime(1970, 2, 3, 4, 5, 6, 700000)
_ROWS = [
    Row(
        text="é", raw=b"\0x", flag=True, exact=Decimal("1.5"), whole=-(2**31), large=2**63 - 1, real=0.1,
        day=_AT.date(), at=_AT, moment=_AT.replace(tzinfo=datetime.UTC), numbers=[1, None, 3], inner=Row(a="x"),
        by_name={"k": 1},
    ),
    Row(**dict.fromkeys(_KINDS)),
]  # fmt: skip


def _file(factory: BulkWriterFactory, records: list[Any]) -> bytes:
    stream = io.BytesIO()
    writer = factory.create(stream)
    for record in records:
        writer.add_element(record)
    writer.finish()
    return stream.getvalue()


def _parquet(path: Path, kind: Any, **more: Any) -> list[Any]:
    source = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(kind, **more), path)
    harness_rows = read_all(source)
    assert source.produces_columns()
    return harness_rows


def test_parquet_is_read_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(_file(ParquetBulkWriters.for_row_type(_TYPE, Configuration(), True), _ROWS))
    first, nothing = _parquet(tmp_path, _TYPE)
    assert first.as_dict() | {"inner": Row(a="x")} == _ROWS[0].as_dict()
    assert nothing == _ROWS[1]


def test_orc_is_what_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.orc").write_bytes(_file(OrcBulkWriters.for_row_type(_TYPE), _ROWS))
    found = orc.ORCFile(tmp_path / "a.orc").read().to_pylist()
    expected = _ROWS[0].as_dict(True) | {"by_name": [("k", 1)]}
    assert found == [expected, dict.fromkeys(_KINDS)]


@dataclass
class Sale:
    item: str
    amount: int


_SALES = [Sale("a", 1), Sale("b", 2)]
_SCHEMA = pa.schema([("item", pa.string()), ("amount", pa.int32())])


@pytest.mark.parametrize("kind", [Sale, Types.ROW_NAMED(["item", "amount"], [Types.STRING(), Types.LONG()]), _SCHEMA])
@pytest.mark.parametrize("make", [ParquetBulkWriters.for_row_type, OrcBulkWriters.for_row_type])
def test_a_row_type_is_a_type_a_dataclass_or_a_schema(tmp_path: Path, kind: Any, make: Any) -> None:
    written = pa.BufferReader(_file(make(kind), _SALES))
    table = pq.read_table(written) if make is ParquetBulkWriters.for_row_type else orc.ORCFile(written).read()
    assert table.to_pylist() == [{"item": "a", "amount": 1}, {"item": "b", "amount": 2}]
    assert table.schema.field("amount").type == (pa.int32() if kind is _SCHEMA else pa.int64())


@pytest.mark.parametrize(
    "use",
    [
        ParquetColumnarRowInputFormat,
        ParquetBulkWriters.for_row_type,
        OrcBulkWriters.for_row_type,
        lambda kind: FileSink.for_parquet("/tmp/none", kind),
    ],
)
@pytest.mark.parametrize("kind", [Types.LONG(), "DataTypes.ROW", {"a": int}])
def test_what_is_no_row_type_is_refused(use: Any, kind: Any) -> None:
    with pytest.raises(InvalidProgramError, match=r"must be a type with fields \(Types.ROW_NAMED"):
        use(kind)


@pytest.mark.parametrize(
    "use", [ParquetColumnarRowInputFormat, ParquetBulkWriters.for_row_type, OrcBulkWriters.for_row_type]
)
def test_a_configuration_of_hadoop_is_refused_unless_it_is_empty(use: Any) -> None:
    use(Sale, hadoop_config={})
    with pytest.raises(InvalidProgramError, match=r"no use for fs\.s3a\.key"):
        use(Sale, hadoop_config={"fs.s3a.key": "x"})


def test_columns_are_cast_where_no_value_changes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [1.0, 2.0]}), tmp_path / "a.parquet")
    kind = Types.ROW_NAMED(["b", "a"], [Types.INT(), Types.SHORT()])
    assert _parquet(tmp_path, kind) == [Row(b=1, a=1), Row(b=2, a=2)]
    pq.write_table(pa.table({"a": [1, 70_000], "b": [1.0, 2.0]}), tmp_path / "a.parquet")
    with pytest.raises(ConnectorError, match=r"a\.parquet: column 'a' does not fit int16"):
        _parquet(tmp_path, kind)


def test_columns_that_differ_by_case_only_are_no_choice(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ITEM": ["a"], "item": ["b"], "amount": [1]}), tmp_path / "a.parquet")
    assert _parquet(tmp_path, Sale) == [Row(item="b", amount=1)]
    with pytest.raises(ConnectorError, match="any of them may be item"):
        _parquet(tmp_path, Sale, is_case_sensitive=False)


def test_a_bulk_format_does_not_reveal_its_files() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(InvalidProgramError, match="for_bulk_file_format"):
        env.create_input(ParquetColumnarRowInputFormat(Sale))  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="expected an InputFormat, got int"):
        env.create_input(3)  # type: ignore[arg-type]


def test_properties_of_orc_are_its_own(tmp_path: Path) -> None:
    for properties in ({"orc.compress": "NONE"}, Configuration({})):
        assert _file(OrcBulkWriters.for_row_type(Sale, properties), _SALES)
    plain = _file(OrcBulkWriters.for_row_type(Sale, {"orc.compress": "NONE"}), _SALES)
    assert orc.ORCFile(pa.BufferReader(plain)).compression == "UNCOMPRESSED"
    for wrong in ({"orc.compress": "rar"}, {"orc.stripe.size": "many"}, {"orc.unknown": "1"}):
        with pytest.raises(InvalidProgramError, match="writer_properties"):
            OrcBulkWriters.for_row_type(Sale, wrong)


def test_an_orc_file_without_records_is_one() -> None:
    assert orc.ORCFile(pa.BufferReader(_file(OrcBulkWriters.for_row_type(Sale), []))).read().num_rows == 0


def test_records_of_another_type_are_refused() -> None:
    for make in (ParquetBulkWriters.for_row_type, OrcBulkWriters.for_row_type):
        with pytest.raises(Exception, match="amount"):
            _file(make(Sale), [Sale("a", "many")])  # type: ignore[arg-type]


def test_what_is_no_factory_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="expected a BulkWriterFactory"):
        FileSink.for_bulk_format("/tmp/none", Sale)  # type: ignore[arg-type]
