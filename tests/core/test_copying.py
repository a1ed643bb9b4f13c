"""Which values are immutable, and copies: equal, of the same classes and shapes, sharing no mutable object."""

from __future__ import annotations

import datetime
import decimal
import enum
import functools
import pickle
import threading
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records import types as t
from millstream.core.records.copying import ATOMIC, is_immutable, is_immutable_type, private_copy
from millstream.core.row import Row


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Frozen:
    part: Any

    @functools.cached_property
    def listed(self) -> list[Any]:
        return [self.part]


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    part: Any


class OpenSubclass(Frozen):
    """Of a frozen class, and takes any attribute itself."""


@dataclass
class Plain:
    part: Any
    other: Any = None


@dataclass(slots=True)
class PlainSlots:
    part: Any


class Named(NamedTuple):
    part: Any


class NamedWithAttributes(namedtuple("NamedWithAttributes", ["part"])):
    """Has a dictionary, as it defines no slots."""


class Ordinary:
    def __init__(self, part: Any) -> None:
        self.part = part

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]  # as of any class with its own equality


class Text(str):
    """Takes attributes."""


BATCH = pa.RecordBatch.from_pydict({"a": [1, 2]})
IMMUTABLE = [
    None, 1, 1.5, True, "a", b"a", decimal.Decimal("1.5"), datetime.datetime(2026, 1, 1), datetime.UTC, range(3),
    Colour.RED, (), (1, ("a", (b"b", None))), frozenset({1, (2,)}), Frozen(1), Frozen((1, Frozen("a"))), Named("a"),
    FrozenSlots("a"), Named((1,)), np.float64(1.5), np.int32(1), np.str_("a"), BATCH, BATCH["a"], pa.table(BATCH),
    BATCH["a"][0], int, Colour, len, lambda: 1,
]  # fmt: skip
MUTABLE = [
    [], {}, set(), bytearray(b"a"), ([],), (1, ({},)), Frozen([1]), Frozen((1, [])), FrozenSlots({}), Named([1]),
    NamedWithAttributes(1), OpenSubclass(1), Plain(1), PlainSlots(1), Row(1), Ordinary(1), Text("a"), np.zeros(2),
    np.zeros(1, dtype=[("a", int)])[0], deque([1]), defaultdict(list, a=[1]), OrderedDict(a=1), Counter("a"),
    {"a": [1, {"b": {2}}]}, {(1, "a"): [1]}, [[1], [1]], Plain([1], {"a": Plain(2)}), Row([1], {}), Frozen(Plain([1])),
    pd.DataFrame({"a": [1]}),
]  # fmt: skip


@pytest.mark.parametrize("value", IMMUTABLE, ids=lambda value: f"{type(value).__name__} {value!s:.20}")
def test_immutable_values_are_shared(value: Any) -> None:
    assert is_immutable(value)
    assert private_copy(value) is value
    assert private_copy([value])[0] is value


@pytest.mark.parametrize("value", MUTABLE, ids=lambda value: f"{type(value).__name__} {value!s:.20}")
def test_mutable_values_are_copied(value: Any) -> None:
    assert not is_immutable(value)
    for copied in (private_copy(value), private_copy({"in": value})["in"], private_copy((value,))[0]):
        assert copied is not value
        assert type(copied) is type(value)
        assert pickle.dumps(copied) == pickle.dumps(value)
        assert not changeable_parts(value) & changeable_parts(copied)


def test_attributes_cached_by_a_frozen_object_are_part_of_it() -> None:
    value = Frozen(1)
    assert is_immutable(value)
    value.listed.append(2)
    assert not is_immutable(value)
    assert private_copy(value).listed == [1, 2]
    assert private_copy(value).listed is not value.listed


def test_shared_parts_stay_shared_in_the_copy() -> None:
    part = [1]
    copied = private_copy({"a": part, "b": (part,), "c": Plain(part), "d": Ordinary(part), "e": Row(part)})
    assert copied["a"] is copied["b"][0] is copied["c"].part is copied["d"].part is copied["e"][0] is not part


def test_a_value_that_contains_itself_is_copied() -> None:
    loop: list[Any] = [1]
    pair = (loop, "a")
    loop += [loop, {"loop": loop}, pair, Plain(loop)]
    copied = private_copy(loop)
    assert copied[1] is copied[2]["loop"] is copied[3][0] is copied[4].part is copied is not loop
    again = private_copy(pair)
    assert again[0][3] is again is not pair


def test_an_uncopyable_value_is_shared_and_reported() -> None:
    lock = threading.Lock()
    value = {"lock": lock, "again": (lock,), "object": Ordinary([threading.Lock()]), "list": [1]}
    with pytest.raises(TypeError, match="pickle"):
        private_copy(value)
    uncopied: list[Any] = []
    copied = private_copy(value, uncopied)
    assert copied["lock"] is copied["again"][0] is lock
    assert copied["object"] is value["object"]
    assert copied["list"] is not value["list"]
    assert uncopied == [lock, value["object"]]


def test_a_failure_leaves_no_partial_copy() -> None:
    inner = Ordinary([1])
    value = [Ordinary([inner, threading.Lock()]), inner]
    copied = private_copy(value, [])
    assert copied[1] == inner
    assert copied[1].part is not inner.part


def test_declared_immutable_types() -> None:
    assert is_immutable_type(t.TupleType((t.LONG, t.TupleType((t.STRING,)))))
    assert not is_immutable_type(t.TupleType((t.LONG, t.ListType(t.LONG))))
    assert not is_immutable_type(t.PICKLED)
    assert not is_immutable_type(t.DataclassType(Plain))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.binary(max_size=3) | st.just(Colour.RED),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=2) | st.tuples(st.integers()), inner, max_size=3),
        st.tuples(inner, inner),
        st.builds(Plain, inner, inner), st.builds(PlainSlots, inner), st.builds(Frozen, inner),
        st.builds(FrozenSlots, inner), st.builds(Ordinary, inner), st.builds(Named, inner),
        st.builds(Row, inner, inner), st.builds(lambda part: Row(a=part), inner),
        st.sets(st.integers(), max_size=1),  # of more, a copy may have another order
        st.lists(inner, max_size=2).map(lambda items: [*items, *items]),
        st.lists(inner, max_size=2).map(deque),
    ),
    max_leaves=12,
)  # fmt: skip


@given(values)
def test_a_copy_is_equal_and_shares_no_mutable_object(value: Any) -> None:
    copied = private_copy(value)
    assert repr(copied) == repr(value) or type(value) is Ordinary or "Ordinary" in repr(value)
    assert pickle.dumps(pickle.loads(pickle.dumps(copied))) == pickle.dumps(pickle.loads(pickle.dumps(value)))
    assert not changeable_parts(value) & changeable_parts(copied)
    assert is_immutable(value) == (copied is value)


def changeable_parts(value: Any) -> set[int]:
    """The identities of all mutable objects inside of the value, determined independently of the implementation."""
    found: set[int] = set()
    keep: list[Any] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if type(part) in ATOMIC or isinstance(part, enum.Enum) or id(part) in found:
            continue
        keep.append(part)
        if isinstance(part, dict):
            waiting += [*part, *part.values()]
        elif isinstance(part, list | tuple | set | frozenset | deque):
            waiting += part
        else:
            waiting += [getattr(part, name) for name in getattr(type(part), "__slots__", ()) if hasattr(part, name)]
        waiting += getattr(part, "__dict__", {}).values()
        if not isinstance(part, tuple | frozenset | Frozen | FrozenSlots) or type(part) is OpenSubclass:
            found.add(id(part))
    return found


@dataclass
class WithDefaults:
    items: list[int] = field(default_factory=list)


def test_a_subclass_of_a_dataclass_keeps_its_attributes() -> None:
    class More(WithDefaults):
        pass

    value = More([1])
    value.extra = {"a": 1}  # type: ignore[attr-defined]  # as users do
    copied = private_copy(value)
    assert type(copied) is More
    assert vars(copied) == {"items": [1], "extra": {"a": 1}}
    assert copied.extra is not value.extra
