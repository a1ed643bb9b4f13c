"""Logical types and schemas as JSON, and the types that snapshots have today."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from random_logical_types import SCHEMAS

from millstream.core.records import schema as s
from millstream.core.records import types as t
from millstream.core.snapshot import SnapshotError, type_to_json
from millstream.core.snapshot.metadata.json_reader import JsonNode
from millstream.core.snapshot.metadata.schema_json import (
    logical_type_from_json,
    logical_type_to_json,
    schema_from_json,
    schema_to_json,
)


@given(SCHEMAS)
def test_a_schema_is_the_same_after_json(schema: s.Schema) -> None:
    assert schema_from_json(JsonNode(json.loads(json.dumps(schema_to_json(schema))), "m")) == schema


def test_a_logical_type_is_its_words() -> None:
    document = logical_type_to_json(s.DecimalType(10, 2, nullable=False))
    assert document == {"type": "logical", "logical": "DECIMAL(10, 2) NOT NULL"}
    assert schema_to_json(s.Schema((s.Field("a", s.STRING, description="what"),))) == {
        "fields": [{"name": "a", "type": {"type": "logical", "logical": "VARCHAR(2147483647)"}, "description": "what"}]
    }


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"type": "basic", "name": "Long"}, "BIGINT"),
        ({"type": "basic", "name": "BigDecimal"}, "DECIMAL(38, 18)"),
        ({"type": "basic", "name": "Instant"}, "TIMESTAMP_LTZ(6)"),
        ({"type": "pickled"}, "RAW('object', 'pickle')"),
        ({"type": "tuple", "fields": [{"type": "pickled"}]}, "ROW<f0 RAW('object', 'pickle')>"),
        ({"type": "row", "names": ["a"], "fields": [{"type": "basic", "name": "String"}]}, "ROW<a STRING>"),
        ({"type": "list", "element": {"type": "basic", "name": "Date"}}, "ARRAY<DATE>"),
        ({"type": "map", "key": {"type": "basic", "name": "Short"}, "value": {"type": "basic", "name": "Time"}},
         "MAP<SMALLINT NOT NULL, TIME(6)>"),
        ({"type": "dataclass", "class": "m:C", "fields": [
            {"name": "a", "type": {"type": "basic", "name": "Integer"}, "has_default": False}
        ]}, "ROW<a INT>"),
    ],
)  # fmt: skip
def test_types_in_todays_snapshots_are_read(document: dict[str, Any], words: str) -> None:
    assert logical_type_from_json(JsonNode(document, "m")) == s.parse_type(words)


def test_every_basic_type_of_a_snapshot_is_read() -> None:
    for type in (t.STRING, t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.BIG_INT, t.BIG_DEC,
                 t.BYTES, t.INSTANT, t.DATE, t.TIME, t.TIMESTAMP):  # fmt: skip
        assert logical_type_from_json(JsonNode(type_to_json(type), "m")) == s.from_type_information(type)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "the document is \\[\\], and must be an object"),
        ({"fields": [], "x": 1}, "unknown field 'x'"),
        ({"fields": [{"name": "a"}]}, r"fields\[0\] lacks the field 'type'"),
        ({"fields": [{"name": "", "type": {"type": "pickled"}}]}, r"fields\[0\].name is empty"),
        ({"fields": [{"name": " ", "type": {"type": "pickled"}}]}, r"fields\[0\] is not valid: Field names must"),
        ({"fields": [{"name": "a", "type": {"type": "pickled"}}] * 2}, "fields is not valid: .* duplicates: a"),
        ({"fields": [{"name": "a", "type": {"type": "basic", "name": "Longer"}}]}, r"type.name is 'Longer'"),
        ({"fields": [{"name": "a", "type": {"type": "logical", "logical": "DECIMAL(39)"}}]},
         r"fields\[0\].type.logical is not valid: Could not parse type at position 0: Decimal precision"),
        ({"fields": [{"name": "a", "type": {"type": "logical"}}]}, "lacks the field 'logical'"),
        ({"fields": [{"name": "a", "type": {"type": "pickled"}, "description": 3}]}, r"fields\[0\].description"),
    ],
)  # fmt: skip
def test_json_that_is_no_schema_is_refused_by_place(document: Any, reason: str) -> None:
    with pytest.raises(SnapshotError, match=reason):
        schema_from_json(JsonNode(document, "m"))
