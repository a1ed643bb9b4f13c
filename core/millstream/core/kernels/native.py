"""The kernels of the native library, which the build hook compiles from `kernels.c`, called by ctypes.

Calls take a microsecond, and release the interpreter lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.core.kernels.native_calls import OUTSIDE_OF_DATA, address, buffer, checked, declare, text_buffers
from millstream.core.kernels.native_index import NativeBytesIndex, NativeIntegerIndex
from millstream.core.kernels.native_keys import encode_keys

if TYPE_CHECKING:
    from millstream.core.kernels.contract import BytesIndex, Hashes, IntegerIndex

LIBRARY = Path(__file__).parent / "built" / "kernels.so"
"""What the build hook compiles."""

ABI = 3
"""Is changed together with MK_ABI of `kernels.c`."""


def load(path: Path = LIBRARY) -> NativeKernels:
    """Loads the library. Raises an OSError when that is not possible, or when it is one of another version."""
    library = ctypes.CDLL(str(path))
    try:
        found = library.mk_abi()
        if found != ABI:
            raise OSError(f"{path} has version {found} of the interface, not {ABI}: install Millstream again")
        declare(library)
    except AttributeError as error:
        raise OSError(f"{path} is not the library of the kernels: {error}") from error
    library.mk_start()
    return NativeKernels(library)


class NativeKernels:
    """Implements `Kernels`."""

    name = "native"

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._hash_integers = library.mk_hash_integers
        self._hash_texts = library.mk_hash_texts
        self._hash_encoded = library.mk_hash_encoded
        self._hash_nulls = library.mk_hash_nulls
        self._hash_fold = library.mk_hash_fold

    def hash_integers(self, column: Any) -> Hashes:
        """See `Kernels`."""
        count = len(column)
        hashes = np.empty(count, np.uint64)
        values = column.buffers()[1]
        if count:
            checked(
                self._hash_integers(*buffer(values), _width(column.type), column.offset, count, address(hashes)),
                "an array's values are outside of its buffer",
            )
        return hashes

    def hash_texts(self, column: Any, tag: int) -> Hashes:
        """See `Kernels`."""
        hashes = np.empty(len(column), np.uint64)
        checked(self._hash_texts(*text_buffers(column), tag, address(hashes)), OUTSIDE_OF_DATA)
        return hashes

    def hash_encoded(self, known: Hashes, indices: Any) -> Hashes:
        """See `Kernels`."""
        count, known = len(indices), np.ascontiguousarray(known)
        hashes = np.empty(count, np.uint64)
        validity, values = indices.buffers()
        if count:
            checked(
                self._hash_encoded(
                    address(known), len(known), *buffer(values), _width(indices.type), *buffer(validity),
                    indices.offset, count, address(hashes),
                ),
                "an index is outside of the dictionary",
            )  # fmt: skip
        return hashes

    def hash_nulls(self, column: Any, null: int, hashes: Hashes) -> Hashes:
        """See `Kernels`."""
        if not column.null_count:
            return hashes
        validity = column.buffers()[0]
        if validity is None:  # a type without a bitmap
            return np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(null), hashes)
        hashes = np.require(hashes, np.uint64, ["C", "A", "W"])
        checked(
            self._hash_nulls(*buffer(validity), column.offset, len(column), null, address(hashes)),
            "an array's validity is outside of its buffer",
        )
        return hashes

    def hash_composite(self, fields: list[Hashes]) -> Hashes:
        """See `Kernels`."""
        count = len(fields[0])
        hashes = np.full(count, len(fields), np.uint64)
        for field in fields:
            if len(field) != count:
                raise ValueError(f"one field has {len(field)} values, another {count}")
            field = np.require(field, np.uint64, ["C", "A"])
            self._hash_fold(address(field), count, address(hashes))
        return hashes

    def encode_keys(self, columns: Sequence[Any]) -> Any:
        """See `Kernels`."""
        return encode_keys(self._library, columns)

    def integer_index(self) -> IntegerIndex:
        """See `Kernels`."""
        return NativeIntegerIndex(self._library)

    def bytes_index(self) -> BytesIndex:
        """See `Kernels`."""
        return NativeBytesIndex(self._library)


def _width(type: Any) -> int:
    """Bytes of an integer type, negative for a signed one."""
    import pyarrow as pa

    width: int = type.bit_width // 8
    return -width if pa.types.is_signed_integer(type) else width
