"""The index of bytes against a dictionary and a plain loop: any calls, batches with duplicates, growth, slices."""

from __future__ import annotations

import ctypes
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
from millstream.core.kernels.contract import BytesIndex, Kernels

TYPES = [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()]
KEYS = st.text("ab", max_size=9) | st.text("ä€\0", max_size=3) | st.text("x", min_size=900, max_size=910)
BATCHES = st.lists(KEYS, max_size=50) | st.builds(
    lambda start, count, length: [f"{at:0{length}}" for at in range(start, start + count)],
    st.integers(0, 3000), st.integers(0, 1000), st.sampled_from([1, 8, 13, 40]),
)  # fmt: skip


def machine(kernels: Kernels) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.index: BytesIndex = kernels.bytes_index()
            self.model = SlotsModel()

        @rule(batch=BATCHES, kind=st.sampled_from(TYPES), start=st.integers(0, 3))
        def add(self, batch: list[str], kind: pa.DataType, start: int) -> None:
            slots, rows = self.index.slots(pa.array(batch, kind)[start:])
            assert (slots.tolist(), rows.tolist()) == self.model.slots(batch[start:])

        @rule(batch=BATCHES, kind=st.sampled_from(TYPES), start=st.integers(0, 3))
        def find(self, batch: list[str], kind: pa.DataType, start: int) -> None:
            assert self.index.find(pa.array(batch, kind)[start:]).tolist() == self.model.find(batch[start:])

        @rule(batch=BATCHES, kind=st.sampled_from(TYPES))
        def remove(self, batch: list[str], kind: pa.DataType) -> None:
            assert self.index.remove(pa.array(batch, kind)).tolist() == self.model.remove(batch)

        @rule(left=st.integers(0, 50))
        def remove_most(self, left: int) -> None:
            batch = list(self.model.slot_of)[left:]
            assert self.index.remove(pa.array(batch, pa.string())).tolist() == self.model.remove(batch)

        @invariant()
        def exports_all(self) -> None:
            by_slot = self.model.keys_by_slot()
            used = self.index.used()
            assert used.tolist() == list(by_slot)
            assert self.index.keys(used).cast(pa.large_string()).to_pylist() == list(by_slot.values())
            assert (len(self.index), self.index.bound) == (len(by_slot), self.model.bound)

    return Machine


def test_it_does_what_a_dictionary_does(kernels: Kernels) -> None:
    run_state_machine_as_test(machine(kernels), settings=settings(stateful_step_count=20))


def test_keys_of_the_same_hash_are_different_by_their_bytes(tested_library: Path) -> None:
    library = ctypes.CDLL(str(tested_library))
    library.mk_keep_bits.argtypes = [ctypes.c_uint64]
    library.mk_keep_bits(0b111 << 61)
    try:
        kernels = native.load(tested_library)
        index, texts = kernels.bytes_index(), [f"{at}" for at in range(300)]
        assert index.slots(pa.array(texts[:200])).slots.tolist() == list(range(200))
        assert index.find(pa.array(texts)).tolist() == [*range(200), *[-1] * 100]
        assert index.remove(pa.array(texts[100:])).tolist() == [*range(100, 200), *[-1] * 100]
        assert index.find(pa.array(texts)).tolist() == [*range(100), *[-1] * 200]
        run_state_machine_as_test(machine(kernels), settings=settings(stateful_step_count=10, max_examples=10))
    finally:
        library.mk_keep_bits(2**64 - 1)


def test_bytes_of_each_length_are_different_keys(kernels: Kernels) -> None:
    keys = [byte * length for byte in (b"\0", b"\1") for length in range(1, 70)] + [b""]
    index = kernels.bytes_index()
    assert index.slots(pa.array(keys)).slots.tolist() == list(range(len(keys)))
    assert index.find(pa.array(keys[::-1])).tolist() == list(range(len(keys)))[::-1]
    assert index.find(pa.array([b"\0" * 70, b"\2"])).tolist() == [-1, -1]


def test_keys_that_differ_in_one_byte_are_different(kernels: Kernels) -> None:
    """At any place: the hash depends on all bytes."""
    for length in (1, 3, 5, 7, 8, 9, 17, 31):
        keys = [bytes(length)] + [bytes(at) + b"\1" + bytes(length - at - 1) for at in range(length)]
        index = kernels.bytes_index()
        assert index.slots(pa.array(keys)).slots.tolist() == list(range(length + 1))


def test_memory_of_removed_keys_is_reused(kernels: Kernels) -> None:
    index, most = kernels.bytes_index(), 0
    for start in range(0, 50_000, 1000):
        keys = pa.array([f"{at:0100}" for at in range(start, start + 1000)])
        index.slots(keys)
        most = most or index.nbytes
        if start:
            index.remove(pa.array([f"{at:0100}" for at in range(start - 1000, start)]))
    assert (len(index), index.bound) == (1000, 2000)
    assert index.keys(index.used()).to_pylist() == [f"{at:0100}".encode() for at in [*range(49_000, 50_000)]]
    assert index.nbytes <= 6 * most, "dead bytes are at most half, and room is doubled when it is not enough"


def test_slots_that_are_not_in_use_are_refused(kernels: Kernels) -> None:
    index = kernels.bytes_index()
    index.slots(pa.array(["a", "b", ""]))
    index.remove(pa.array(["b"]))
    assert index.keys(np.array([2, 0, 2])).to_pylist() == [b"", b"a", b""]
    for slot in (1, 3, -1, 2**62):
        with pytest.raises(ValueError, match="a slot is not in use"):
            index.keys(np.array([0, slot]))


@pytest.mark.parametrize(
    "keys", [["a"], pa.array([1]), np.array([b"a"]), pa.array(["a"]).dictionary_encode(), pa.chunked_array([["a"]])],
    ids=lambda keys: type(keys).__name__,
)  # fmt: skip
def test_what_is_no_array_of_texts_is_refused(kernels: Kernels, keys: Any) -> None:
    index = kernels.bytes_index()
    for call in (index.slots, index.find, index.remove):
        with pytest.raises(TypeError, match="an Arrow array of strings or binaries"):
            call(keys)


def test_nulls_are_refused_before_anything_changes(kernels: Kernels) -> None:
    index = kernels.bytes_index()
    for call in (index.slots, index.find, index.remove):
        with pytest.raises(ValueError, match="a null is no key of an index"):
            call(pa.array(["a", None]))
    assert len(index) == 0


def test_offsets_outside_of_the_data_are_refused_before_anything_changes(kernels: Kernels) -> None:
    if kernels.name == "numpy":
        pytest.skip("NumPy is given arrays of Arrow, which trusts what it finds in them")
    index = kernels.bytes_index()
    for offsets in ([0, 2, 1, 3], [0, -1, 2, 3], [0, 9, 1, 3]):
        buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abc")]
        for call in (index.slots, index.find, index.remove):
            with pytest.raises(ValueError, match="outside of its data"):
                call(pa.Array.from_buffers(pa.string(), 3, buffers))
        with pytest.raises(ValueError, match="outside of its data"):
            index.find(pa.Array.from_buffers(pa.string(), 3, buffers)[: 1 if offsets[1] == 9 else 2])
    assert len(index) == 0
