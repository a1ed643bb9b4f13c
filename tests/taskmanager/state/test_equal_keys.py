"""Keys that are equal in a dictionary are one key: on one subtask, after a shuffle, and after a restore elsewhere."""

from __future__ import annotations

import copy
import decimal
import pickle
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from state_rig import BACKENDS, GROUPS, Keyed, decoded

from millstream.core.keys.key_groups import UnhashableKeyError, key_group_of, key_group_range, subtask_of
from millstream.core.records import types as t
from millstream.datastream.state.descriptors import ReducingStateDescriptor

NAN = float("nan")


@dataclass(frozen=True)
class Tagged:
    number: Any
    tag: Any = field(default=0, compare=False)


class Pair(NamedTuple):
    first: Any
    second: Any


class Shouted(str):
    def __str__(self) -> str:
        return self.upper()


class Folded(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


def is_unequal_to_its_copy(key: Any) -> bool:
    """Whether it is a dataclass with a NaN, which Python compares field by field from 3.13 on."""
    return isinstance(key, Tagged) and key != copy.copy(key)


COUNT = ReducingStateDescriptor("count", lambda first, second: first + second, int)


def backend(subtask: int, parallelism: int) -> Keyed:
    return Keyed(BACKENDS["hashmap"], owned=key_group_range(subtask, GROUPS, parallelism))


def count(keyed: Keyed, keys: list[Any], by: str) -> None:
    if by == "batches":
        keyed.backend.table("count", t.LONG).fold(keys, iter([1] * len(keys)), COUNT.reduce_function)
        return
    state: Any = keyed.backend.state(COUNT)
    for key in keys:
        keyed.at(key)
        state.add(1)


def counts(keyed: Keyed, keys: Iterable[Any]) -> dict[Any, int]:
    state: Any = keyed.backend.state(COUNT)
    return {keyed.backend.get_current_key(): state.get() for key in keys if keyed.at(key) and state.get() is not None}


atoms = st.one_of(
    st.sampled_from([0, 1, 1.0, True, -0.0, 0.0, NAN, decimal.Decimal(1), decimal.Decimal("NaN"), np.float32(1), None]),
    st.sampled_from(["a", b"a", 0.5, np.float64("nan"), np.float16("nan")]),
    st.text("aB", max_size=1).map(Shouted), st.floats(width=16),
)  # fmt: skip
keys = st.one_of(
    atoms, st.tuples(atoms, atoms), st.tuples(st.tuples(atoms), atoms), st.builds(Pair, atoms, atoms),
    st.builds(Tagged, atoms, atoms), st.builds(Tagged, st.tuples(atoms), atoms),
).filter(lambda key: not is_unequal_to_its_copy(key))  # fmt: skip


@given(st.lists(keys, max_size=20), st.sampled_from(["batches", "records"]))
def test_equal_keys_are_one_everywhere(drawn: list[Any], by: str) -> None:
    local = backend(0, 1)
    count(local, drawn, by)
    arrived: list[list[Any]] = [[], []]
    for key in drawn:
        arrived[subtask_of(key_group_of(key, GROUPS), GROUPS, 2)].append(pickle.loads(pickle.dumps(key)))
    parts = []
    for subtask, keys_of_it in enumerate(arrived):
        made = backend(subtask, 2)
        count(made, keys_of_it, by)
        parts += [decoded(state) for state in made.backend.capture(1).states]
    found: dict[Any, int] = {}
    for subtask in range(3):
        restored = backend(subtask, 3)
        restored.backend.restore(parts)
        found |= counts(restored, pickle.loads(pickle.dumps(drawn)))
    assert found == counts(local, drawn)
    assert sum(found.values()) == len(drawn)


@pytest.mark.parametrize("by", ["batches", "records"])
@pytest.mark.parametrize(
    "make", [float, lambda n: (n, "a"), lambda n: Pair("a", (n,)), Tagged, lambda n: (1, Tagged(n, 2))],
    ids=["float", "tuple", "named tuple", "dataclass", "nested"],
)  # fmt: skip
def test_nan_is_one_key_everywhere(make: Any, by: str) -> None:
    made = backend(0, 1)
    drawn = [make(float("nan")) for _ in range(3)]
    if any(map(is_unequal_to_its_copy, (drawn[0], *(drawn[0] if isinstance(drawn[0], tuple) else ())))):
        with pytest.raises(UnhashableKeyError, match="it contains a NaN, with which it is not equal to itself"):
            count(made, drawn, by)
        return
    count(made, drawn, by)
    assert list(counts(made, [make(float("nan"))]).values()) == [3]


@pytest.mark.parametrize("by", ["batches", "records"])
@pytest.mark.parametrize("key", [Folded("a"), (1, Folded("a")), frozenset({1}), object()])
def test_a_key_with_an_ambiguous_subtask_is_refused_with_its_first_record(key: Any, by: str) -> None:
    with pytest.raises(UnhashableKeyError, match="cannot be used"):
        count(backend(0, 1), [1, key], by)
