"""The encoding of keys with NumPy: a column at a time, by the places of all its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.core.kernels.key_encoding import LENGTH, bytes_at, checked_columns, is_text, width_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from millstream.core.kernels.contract import Integers


def encode_keys(columns: Sequence[Any]) -> Any:
    """See `Kernels`."""
    import pyarrow as pa

    fields = list(map(_Field, checked_columns(columns)))
    offsets = np.zeros(len(columns[0]) + 1, np.int64)
    np.cumsum(sum(field.sizes for field in fields), out=offsets[1:])
    keys, places = np.empty(offsets[-1], np.uint8), offsets[:-1].copy()
    for field in fields:
        field.write(keys, places)
    return pa.Array.from_buffers(pa.large_binary(), len(places), [None, pa.py_buffer(offsets), pa.py_buffer(keys)])


class _Field:
    """One column of the keys."""

    def __init__(self, column: Any) -> None:
        import pyarrow as pa

        self._valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
        self._column = column
        self._lengths: Integers | None = None
        if is_text(column.type):
            wide = column.cast(pa.large_binary())
            self._column = wide
            spans = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
            self._starts, self._lengths = spans[:-1], np.where(self._valid, np.diff(spans), 0)
        width = LENGTH if self._lengths is not None else width_of(column.type)
        self.sizes: Any = 1 + np.where(self._valid, width, 0) + (0 if self._lengths is None else self._lengths)

    def write(self, keys: npt.NDArray[np.uint8], places: Integers) -> None:
        """Writes the field of each key to its place, and moves that on."""
        keys[places] = self._valid
        rows = np.flatnonzero(self._valid)
        at = places[rows, None] + 1
        values = self._column.buffers()[-1]
        data = np.empty(0, np.uint8) if values is None else np.frombuffer(values, np.uint8)
        if self._lengths is None:
            width = width_of(self._column.type)
            source = (self._column.offset + rows)[:, None] * width + np.arange(width)
            keys[at + np.arange(width)] = data[source]
        else:
            keys[at + np.arange(LENGTH)] = self._lengths[rows].astype("<u4").view(np.uint8).reshape(-1, LENGTH)
            lengths = self._lengths[rows]
            keys[bytes_at(at[:, 0] + LENGTH, lengths)] = data[bytes_at(self._starts[rows], lengths)]
        places += self.sizes
