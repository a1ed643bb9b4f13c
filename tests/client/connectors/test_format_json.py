"""JSON messages: round trips, and the reasons in errors."""

from __future__ import annotations

import datetime
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.common import InvalidProgramError, Row, Types
from millstream.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

_INNER = Types.ROW_NAMED(["id", "at"], [Types.STRING(), Types.SQL_TIMESTAMP()])
_TYPE = Types.ROW_NAMED(
    ["text", "number", "exact", "flags", "inner", "inners", "by_name", "raw", "day"],
    [
        Types.STRING(), Types.LONG(), Types.BIG_DEC(), Types.LIST(Types.BOOLEAN()), _INNER, Types.LIST(_INNER),
        Types.MAP(Types.STRING(), Types.DOUBLE()), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.SQL_DATE(),
    ],
)  # fmt: skip
_inner = st.builds(Row, id=st.text(), at=st.none() | st.datetimes())
_rows = st.builds(
    Row,
    text=st.none() | st.text(),
    number=st.none() | st.integers(-(2**63), 2**63 - 1),
    exact=st.none() | st.decimals(allow_nan=False, allow_infinity=False),
    flags=st.none() | st.lists(st.booleans() | st.none()),
    inner=st.none() | _inner,
    inners=st.lists(_inner | st.none(), max_size=3),
    by_name=st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.none(), max_size=3),
    raw=st.none() | st.binary(),
    day=st.none() | st.dates(),
)
_writer = JsonRowSerializationSchema.builder().with_type_info(_TYPE).build()
_reader = JsonRowDeserializationSchema.builder().type_info(_TYPE).build()


@settings(max_examples=cases(100))
@given(row=_rows)
def test_what_is_written_is_read_as_it_was(row: Row) -> None:
    writer, reader = pickle.loads(pickle.dumps((_writer, _reader)))
    message = writer.serialize(row)
    assert list(json.loads(message)) == list(row.get_fields_names() or [])
    assert reader.deserialize(message) == row


@pytest.mark.parametrize("value", [Row("a", 1), ("a", 1), {"n": 1, "s": "a"}, Row(n=1, s="a")])
def test_fields_are_found_by_name_or_else_by_position(value: Any) -> None:
    kind = Types.ROW_NAMED(["s", "n"], [Types.STRING(), Types.INT()])
    assert JsonRowSerializationSchema.builder().with_type_info(kind).build().serialize(value) == b'{"s":"a","n":1}'


_SMALL = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])


def test_fields_that_are_missing_are_none_unless_that_is_an_error() -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(_SMALL)
    assert builder.build().deserialize(b'{"b": "x", "c": 1}') == Row(a=None, b="x")
    strict = builder.fail_on_missing_field().build()
    assert strict.deserialize(b'{"b": "x", "a": null}') == Row(a=None, b="x")
    with pytest.raises(ValueError, match="missing required field `a`"):
        strict.deserialize(b'{"b": "x"}')


@pytest.mark.parametrize("message", [b"", b"{", b'{"a": "x"}', b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_is_an_error_or_none(message: bytes) -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(_SMALL)
    with pytest.raises(ValueError, match="no JSON of Row"):
        builder.build().deserialize(message)
    assert builder.ignore_parse_errors().build().deserialize(message) is None


def test_a_message_may_not_be_both_an_error_and_ignored() -> None:
    builder = JsonRowDeserializationSchema.builder().type_info(_SMALL).ignore_parse_errors().fail_on_missing_field()
    with pytest.raises(InvalidProgramError, match="exclude each other"):
        builder.build()


@pytest.mark.parametrize("value", [Row(math.nan), Row(-math.inf), Row("x"), Row(1.0, 2.0), {"y": 1.0}])
def test_what_json_or_the_type_does_not_have_is_refused(value: Any) -> None:
    schema = JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(["x"], [Types.DOUBLE()])).build()
    if value == Row("x"):
        assert schema.serialize(value) == b'{"x":"x"}', "between operators values are kept as they are"
        return
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        schema.serialize(value)


def test_a_json_schema_gives_the_type() -> None:
    text = json.dumps(
        {
            "type": "object",
            "definitions": {"point": {"type": "array", "items": [{"type": "number"}, {"type": "integer"}]}},
            "properties": {
                "name": {"type": ["string", "null"]},
                "at": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "raw": {"type": "string", "contentEncoding": "base64"},
                "tags": {"type": "array", "items": {"type": "boolean"}},
                "inner": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]},
            },
        }
    )
    schema = JsonRowDeserializationSchema.builder().json_schema(text).build()
    assert schema.get_produced_type() == Types.ROW_NAMED(
        ["name", "at", "day", "raw", "tags", "inner"],
        [
            Types.STRING(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.LIST(Types.BOOLEAN()), Types.ROW_NAMED(["n"], [Types.BIG_INT()]),
        ],
    )  # fmt: skip
    found = schema.deserialize(b'{"name": "a", "at": "2020-01-01T02:00:00+02:00", "raw": "AA==", "inner": {"n": 7}}')
    assert found.at == datetime.datetime(2020, 1, 1)
    assert (found.raw, found.inner, found.day) == (b"\0", Row(n=7), None)


def test_numbers_of_a_json_schema_are_exact() -> None:
    number = {"n": {"type": "number"}}
    referring = {"type": "object", "properties": {"n": {"$ref": "#/definitions/n"}}, "definitions": number}
    text = json.dumps(referring)
    schema = JsonRowDeserializationSchema.builder().json_schema(text).build()
    assert schema.deserialize(b'{"n": 0.1000000000000000000001}') == Row(n=Decimal("0.1000000000000000000001"))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "no JSON schema"),
        ('{"type": "thing"}', "'thing', which is none"),
        ('{"type": "object", "properties": {"a": {"type": "array"}}}', "<root>/a is an array"),
        ('{"type": ["string", "integer"]}', "several types"),
        ('{"$ref": "#/definitions/none"}', "is not there"),
        ('{"$ref": "http://elsewhere"}', "outside of the schema"),
        ('{"definitions": {"a": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}', "contains itself"),
        ('{"allOf": []}', "do not define a type"),
        ('{"type": "string", "contentEncoding": "7bit"}', "base64"),
    ],
)
def test_a_json_schema_without_a_type_is_refused(text: str, error: str) -> None:
    with pytest.raises(InvalidProgramError, match=error):
        JsonRowDeserializationSchema.builder().json_schema(text)


@pytest.mark.parametrize("builder", [JsonRowDeserializationSchema.builder(), JsonRowSerializationSchema.builder()])
def test_a_type_has_to_be_set(builder: Any) -> None:
    with pytest.raises(TypeError, match="Typeinfo should be set"):
        builder.build()
