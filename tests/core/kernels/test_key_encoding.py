"""The encoding of keys against tuples of Python: equal keys have equal bytes, and all can be read again."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.kernels.contract import Kernels
from millstream.core.kernels.key_encoding import decode_keys
from millstream.core.kernels.twin import NumpyKernels

TEXTS = st.text("ab\0€", max_size=4)
FIELDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-3, 3)),
    (pa.int16(), st.integers(-3, 3)),
    (pa.int32(), st.integers(-3, 3)),
    (pa.int64(), st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates(datetime.date(1969, 12, 30), datetime.date(1970, 1, 2))),
    (pa.time64("us"), st.sampled_from([datetime.time(0), datetime.time(23, 59, 59, 999_999)])),
    (pa.timestamp("us", "UTC"), st.sampled_from([datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC)])),
    (pa.decimal128(38, 18), st.sampled_from([Decimal(0), Decimal("-1.5"), Decimal("1e-18")])),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.binary(), st.binary(max_size=3)),
    (pa.large_binary(), st.binary(max_size=3)),
]


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[pa.DataType], list[tuple[Any, ...]], int]:
    fields = draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*(st.none() | values for _, values in fields)), max_size=12))
    return [kind for kind, _ in fields], rows, draw(st.integers(0, 3))


def columns_of(types: list[pa.DataType], rows: list[tuple[Any, ...]], start: int = 0) -> list[Any]:
    """Slices, whose values do not begin where their buffers do."""
    return [pa.array([row[number] for row in rows], kind)[start:] for number, kind in enumerate(types)]


@given(given=keys())
def test_equal_keys_are_equal_bytes_and_are_read_again(
    kernels: Kernels, given: tuple[list[pa.DataType], list[tuple[Any, ...]], int]
) -> None:
    types, rows, start = given
    columns = columns_of(types, rows, start)
    encoded = kernels.encode_keys(columns)
    rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len(encoded) == len(rows)
    assert len(set(encoded.to_pylist())) == len(set(rows))
    assert len(set(zip(encoded.to_pylist(), rows, strict=True))) == len(set(rows))
    assert encoded.equals(NumpyKernels().encode_keys(columns))
    for cut in (0, 1):
        decoded = decode_keys(encoded[cut:], types)
        assert [column.type for column in decoded] == types
        assert [column.to_pylist() for column in decoded] == [column.to_pylist()[cut:] for column in columns]


def test_what_a_null_hides_does_not_matter(kernels: Kernels) -> None:
    validity = pa.array([False, True]).buffers()[1]
    hidden = pa.Array.from_buffers(pa.int64(), 2, [validity, pa.py_buffer(np.array([7, 8]))])
    text = pa.Array.from_buffers(
        pa.string(), 2, [validity, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"xy")]
    )
    plain = [pa.array([None, 8], pa.int64()), pa.array([None, "y"])]
    assert kernels.encode_keys([hidden, text]).equals(kernels.encode_keys(plain))


@pytest.mark.parametrize(
    "column",
    [pa.array([1.5]), pa.array([[1]]), pa.array([{"a": 1}]), pa.nulls(1), pa.array(["a"]).dictionary_encode()],
    ids=lambda column: str(column.type),
)  # fmt: skip
def test_types_that_keys_cannot_have_are_refused(kernels: Kernels, column: Any) -> None:
    with pytest.raises(TypeError, match="a key cannot have a field of"):
        kernels.encode_keys([column])


@pytest.mark.parametrize("columns", [[], [pa.array([1]), pa.array(["a", "b"])]], ids=["none", "one, two"])
def test_columns_of_other_lengths_are_refused(kernels: Kernels, columns: list[Any]) -> None:
    with pytest.raises(ValueError, match="the columns of keys have"):
        kernels.encode_keys(columns)


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [0, -1, 2, 3], [0, 9, 1, 3]], ids=str)
def test_offsets_outside_of_the_data_are_refused(kernels: Kernels, offsets: list[int]) -> None:
    if kernels.name == "numpy":
        pytest.skip("NumPy is given arrays of Arrow, which trusts what it finds in them")
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"abc")]
    with pytest.raises(ValueError, match="outside of its data"):
        kernels.encode_keys([pa.array([1, 2, 3]), pa.Array.from_buffers(pa.string(), 3, buffers)])
