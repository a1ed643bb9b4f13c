"""Types as JSON, and the changes of a type that a restore supports."""

from __future__ import annotations

import dataclasses
import json
import pickle
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.snapshot import (
    CompatibilityKind,
    SnapshotError,
    StateKind,
    StateTypes,
    compare_state,
    compare_types,
    type_from_json,
    type_to_json,
)
from millstream.core.snapshot.metadata.json_reader import JsonNode
from millstream.core.snapshot.metadata.types_json import check_type_json, describe_json, has_default, holds_pickled
from millstream.core.snapshot.tables.instances import assemble

BASIC = [
    t.STRING, t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.BIG_INT, t.BIG_DEC, t.BYTES, t.INSTANT,
    t.DATE, t.TIME, t.TIMESTAMP, t.PICKLED,
]  # fmt: skip
types = st.recursive(
    st.sampled_from(BASIC),
    lambda inner: st.one_of(
        st.builds(t.ListType, inner),
        st.builds(t.MapType, inner, inner),
        st.builds(t.TupleType, st.lists(inner, min_size=1, max_size=3).map(tuple)),
        st.lists(inner, min_size=1, max_size=3).map(lambda f: t.RowType(tuple(f))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda f: t.RowType(tuple(f), tuple(f"n{i}" for i in range(len(f))))
        ),
    ),
    max_leaves=6,
)


@given(types)
def test_types_are_restored_from_json(type: t.TypeInformation) -> None:
    document = json.loads(json.dumps(type_to_json(type)))
    check_type_json(JsonNode(document, "m"))
    assert type_from_json(document) == type
    assert describe_json(document) == type.describe()
    assert holds_pickled(document) == ("Pickled" in type.describe())
    assert compare_types(document, type).kind is CompatibilityKind.SAME


@dataclass
class Address:
    street: str


@dataclass
class Customer:
    id: int
    address: Address
    pickled: str = "x"
    tags: list[str] = field(default_factory=list)


@dataclass
class Node:
    children: list[Node]


def test_a_dataclass_is_written_by_name_and_read_as_a_row() -> None:
    document = type_to_json(t.DataclassType(Customer))
    assert document["class"].endswith(":Customer")
    assert [(f["name"], f["has_default"]) for f in document["fields"]] == [
        ("id", False), ("address", False), ("pickled", True), ("tags", True),
    ]  # fmt: skip
    assert not holds_pickled(document)
    rest = "pickled: String, tags: List<String>)"
    assert type_from_json(document).describe() == f"Row(id: Long, address: Row(street: String), {rest}"
    assert describe_json(document) == f"Customer(id: Long, address: Address(street: String), {rest}"


def test_values_without_a_column_type_are_pickled() -> None:
    assert type_to_json(t.DataclassType(Node)) == {"type": "pickled"}
    assert type_to_json(t.TupleType(())) == {"type": "pickled"}
    assert type_to_json(t.ListType(t.DataclassType(dataclasses.make_dataclass("Empty", [])))) == {"type": "pickled"}


@pytest.mark.parametrize(
    "document",
    [
        None, {}, {"type": "set"}, {"type": "list"}, {"type": "tuple", "fields": []}, {"type": "map", "key": {}},
        {"type": "row", "names": ["a"], "fields": []}, {"type": "basic", "name": "Int", "x": 1},
        {"type": "row", "names": ["a", "a"], "fields": [{"type": "pickled"}, {"type": "pickled"}]},
        {"type": "dataclass", "class": "x", "fields": []}, {"type": "dataclass", "class": "m:x", "fields": []},
        {"type": "dataclass", "class": "m:x", "fields": [{"name": "a", "type": {"type": "pickled"}, "has_default": 1}]},
    ],
)  # fmt: skip
def test_an_invalid_type_is_refused(document: object) -> None:
    with pytest.raises(SnapshotError):
        check_type_json(JsonNode(document, "m"))


def version(name: str = "C", **fields: object) -> t.DataclassType:
    """A version of a class; a field is a hint, or a hint and its default."""
    made = [(n, *f) if isinstance(f, tuple) else (n, f) for n, f in fields.items()]
    return t.DataclassType(dataclasses.make_dataclass(name, made, kw_only=True))  # type: ignore[arg-type]


def default(value: object) -> object:
    return dataclasses.field(default=value)


@pytest.mark.parametrize(
    ("stored", "declared", "added", "removed"),
    [
        (version(a=int), version(a=int, b=(str, default("x"))), ("b",), ()),
        (version(a=int, b=str), version(a=int), (), ("b",)),
        (version(a=int, b=str), version(a=int, c=(list[int], dataclasses.field(default_factory=list))), ("c",), ("b",)),
        (version(a=int, b=str), version(b=str, a=int), (), ()),
        (
            t.ListType(t.TupleType((t.LONG, version(a=int)))),
            t.ListType(t.TupleType((t.LONG, version(a=int, b=(int, default(1)))))),
            ("[].f1.b",), (),
        ),
        (t.MapType(t.STRING, version(a=int, b=int)), t.MapType(t.STRING, version(a=int)), (), ("{}.b",)),
        (t.RowType((t.LONG, t.LONG), ("a", "b")), t.RowType((t.LONG,), ("b",)), (), ("a",)),
        (version("Old", a=int), version("New", a=int), None, None),
        (version(a=int), version(a=(int, default(1))), None, None),
    ],
)  # fmt: skip
def test_compatible_changes(
    stored: t.TypeInformation,
    declared: t.TypeInformation,
    added: tuple[str, ...] | None,
    removed: tuple[str, ...] | None,
) -> None:
    verdict = compare_types(type_to_json(stored), declared)
    assert verdict.ok
    if added is None or removed is None:
        assert verdict.kind is CompatibilityKind.SAME
        return
    assert verdict.kind is CompatibilityKind.COMPATIBLE
    assert (verdict.added, verdict.removed) == (added, removed)
    assert f"stored {describe_json(type_to_json(stored))}" in verdict.message


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        (t.LONG, t.INT),
        (t.DOUBLE, t.LONG),
        (t.DOUBLE, t.FLOAT),
        (t.BOOLEAN, t.LONG),
        (t.LONG, t.BIG_DEC),
        (version(a=int), version(a=(bool, default(False)))),
        (t.MapType(t.LONG, t.LONG), t.MapType(t.DOUBLE, t.LONG)),
        (t.LONG, t.PICKLED),
        (t.PICKLED, t.LONG),
        (version(a=int), version(a=int, b=str)),
        (version(a=int), version(a=str)),
        (version("Old", a=int), version("New", b=(int, default(0)))),
        (version(a=int), t.RowType((t.LONG,), ("a",))),
        (t.TupleType((t.LONG,)), t.TupleType((t.LONG, t.LONG))),
        (t.RowType((t.LONG,), ("a",)), t.RowType((t.LONG, t.LONG), ("a", "b"))),
        (t.RowType((t.LONG,)), t.RowType((t.LONG,), ("f0",))),
        (t.ListType(t.LONG), t.ListType(t.STRING)),
        (t.MapType(version(a=int, b=int), t.LONG), t.MapType(version(a=int), t.LONG)),
    ],
)
def test_other_changes_are_refused_with_both_schemas(stored: t.TypeInformation, declared: t.TypeInformation) -> None:
    verdict = compare_types(type_to_json(stored), declared)
    assert verdict.kind is CompatibilityKind.INCOMPATIBLE
    assert f"stored {stored.describe()}, declared {declared.describe()}" in verdict.message


@pytest.mark.parametrize(
    ("stored", "declared", "widened"),
    [
        (t.LONG, t.DOUBLE, ("from Long to Double",)),
        (t.INT, t.LONG, ("from Integer to Long",)),
        (t.BYTE, t.BIG_INT, ("from Byte to BigInteger",)),
        (t.FLOAT, t.DOUBLE, ("from Float to Double",)),
        (version(a=int), version(a=float), ("a from Long to Double",)),
        (
            t.MapType(t.STRING, t.ListType(t.TupleType((t.STRING, t.INT)))),
            t.MapType(t.STRING, t.ListType(t.TupleType((t.STRING, t.DOUBLE)))),
            ("{}[].f1 from Integer to Double",),
        ),
    ],
)
def test_numbers_may_become_wider(
    stored: t.TypeInformation, declared: t.TypeInformation, widened: tuple[str, ...]
) -> None:
    verdict = compare_types(type_to_json(stored), declared)
    assert (verdict.kind, verdict.widened) == (CompatibilityKind.COMPATIBLE, widened)
    for key in (StateTypes(stored, t.LONG), StateTypes(declared, t.LONG)):
        other = StateTypes(declared if key.key == stored else stored, t.LONG)
        assert not compare_state(key.snapshot("s", StateKind.VALUE), other.snapshot("s", StateKind.VALUE)).ok


@pytest.mark.parametrize(
    ("stored", "declared", "warned"),
    [
        (version(a=int, b=str), version(a=int, c=(str, default(""))), ["the field b is gone, and c of the same type"]),
        (version(a=int, b=int), version(c=(int, default(0)), d=(float, default(0.0))), ["field a", "field b"]),
        (version(a=int, b=str), version(a=int, c=(int, default(0))), []),
        (version(a=int), version(a=int, c=(int, default(0))), []),
        (version(a=int, b=int), version(a=int), []),
        (
            t.ListType(version(a=version("Inner", x=int))),
            t.ListType(version(a=version("Inner", y=(int, default(0))))),
            ["the field [].a.x is gone, and [].a.y of the same type (Long) is new"],
        ),
    ],
)
def test_a_field_that_seems_renamed_is_a_warning(stored: Any, declared: Any, warned: list[str]) -> None:
    verdict = compare_types(type_to_json(stored), declared)
    assert verdict.ok
    assert len(verdict.warnings) == len(warned)
    for warning, wanted in zip(verdict.warnings, warned, strict=True):
        assert wanted in warning
        assert warning.endswith("if it was renamed, its values are lost")


def test_a_renamed_field_without_a_default_is_refused_with_a_hint() -> None:
    verdict = compare_types(type_to_json(version(a=int, b=str)), version(a=int, c=str))
    assert "the field c was added without a default (b, of the same type, is gone: was it renamed?)" in verdict.message


def test_a_state_may_evolve_in_its_values_but_not_in_its_keys() -> None:
    old, new = version(a=int), version(a=int, b=(int, default(1)))
    stored = StateTypes(t.LONG, old).snapshot("s", StateKind.VALUE)
    assert compare_state(stored, StateTypes(t.LONG, new).snapshot("s", StateKind.VALUE)).added == ("b",)
    keyed = StateTypes(old, t.LONG).snapshot("s", StateKind.VALUE)
    verdict = compare_state(keyed, StateTypes(new, t.LONG).snapshot("s", StateKind.VALUE))
    assert not verdict.ok
    assert verdict.message.startswith("the type of the key may not change")
    verdict = compare_state(stored, StateTypes(t.LONG, old, namespace=t.LONG).snapshot("s", StateKind.VALUE))
    assert verdict.message == "the type of the namespace may not change: namespace_type: stored none, declared Long"
    verdict = compare_state(stored, StateTypes(t.LONG, old).snapshot("s", StateKind.LIST))
    assert verdict.message == "the kind changed: stored value, declared list"


def test_a_dataclass_that_was_not_declared_fits_the_class_again() -> None:
    """A snapshot of a job that never declared the state has a row instead of the class."""
    declared = version("Account", count=int, level=(int, default(5)))
    row = t.RowType((t.LONG, t.STRING), ("count", "note"))
    verdict = compare_types(type_to_json(row), declared)
    assert (verdict.ok, verdict.added, verdict.removed) == (True, ("level",), ("note",))
    refused = compare_types(type_to_json(t.RowType((t.STRING,), ("count",))), declared)
    assert not refused.ok
    assert not compare_types(type_to_json(t.RowType((t.LONG,))), declared).ok
    same = t.RowType((t.LONG, t.LONG), ("count", "level"))
    keyed, passed_on = (StateTypes(key, t.LONG).snapshot("s", StateKind.VALUE) for key in (declared, same))
    assert compare_state(passed_on, keyed).kind is CompatibilityKind.SAME


def test_a_class_that_was_pickled_by_value_keeps_its_defaults() -> None:
    code = "from dataclasses import dataclass, field\n@dataclass\nclass Made:\n    a: int\n    b: int = 5\n"
    code += "    c: list[int] = field(default_factory=list)\n"
    space: dict[str, object] = {"__name__": "__main__"}
    exec(code, space)
    made = pickle.loads(to_bytes(space["Made"]))
    fields = {f.name: f for f in dataclasses.fields(made)}
    assert {name: has_default(f) for name, f in fields.items()} == {"a": False, "b": True, "c": True}
    assert assemble([[1, 2], None, None], 2, t.DataclassType(made)) == [made(1), made(2)]
