"""Keys of several columns, or of one with nulls, as bytes: what an index of them takes, and how they are read again.

The bytes of a key are those of its fields, one after the other: each a 1 and the value, or a 0 for null. A value of
variable length has this before it, as four bytes, the lowest first. So equal keys, and no others, are equal bytes.
Floats are refused: two zeros, and many NaN, are equal without having equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from millstream.core.kernels.contract import Integers

LENGTH = 4
"""The bytes of a length."""


def is_text(kind: Any) -> bool:
    """Whether a type is one of (large) strings or binaries."""
    import pyarrow as pa

    return kind in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())


def checked_columns(columns: Sequence[Any]) -> list[Any]:
    """Returns the columns of keys with a byte for each truth value.

    Raises a TypeError for types that keys cannot have, and a ValueError unless all have the same length.
    """
    import pyarrow as pa

    of = pa.types
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"the columns of keys have {', '.join(str(len(c)) for c in columns) or 'no'} values")
    checked = []
    for column in columns:
        kind = column.type
        has_width = of.is_primitive(kind) and not of.is_floating(kind)
        if of.is_boolean(kind):
            column = column.cast(pa.uint8())
        elif not (has_width or of.is_decimal(kind) or is_text(kind)):
            raise TypeError(f"a key cannot have a field of {kind}")
        checked.append(column)
    return checked


def width_of(kind: Any) -> int:
    """The bytes of a value of fixed length."""
    width: int = kind.bit_width // 8
    return width


def decode_keys(encoded: Any, types: Sequence[Any]) -> list[Any]:
    """Returns the columns, of these types, of keys that were encoded: large binaries."""
    import pyarrow as pa

    _, offsets, buffer = encoded.buffers()
    count = len(encoded)
    data = np.frombuffer(buffer, np.uint8) if buffer is not None and buffer.size else np.empty(0, np.uint8)
    places = np.frombuffer(offsets, np.int64)[encoded.offset : encoded.offset + count].copy() if count else _none()
    return [_decoded(data, places, pa.uint8() if pa.types.is_boolean(kind) else kind).cast(kind) for kind in types]


def bytes_at(starts: Integers, lengths: Integers) -> Integers:
    """The places of all bytes of spans, one span after the other."""
    ends = np.cumsum(lengths)
    places: Integers = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)
    return places


def _none() -> Integers:
    return np.empty(0, np.int64)


def _decoded(data: npt.NDArray[np.uint8], places: Integers, kind: Any) -> Any:
    """One column; `places` is where the field of each key begins, and moves on to the next field."""
    import pyarrow as pa

    valid = data[places] == 1
    places += 1
    rows = np.flatnonzero(valid)
    validity = None if len(rows) == len(places) else pa.array(valid).buffers()[1]
    if not is_text(kind):
        width = width_of(kind)
        values = np.zeros((len(places), width), np.uint8)
        values[rows] = data[places[rows, None] + np.arange(width)]
        places[rows] += width
        return pa.Array.from_buffers(kind, len(places), [validity, pa.py_buffer(values)])
    lengths = np.zeros(len(places), np.int64)
    lengths[rows] = data[places[rows, None] + np.arange(LENGTH)].view("<u4")[:, 0]
    places[rows] += LENGTH
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    values = data[bytes_at(places, lengths)]
    places += lengths
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(values)]
    return pa.Array.from_buffers(pa.large_binary(), len(places), buffers).cast(kind)
