"""The kernels with NumPy, for where there is no native library. They return the same, several times slower."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.core.kernels.twin_bytes_index import NumpyBytesIndex
from millstream.core.kernels.twin_index import NumpyIntegerIndex, mixed
from millstream.core.kernels.twin_keys import encode_keys

if TYPE_CHECKING:
    import numpy.typing as npt

    from millstream.core.kernels.contract import BytesIndex, Hashes, IntegerIndex

_FOLD = np.uint64(0x100000001B3)


class NumpyKernels:
    """Implements `Kernels`."""

    name = "numpy"

    def hash_integers(self, column: Any) -> Hashes:
        """See `Kernels`."""
        filled = column.fill_null(0) if column.null_count else column
        numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
        return mixed(numbers.astype(np.int64).view(np.uint64))

    def hash_texts(self, column: Any, tag: int) -> Hashes:
        """See `Kernels`. Each distinct value is hashed once."""
        import pyarrow as pa

        encoded = column.dictionary_encode()
        values = encoded.dictionary
        wide = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
        sums = map(zlib.crc32, values.cast(pa.large_binary() if wide else pa.binary()).to_pylist())
        return self.hash_encoded(mixed(np.fromiter(sums, np.uint64, len(values)) ^ np.uint64(tag)), encoded.indices)

    def hash_encoded(self, known: Hashes, indices: Any) -> Hashes:
        """See `Kernels`."""
        if indices.null_count == len(indices):
            return np.zeros(len(indices), np.uint64)
        places = indices.fill_null(0).to_numpy(zero_copy_only=False)
        if len(places) and (places.min() < 0 or places.max() >= len(known)):
            raise ValueError("an index is outside of the dictionary")
        hashes: Hashes = known[places]
        return hashes

    def hash_nulls(self, column: Any, null: int, hashes: Hashes) -> Hashes:
        """See `Kernels`."""
        if not column.null_count:
            return hashes
        return np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(null), hashes)

    def hash_composite(self, fields: list[Hashes]) -> Hashes:
        """See `Kernels`."""
        hashes = np.full(len(fields[0]), len(fields), np.uint64)
        for field in fields:
            hashes = mixed((hashes * _FOLD) ^ field)
        return hashes

    def encode_keys(self, columns: Sequence[Any]) -> Any:
        """See `Kernels`."""
        return encode_keys(columns)

    def integer_index(self) -> IntegerIndex:
        """See `Kernels`."""
        return NumpyIntegerIndex()

    def bytes_index(self) -> BytesIndex:
        """See `Kernels`."""
        return NumpyBytesIndex()
