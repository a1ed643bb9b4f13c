"""The index of bytes with Arrow and a dictionary: each distinct key of a batch is looked for once, in a loop."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.core.kernels.contract import Added
from millstream.core.kernels.twin_index import Slots

if TYPE_CHECKING:
    from millstream.core.kernels.contract import Integers


def checked_texts(keys: Any) -> Any:
    """Returns an Arrow array of texts or binaries. Raises a TypeError for any other, and a ValueError for nulls."""
    import pyarrow as pa

    if not isinstance(keys, pa.Array) or keys.type not in (
        pa.binary(), pa.large_binary(), pa.string(), pa.large_string()
    ):  # fmt: skip
        kind = keys.type if isinstance(keys, pa.Array) else type(keys).__name__
        raise TypeError(f"keys have to be an Arrow array of strings or binaries, not {kind}")
    if keys.null_count:
        raise ValueError("a null is no key of an index: encode it in the bytes of the key")
    return keys


class NumpyBytesIndex:
    """Implements `BytesIndex`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = Slots()
        self._slot_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return self._slots.count

    @property
    def bound(self) -> int:
        """See `Index`."""
        return self._slots.bound

    @property
    def nbytes(self) -> int:
        """See `Index`. A key has an object, and an entry in each dictionary."""
        return self._bytes + 200 * self._slots.count + self._slots.used.nbytes

    def used(self) -> Integers:
        """See `Index`."""
        with self._lock:
            return self._slots.in_use()

    def keys(self, slots: Integers) -> Any:
        """See `BytesIndex`."""
        import pyarrow as pa

        with self._lock:
            return pa.array(map(self._key_of.__getitem__, self._slots.checked(slots).tolist()), pa.large_binary())

    def find(self, keys: Any) -> Integers:
        """See `BytesIndex`."""
        different, which = _distinct(keys)
        with self._lock:
            return self._find(different)[which]

    def slots(self, keys: Any) -> Added:
        """See `BytesIndex`."""
        different, which = _distinct(keys)
        with self._lock:
            slots = self._find(different)
            missing = np.flatnonzero(slots < 0)
            slots[missing] = taken = self._slots.take(len(missing))
            for slot, at in zip(taken.tolist(), missing.tolist(), strict=True):
                key = different[at]
                self._slot_of[key], self._key_of[slot] = slot, key
                self._bytes += len(key)
            return Added(slots[which], _first_rows(which, len(different))[missing])

    def remove(self, keys: Any) -> Integers:
        """See `BytesIndex`."""
        different, which = _distinct(keys)
        with self._lock:
            found = self._find(different)
            present = np.flatnonzero(found >= 0)
            for at, slot in zip(present.tolist(), found[present].tolist(), strict=True):
                del self._slot_of[different[at]], self._key_of[slot]
                self._bytes -= len(different[at])
            self._slots.free(found[present])
            slots = np.full(len(which), -1, np.int64)
            slots[_first_rows(which, len(different))[present]] = found[present]
            return slots

    def _find(self, different: list[bytes]) -> Integers:
        return np.fromiter((self._slot_of.get(key, -1) for key in different), np.int64, len(different))


def _distinct(keys: Any) -> tuple[list[bytes], Integers]:
    """The different keys in the order in which they come first, and which of them each row has."""
    import pyarrow as pa

    encoded = checked_texts(keys).cast(pa.large_binary()).dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _first_rows(which: Integers, count: int) -> Integers:
    """The first row of each of the different keys."""
    rows = np.empty(count, np.int64)
    rows[which[::-1]] = np.arange(len(which), dtype=np.int64)[::-1]  # the last to be written is the first row
    return rows
