"""Schemas make bytes of records, and records of bytes."""

import pickle

import pytest

from millstream.common import (
    ByteArraySchema,
    InvalidProgramError,
    Row,
    RowFieldExtractorSchema,
    SimpleStringSchema,
    Types,
)


def test_text_comes_back_in_any_character_set() -> None:
    for charset in ("UTF-8", "UTF-16", "latin-1"):
        schema = pickle.loads(pickle.dumps(SimpleStringSchema(charset)))
        assert schema.serialize("für") == "für".encode(charset)
        assert schema.deserialize(schema.serialize("für")) == "für"
    assert SimpleStringSchema().get_produced_type() == Types.STRING()


def test_a_character_set_that_does_not_exist_is_refused_at_once() -> None:
    with pytest.raises(InvalidProgramError, match="unknown character set 'UTF-88'"):
        SimpleStringSchema("UTF-88")


def test_bytes_stay_as_they_are() -> None:
    schema = ByteArraySchema()
    assert schema.serialize(bytearray(b"\x00\xff")) == b"\x00\xff"
    assert schema.deserialize(b"\x00\xff") == b"\x00\xff"
    assert schema.get_produced_type() == Types.PRIMITIVE_ARRAY(Types.BYTE())


def test_a_field_of_a_row_or_tuple_is_taken_as_it_is() -> None:
    schema = RowFieldExtractorSchema(1)
    assert schema.serialize(Row("a", b"key")) == schema.serialize(("a", b"key")) == b"key"
    assert schema.serialize(Row("a", None)) == schema.serialize(None) == b""


def test_what_takes_the_same_field_is_the_same_schema() -> None:
    assert RowFieldExtractorSchema(1) == RowFieldExtractorSchema(1) != RowFieldExtractorSchema(2)
    assert len({RowFieldExtractorSchema(1), RowFieldExtractorSchema(1)}) == 1


def test_a_field_that_is_not_there_or_holds_no_bytes_is_named() -> None:
    with pytest.raises(ValueError, match="no field 2"):
        RowFieldExtractorSchema(2).serialize(Row("a", b"b"))
    with pytest.raises(TypeError, match="field 0 has to hold bytes, and is 'a'"):
        RowFieldExtractorSchema(0).serialize(Row("a", b"b"))
    with pytest.raises(ValueError, match="Field index must be non-negative, a whole number, got: -1"):
        RowFieldExtractorSchema(-1)
