"""Keys, key groups and subtasks.

A key's hash is the same in every process, Python version and machine, and the same for a Python value and for that
value in an Arrow column. Keys that are equal in Python (`1`, `1.0`, `True`) hash alike, so they are one key. Key group
g of M belongs to subtask `g * parallelism // M`.

The hash: integers (and floats with an integral value) are mixed by the finaliser of splitmix64; strings and bytes
by CRC-32 of their bytes, then mixed; other floats by their bits; composites by folding their fields' hashes. Keys of
all other types have the hash of their canonical value: see `key_values`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.kernels.loading import kernels
from millstream.core.keys.key_values import UnhashableKeyError, canonical_value
from millstream.core.records.conversion import in_microseconds
from millstream.core.row import Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["UnhashableKeyError"]

LOWEST_MAX_PARALLELISM = 128
HIGHEST_MAX_PARALLELISM = 32768

_MASK = (1 << 64) - 1
_NULL = 0x9E3779B97F4A7C15
_TEXT = 0x517CC1B727220A95
_BINARY = 0x2545F4914F6CDD1D
_FRACTION = 0x6A09E667F3BCC909
_FOLD = 0x100000001B3


def default_max_parallelism(parallelism: int) -> int:
    """Flink's rule: one and a half times the parallelism, rounded up to a power of two, within the bounds."""
    wanted = parallelism + parallelism // 2
    return min(max(1 << max(wanted - 1, 0).bit_length(), LOWEST_MAX_PARALLELISM), HIGHEST_MAX_PARALLELISM)


def _mix(value: int) -> int:
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)


def stable_hash(key: Any) -> int:
    """Returns an unsigned 64-bit hash of a key."""
    kind = type(key)
    if kind is int or kind is bool:
        if -(1 << 63) <= key < 1 << 63:
            return _mix(key & _MASK)
        return _mix(zlib.crc32(str(key).encode()) ^ _BINARY)
    if kind is str:
        return _mix(zlib.crc32(key.encode("utf-8", "surrogatepass")) ^ _TEXT)
    if kind is float:
        if key.is_integer():
            return stable_hash(int(key))
        bits = struct.unpack("<Q", struct.pack("<d", key if key == key else float("nan")))[0]
        return _mix(bits ^ _FRACTION)
    if key is None:
        return _NULL
    if kind is bytes:
        return _mix(zlib.crc32(key) ^ _BINARY)
    if kind in (tuple, list, Row):
        result = len(key)
        for item in key:
            result = _mix((result * _FOLD & _MASK) ^ stable_hash(item))
        return result
    return stable_hash(canonical_value(key))


def key_group_of(key: Any, max_parallelism: int) -> int:
    """Returns the key group of a key."""
    return stable_hash(key) % max_parallelism


def subtask_of(key_group: int, max_parallelism: int, parallelism: int) -> int:
    """Returns the subtask that owns a key group."""
    return key_group * parallelism // max_parallelism


def key_group_range(subtask: int, max_parallelism: int, parallelism: int) -> range:
    """Returns the key groups that a subtask owns."""
    start = -(-subtask * max_parallelism // parallelism)
    end = -(-(subtask + 1) * max_parallelism // parallelism)
    return range(start, end)


def stable_hash_column(column: Any) -> npt.NDArray[np.uint64]:
    """Returns the hashes of an Arrow array's values: the same as `stable_hash` of each value."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_struct(kind):
        fields = [stable_hash_column(child) for child in column.flatten()]
        hashes = combine_hashes(fields) if fields else _zeros(len(column))
    elif pa.types.is_dictionary(kind):
        hashes = kernels().hash_encoded(stable_hash_column(column.dictionary), column.indices)
    else:
        column = in_microseconds(column)
        hashes = _hash_scalars(column)
    return hashed_nulls(column, hashes)


def stable_hashes(keys: Sequence[Any]) -> npt.NDArray[np.uint64] | None:
    """Returns the hashes of keys that are all integers of 64 bits, or all texts; None for others."""
    import numpy as np
    import pyarrow as pa

    kinds = set(map(type, keys))
    try:
        if kinds == {int}:
            return stable_hash_column(pa.array(np.fromiter(keys, np.int64, len(keys))))
        if kinds == {str}:
            return stable_hash_column(pa.array(keys, pa.large_string()))
    except (OverflowError, UnicodeEncodeError):  # a larger integer, or a text with half of a surrogate pair
        pass
    return None


def _zeros(count: int) -> npt.NDArray[np.uint64]:
    import numpy as np

    return np.zeros(count, np.uint64)


def hashed_nulls(column: Any, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Returns the hashes of a column, with that of None for its nulls. It may write to `hashes`."""
    return kernels().hash_nulls(column, _NULL, hashes) if column.null_count else hashes


def _hash_scalars(column: Any) -> npt.NDArray[np.uint64]:
    """Hashes values that are not composite; the hashes of nulls are undefined."""
    import numpy as np
    import pyarrow as pa

    kinds, kind = pa.types, column.type
    if kinds.is_uint64(kind):
        return _hash_unsigned(column)
    if kinds.is_integer(kind):
        return kernels().hash_integers(column)
    if kinds.is_boolean(kind) or kinds.is_date32(kind):
        return kernels().hash_integers(column.cast(pa.int8() if kinds.is_boolean(kind) else pa.int32()))
    for test, exact in (
        (kinds.is_timestamp, pa.timestamp("us", getattr(kind, "tz", None))), (kinds.is_time, pa.time64("us")),
        (kinds.is_duration, pa.duration("us")),
    ):  # fmt: skip
        if test(kind):
            return kernels().hash_integers(column.cast(exact).cast(pa.int64()))
    if kinds.is_floating(kind):
        return _hash_floats(_numbers(column, 0.0).astype(np.float64))
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return kernels().hash_texts(column, _TEXT)
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return kernels().hash_texts(column, _BINARY)
    return np.fromiter(map(stable_hash, column.to_pylist()), np.uint64, len(column))


def _hash_unsigned(column: Any) -> npt.NDArray[np.uint64]:
    """Hashes unsigned integers of 64 bits. Those beyond the signed ones are hashed one by one."""
    import numpy as np

    hashes, values = kernels().hash_integers(column), _numbers(column, 0)
    for row in np.flatnonzero(values > np.uint64((1 << 63) - 1)):
        hashes[row] = stable_hash(int(values[row]))
    return hashes


def _numbers(column: Any, null: Any) -> npt.NDArray[Any]:
    filled = column.fill_null(null) if column.null_count else column
    numbers: npt.NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return numbers


def _hash_floats(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    import numpy as np
    import pyarrow as pa

    whole = np.isfinite(values) & (np.floor(values) == values)
    small = whole & (np.abs(values) < 2.0**63)
    bits = np.where(np.isnan(values), np.float64("nan"), values).view(np.uint64)
    integers = np.where(small, values, 0.0).astype(np.int64).view(np.uint64)
    hashes = kernels().hash_integers(pa.array(np.where(small, integers, bits ^ np.uint64(_FRACTION))))
    for row in np.flatnonzero(whole & ~small):
        hashes[row] = stable_hash(float(values[row]))
    return hashes


def combine_hashes(columns: list[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    """Combines the hashes of columns to those of composite keys: the same as `stable_hash` of each tuple."""
    return kernels().hash_composite(columns)
