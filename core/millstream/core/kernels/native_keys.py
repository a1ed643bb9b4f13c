"""The encoding of keys by the native library: the lengths of all columns first, and then their bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from millstream.core.kernels.key_encoding import checked_columns, is_text, width_of
from millstream.core.kernels.native_calls import OUTSIDE_OF_DATA, address, buffer, checked, text_buffers

_TOO_LONG = f"{OUTSIDE_OF_DATA}, or a field of a key has more than 4 GiB"


def encode_keys(library: ctypes.CDLL, columns: Sequence[Any]) -> Any:
    """See `Kernels`."""
    import pyarrow as pa

    fields = checked_columns(columns)
    count = len(fields[0])
    offsets = np.zeros(count + 1, np.int64)
    lengths = offsets[1:]
    for field in fields:
        if count and is_text(field.type):
            code = library.mk_key_text_lengths(*text_buffers(field), *_validity(field), address(lengths))
            checked(code, _TOO_LONG)
        elif count:
            code = library.mk_key_lengths(
                *_validity(field), field.offset, count, width_of(field.type), address(lengths)
            )  # fmt: skip
            checked(code, OUTSIDE_OF_DATA)
    np.cumsum(lengths, out=lengths)
    keys, ends = np.empty(offsets[-1], np.uint8), offsets[:-1].copy()
    for field in fields:
        validity = _validity(field)[0]
        if count and is_text(field.type):
            library.mk_key_write_texts(*text_buffers(field), validity, address(ends), address(keys))
        elif count:
            width, values = width_of(field.type), field.buffers()[1]
            code = library.mk_key_write(
                *buffer(values), width, validity, field.offset, count, address(ends), address(keys)
            )
            checked(code, "an array's values are outside of its buffer")
    return pa.Array.from_buffers(pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(keys)])


def _validity(column: Any) -> tuple[int | None, int]:
    return buffer(column.buffers()[0]) if column.null_count else (None, 0)
