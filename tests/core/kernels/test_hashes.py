"""The hashes of columns are those of their values, with either implementation, and from any slice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millstream.core.kernels.contract import Kernels
from millstream.core.keys import key_groups
from millstream.core.keys.key_groups import stable_hash, stable_hash_column

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]


@pytest.fixture
def _used(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_groups, "kernels", lambda: kernels)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_integer(kind):
        bits, low = kind.bit_width, 0
        if pa.types.is_signed_integer(kind):
            bits, low = bits - 1, -(1 << bits - 1)
        high = (1 << bits) - 1
        return st.integers(low, high) | st.sampled_from([low, high, 0, 1])
    texts = st.text(max_size=40) | st.text("ab", min_size=100, max_size=120)
    return texts if kind in (pa.string(), pa.large_string()) else texts.map(str.encode) | st.binary()


def arrays(kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    """Slices of arrays, with and without nulls."""

    def cut(values: list[Any], start: int, end: int) -> pa.Array:
        return pa.array(values, kind)[start : len(values) - end]

    values = st.lists(values_of(kind), max_size=40) | st.lists(st.none() | values_of(kind), max_size=40)
    return st.builds(cut, values, st.integers(0, 9), st.integers(0, 9))


def same_as_values(column: pa.Array) -> None:
    assert stable_hash_column(column).tolist() == [stable_hash(value) for value in column.to_pylist()]


@pytest.mark.usefixtures("_used")
@pytest.mark.parametrize("kind", INTEGERS + TEXTS, ids=str)
def test_a_column_hashes_as_its_values(kernels: Kernels, kind: pa.DataType) -> None:
    @given(arrays(kind))
    @example(pa.array([], kind))
    @example(pa.array([None] * 20, kind))
    def check(column: pa.Array) -> None:
        same_as_values(column)

    check()


@pytest.mark.usefixtures("_used")
def test_a_dictionary_hashes_as_its_values(kernels: Kernels) -> None:
    @given(st.sampled_from([pa.string(), pa.large_binary(), pa.int64(), pa.uint64()]), st.data())
    def check(kind: pa.DataType, data: st.DataObject) -> None:
        dictionary = data.draw(st.lists(st.none() | values_of(kind), min_size=1, max_size=9))
        places = data.draw(st.lists(st.none() | st.integers(0, len(dictionary) - 1), max_size=40))
        start = data.draw(st.integers(0, len(places)))
        indices = pa.array(places, data.draw(st.sampled_from(INTEGERS)))
        same_as_values(pa.DictionaryArray.from_arrays(indices, pa.array(dictionary, kind))[start:])

    check()


@pytest.mark.usefixtures("_used")
def test_a_dictionary_of_nothing_hashes_as_nulls(kernels: Kernels) -> None:
    same_as_values(pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int32()), pa.array([], pa.string())))


@pytest.mark.usefixtures("_used")
def test_composites_hash_as_tuples(kernels: Kernels) -> None:
    inner = st.fixed_dictionaries({"x": st.none() | values_of(pa.int32())})
    row = st.fixed_dictionaries(
        {"a": st.none() | values_of(pa.int64()), "b": st.none() | st.text(), "c": st.none() | inner}
    )
    kind = pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.struct([("x", pa.int32())]))])

    def as_key(value: Any) -> Any:
        return tuple(map(as_key, value.values())) if isinstance(value, dict) else value

    @given(st.lists(st.none() | row, max_size=30), st.integers(0, 9))
    def check(rows: list[Any], start: int) -> None:
        column = pa.array(rows, kind)[start:]
        assert stable_hash_column(column).tolist() == [stable_hash(as_key(row)) for row in column.to_pylist()]

    check()


@pytest.mark.usefixtures("_used")
def test_a_composite_without_fields_hashes_as_the_empty_tuple(kernels: Kernels) -> None:
    column = pa.array([{}, None, {}], pa.struct([]))
    assert stable_hash_column(column).tolist() == [stable_hash(()), stable_hash(None), stable_hash(())]


@pytest.mark.usefixtures("_used")
def test_values_at_odd_addresses_are_read(kernels: Kernels) -> None:
    """Buffers that come from files or messages need not be aligned."""
    numbers = np.arange(-3, 4)
    for kind in (np.int16, np.int32, np.int64):
        data = pa.py_buffer(b"x" + numbers.astype(kind).tobytes()).slice(1)
        same_as_values(pa.Array.from_buffers(pa.from_numpy_dtype(kind), len(numbers), [None, data]))
    offsets = pa.py_buffer(b"x" + np.array([0, 2, 2, 11], np.int32).tobytes()).slice(1)
    same_as_values(pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abcdefghijk")]))


def test_what_is_outside_of_a_buffer_is_refused_and_not_read(kernels: Kernels) -> None:
    if kernels.name == "numpy":
        pytest.skip("NumPy is given arrays of Arrow, which trusts what it finds in them")
    data = pa.py_buffer(b"abc")
    for kind, width in ((pa.string(), np.int32), (pa.large_binary(), np.int64)):
        for offsets in ([0, 2, 1, 3], [0, -1, 2, 3], [0, 9, 1, 3]):
            text = pa.Array.from_buffers(kind, 3, [None, pa.py_buffer(np.array(offsets, width)), data])
            with pytest.raises(ValueError, match="outside of its data"):
                kernels.hash_texts(text, 0)
        with pytest.raises(ValueError, match="outside of its data"):
            kernels.hash_texts(text[:1], 0)  # from 0 to 9


def test_an_index_outside_of_its_dictionary_is_refused(kernels: Kernels) -> None:
    known = np.array([5, 6], np.uint64)
    assert kernels.hash_encoded(known, pa.array([1, 0, 1], pa.uint8())).tolist() == [6, 5, 6]
    for index in (2, -1, 2**40):
        with pytest.raises(ValueError, match="outside of the dictionary"):
            kernels.hash_encoded(known, pa.array([0, index]))


def test_fields_of_different_lengths_are_refused(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match=r"3|broadcast"):
        kernels.hash_composite([np.zeros(2, np.uint64), np.zeros(3, np.uint64)])


def test_a_text_of_each_length_has_the_sum_of_zlib(kernels: Kernels) -> None:
    texts = [bytes((7 * at + length) % 256 for at in range(length)) for length in range(70)]
    hashes = kernels.hash_texts(pa.array(texts, pa.binary()), key_groups._BINARY)
    assert hashes.tolist() == [stable_hash(text) for text in texts]
