"""The index of int64 keys against a dictionary and a plain loop: any calls, batches with duplicates, growth, reuse."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from slots_model import SlotsModel

from millstream.core.kernels import native
from millstream.core.kernels.contract import IntegerIndex, Kernels
from millstream.core.keys.key_groups import stable_hash_column

EXTREMES = [0, 1, -1, 2**63 - 1, -(2**63)]
KEYS = st.integers(-20, 20) | st.sampled_from(EXTREMES) | st.integers(-(2**63), 2**63 - 1)
BATCHES = st.lists(KEYS, max_size=60) | st.builds(
    lambda start, count, step: [start + at * step for at in range(count)],
    st.integers(-5000, 5000), st.integers(0, 1500), st.sampled_from([-1, 1, 2, 1 << 40]),
)  # fmt: skip


def array(keys: list[int]) -> Any:
    return np.array(keys, np.int64)


def machine(kernels: Kernels) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.index: IntegerIndex = kernels.integer_index()
            self.model = SlotsModel()

        @rule(batch=BATCHES)
        def add(self, batch: list[int]) -> None:
            slots, rows = self.index.slots(array(batch))
            assert (slots.tolist(), rows.tolist()) == self.model.slots(batch)

        @rule(batch=BATCHES)
        def find(self, batch: list[int]) -> None:
            assert self.index.find(array(batch)).tolist() == self.model.find(batch)

        @rule(batch=BATCHES)
        def remove(self, batch: list[int]) -> None:
            assert self.index.remove(array(batch)).tolist() == self.model.remove(batch)

        @rule(data=st.data())
        def remove_some(self, data: st.DataObject) -> None:
            batch = data.draw(st.permutations(list(self.model.slot_of)[:40]))
            assert self.index.remove(array(batch)).tolist() == self.model.remove(batch)

        @invariant()
        def exports_all(self) -> None:
            by_slot = self.model.keys_by_slot()
            used = self.index.used()
            assert used.tolist() == list(by_slot)
            assert self.index.keys(used).tolist() == list(by_slot.values())
            assert (len(self.index), self.index.bound) == (len(by_slot), self.model.bound)

    return Machine


def test_it_does_what_a_dictionary_does(kernels: Kernels) -> None:
    run_state_machine_as_test(machine(kernels), settings=settings(stateful_step_count=20))


def batches_of(keys: Any, size: int = 10_000) -> list[Any]:
    return [keys[start : start + size] for start in range(0, len(keys), size)]


@pytest.mark.parametrize(
    "key",
    [lambda at: at, lambda at: at << 32, lambda at: at << 48, lambda at: ~at * 1000],
    ids=["consecutive", "high halves", "highest bits", "steps"],
)
def test_many_keys(kernels: Kernels, key: Callable[[int], int]) -> None:
    keys = array([key(at) for at in range(30_000)])
    index = kernels.integer_index()
    assert [s for part in batches_of(keys) for s in index.slots(part).slots.tolist()] == list(range(30_000))
    assert index.find(keys[::-1]).tolist() == list(range(30_000))[::-1]
    assert index.find(keys + 1 if key(1) != 1 else keys - 30_000).tolist() == [-1] * 30_000
    assert index.remove(keys[::2]).tolist() == list(range(0, 30_000, 2))
    assert index.find(keys).tolist() == [at if at % 2 else -1 for at in range(30_000)]
    assert len(index) == 15_000
    assert sorted(index.slots(keys[::2]).slots.tolist()) == list(range(0, 30_000, 2))
    assert index.bound == 30_000


def test_keys_of_one_key_group_do_not_meet_in_the_table(tested_library: Path) -> None:
    """A subtask has a few key groups: the hashes of its keys have some bits in common."""
    library = ctypes.CDLL(str(tested_library))
    library.mk_index_distance.argtypes, library.mk_index_distance.restype = [ctypes.c_void_p], ctypes.c_uint64
    hashes = stable_hash_column(pa.array(range(100_000)))
    numbers = np.flatnonzero(hashes % np.uint64(128) == 5)
    index = native.load(tested_library).integer_index()
    assert index.slots(numbers).slots.tolist() == list(range(len(numbers)))
    assert isinstance(index, native.NativeIntegerIndex)
    assert library.mk_index_distance(index._handle) < 2 * len(numbers)


def test_memory_is_reused(kernels: Kernels) -> None:
    """Keys that come and go take the memory of those that are there at a time."""
    index = kernels.integer_index()
    for start in range(0, 200_000, 1000):
        keys = np.arange(start, start + 1000)
        index.slots(keys)
        index.remove(keys)
        if not start:
            most = index.nbytes
    assert (len(index), index.bound) == (0, 1000)
    assert index.nbytes <= 2 * most


def test_slots_that_are_not_in_use_are_refused(kernels: Kernels) -> None:
    index = kernels.integer_index()
    index.slots(array([7, 8, 9]))
    index.remove(array([8]))
    assert index.keys(array([2, 0, 2])).tolist() == [9, 7, 9]
    for slot in (1, 3, -1, 2**62):
        with pytest.raises(ValueError, match="a slot is not in use"):
            index.keys(array([0, slot]))


@pytest.mark.parametrize(
    "keys", [[1, 2], np.array([1.0]), np.array([1], np.int32), np.array([1], np.uint64), np.array([[1]])], ids=repr
)
def test_other_types_than_int64_are_refused(kernels: Kernels, keys: Any) -> None:
    index = kernels.integer_index()
    for call in (index.slots, index.find, index.remove, index.keys):
        with pytest.raises(TypeError, match="one-dimensional array of int64"):
            call(keys)
    assert len(index) == 0


def test_every_second_element_of_an_array_are_keys(kernels: Kernels) -> None:
    index = kernels.integer_index()
    assert index.slots(np.arange(10)[::2]).slots.tolist() == [0, 1, 2, 3, 4]
    assert index.keys(index.used()).tolist() == [0, 2, 4, 6, 8]
