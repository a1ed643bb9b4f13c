"""The indexes of the native library. Each owns its memory there, and frees it when it is collected."""

from __future__ import annotations

import ctypes
import secrets
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.core.kernels.contract import Added
from millstream.core.kernels.native_calls import OUTSIDE_OF_DATA, address, checked, text_buffers
from millstream.core.kernels.twin_bytes_index import checked_texts
from millstream.core.kernels.twin_index import checked as checked_integers

if TYPE_CHECKING:
    from millstream.core.kernels.contract import Integers


class NativeIndex:
    """What the indexes have in common: a handle."""

    def __init__(self, library: ctypes.CDLL, has_bytes: bool) -> None:
        self._count, self._bound, self._size = library.mk_index_count, library.mk_index_bound, library.mk_index_size
        self._used = library.mk_index_used
        handle = library.mk_index_new(secrets.randbits(64), has_bytes)
        if not handle:
            raise MemoryError("there is no memory for an index")
        self._handle = ctypes.c_void_p(handle)
        weakref.finalize(self, library.mk_index_free, self._handle).atexit = False
        self._lock = threading.Lock()  # two calls at a time would corrupt memory

    def __len__(self) -> int:
        return self._number(self._count)

    @property
    def bound(self) -> int:
        """See `Index`."""
        return self._number(self._bound)

    @property
    def nbytes(self) -> int:
        """See `Index`."""
        return self._number(self._size)

    def used(self) -> Integers:
        """See `Index`."""
        with self._lock:
            slots = np.empty(self._count(self._handle), np.int64)
            self._used(self._handle, address(slots))
            return slots

    def _number(self, function: Any) -> int:
        with self._lock:
            number: int = function(self._handle)
            return number


class NativeIntegerIndex(NativeIndex):
    """Implements `IntegerIndex`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library, False)
        self._slots = library.mk_int_slots
        self._find = library.mk_int_find
        self._remove = library.mk_int_remove
        self._keys = library.mk_int_keys

    def slots(self, keys: Integers) -> Added:
        """See `IntegerIndex`."""
        keys = checked_integers(keys, "keys")
        slots, rows, count = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64), ctypes.c_int64()
        with self._lock:
            found = self._slots(
                self._handle, address(keys), len(keys), address(slots), address(rows), ctypes.byref(count)
            )
        checked(found, "")
        return Added(slots, rows[: count.value].copy())

    def find(self, keys: Integers) -> Integers:
        """See `IntegerIndex`."""
        return self._of(self._find, keys, "keys")

    def remove(self, keys: Integers) -> Integers:
        """See `IntegerIndex`."""
        return self._of(self._remove, keys, "keys")

    def keys(self, slots: Integers) -> Integers:
        """See `IntegerIndex`."""
        return self._of(self._keys, slots, "slots")

    def _of(self, function: Any, given: Integers, what: str) -> Integers:
        """Calls a function that returns an integer for each."""
        given = checked_integers(given, what)
        results = np.empty(len(given), np.int64)
        with self._lock:
            code = function(self._handle, address(given), len(given), address(results))
        checked(code, "a slot is not in use")
        return results


class NativeBytesIndex(NativeIndex):
    """Implements `BytesIndex`."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__(library, True)
        self._slots = library.mk_bytes_slots
        self._find = library.mk_bytes_find
        self._remove = library.mk_bytes_remove
        self._lengths = library.mk_bytes_lengths
        self._keys = library.mk_bytes_keys

    def slots(self, keys: Any) -> Added:
        """See `BytesIndex`."""
        keys = checked_texts(keys)
        slots, rows, count = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64), ctypes.c_int64()
        with self._lock:
            found = self._slots(
                self._handle, *text_buffers(keys), address(slots), address(rows), ctypes.byref(count)
            )  # fmt: skip
        checked(found, OUTSIDE_OF_DATA)
        return Added(slots, rows[: count.value].copy())

    def find(self, keys: Any) -> Integers:
        """See `BytesIndex`."""
        return self._of(self._find, keys)

    def remove(self, keys: Any) -> Integers:
        """See `BytesIndex`."""
        return self._of(self._remove, keys)

    def keys(self, slots: Integers) -> Any:
        """See `BytesIndex`."""
        import pyarrow as pa

        slots = checked_integers(slots, "slots")
        offsets = np.empty(len(slots) + 1, np.int64)
        with self._lock:
            code = self._lengths(self._handle, address(slots), len(slots), address(offsets))
            checked(code, "a slot is not in use")
            data = np.empty(offsets[-1], np.uint8)
            self._keys(self._handle, address(slots), len(slots), address(data))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_binary(), len(slots), buffers)

    def _of(self, function: Any, keys: Any) -> Integers:
        """Calls a function that returns a slot for each key."""
        keys = checked_texts(keys)
        slots = np.empty(len(keys), np.int64)
        with self._lock:
            code = function(self._handle, *text_buffers(keys), address(slots))
        checked(code, OUTSIDE_OF_DATA)
        return slots
