"""The index of int64 keys with NumPy: a table with open addressing, in which a batch is looked for at once.

A removed key leaves a mark in the table, which goes when the table is made anew.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from millstream.core.kernels.contract import Added

if TYPE_CHECKING:
    from millstream.core.kernels.contract import Hashes, Integers

_EMPTY, _REMOVED = -1, -2
_SMALLEST = 16


def mixed(values: Hashes) -> Hashes:
    """The finaliser of splitmix64. Integers of arrays wrap around without a warning."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def checked(values: Any, what: str) -> Integers:
    """Returns an array of int64 in consecutive memory. Raises a TypeError for any other type of elements."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
        kind = f"an array of {values.dtype}" if isinstance(values, np.ndarray) else type(values).__name__
        raise TypeError(f"{what} have to be a one-dimensional array of int64, not {kind}")
    return np.require(values, requirements=["C", "A"])


class Slots:
    """Which slots are in use, and in which order the others are given: the one that was freed last, then new ones."""

    def __init__(self) -> None:
        self.used = np.zeros(_SMALLEST, bool)
        self.count = self.bound = 0
        self._freed: list[int] = []

    def take(self, count: int) -> Integers:
        """Takes so many."""
        reused = min(count, len(self._freed))
        more = count - reused
        taken = np.empty(count, np.int64)
        taken[:reused] = self._freed[len(self._freed) - reused :][::-1]
        taken[reused:] = np.arange(self.bound, self.bound + more)
        self.used = grown(self.used, self.bound + more)
        del self._freed[len(self._freed) - reused :]
        self.bound += more
        self.count += count
        self.used[taken] = True
        return taken

    def free(self, slots: Integers) -> None:
        """Frees slots in use, in this order."""
        self.used[slots] = False
        self.count -= len(slots)
        self._freed.extend(slots.tolist())

    def in_use(self) -> Integers:
        """Ascending."""
        return np.flatnonzero(self.used[: self.bound]).astype(np.int64, copy=False)

    def checked(self, slots: Any) -> Integers:
        """Returns the slots. Raises a ValueError if one is not in use."""
        wanted = checked(slots, "slots")
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= self.bound or not self.used[wanted].all()):
            raise ValueError("a slot is not in use")
        return wanted


def grown(array: Any, length: int) -> Any:
    """Returns the array, or one with more room: twice as much as before, so that growing by one is cheap."""
    if length <= len(array):
        return array
    larger = np.zeros(max(length, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


class NumpyIntegerIndex:
    """Implements `IntegerIndex`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = Slots()
        self._keys = np.zeros(_SMALLEST, np.int64)  # by slot
        self._clear(_SMALLEST)

    def __len__(self) -> int:
        return self._slots.count

    @property
    def bound(self) -> int:
        """See `Index`."""
        return self._slots.bound

    @property
    def nbytes(self) -> int:
        """See `Index`."""
        with self._lock:
            parts = (self._table_keys, self._table_slots, self._keys, self._slots.used)
            return sum(part.nbytes for part in parts)

    def used(self) -> Integers:
        """See `Index`."""
        with self._lock:
            return self._slots.in_use()

    def keys(self, slots: Integers) -> Integers:
        """See `IntegerIndex`."""
        with self._lock:
            found: Integers = self._keys[self._slots.checked(slots)]
            return found

    def find(self, keys: Integers) -> Integers:
        """See `IntegerIndex`."""
        with self._lock:
            return self._find(checked(keys, "keys"))[0]

    def slots(self, keys: Integers) -> Added:
        """See `IntegerIndex`."""
        keys = checked(keys, "keys")
        with self._lock:
            slots, _ = self._find(keys)
            missing = np.flatnonzero(slots < 0)
            if not len(missing):
                return Added(slots, missing)
            different, first, which = np.unique(keys[missing], return_index=True, return_inverse=True)
            order = np.argsort(first)  # in which they came
            taken = np.empty(len(different), np.int64)
            self._reserve(len(different))
            taken[order] = self._slots.take(len(different))
            self._keys = grown(self._keys, self._slots.bound)
            self._keys[taken] = different
            self._enter(different, taken)
            slots[missing] = taken[which.reshape(-1)]
            return Added(slots, missing[first[order]])

    def remove(self, keys: Integers) -> Integers:
        """See `IntegerIndex`."""
        keys = checked(keys, "keys")
        with self._lock:
            found, places = self._find(keys)
            slots = np.full(len(keys), -1, np.int64)
            present = np.flatnonzero(found >= 0)
            first = np.sort(np.unique(found[present], return_index=True)[1])
            rows = present[first]
            slots[rows] = found[rows]
            self._table_slots[places[rows]] = _REMOVED
            self._marks += len(rows)
            self._slots.free(slots[rows])
            return slots

    def _clear(self, places: int) -> None:
        self._table_keys = np.zeros(places, np.int64)
        self._table_slots = np.full(places, _EMPTY, np.int64)
        self._mask = np.int64(places - 1)
        self._shift = np.uint64(64 - (places - 1).bit_length())
        self._marks = 0  # of removed keys

    def _homes(self, keys: Integers) -> Integers:
        """By the highest bits of the hash: the lowest are those that key groups are chosen by."""
        return (mixed(keys.view(np.uint64)) >> self._shift).view(np.int64)

    def _find(self, keys: Integers) -> tuple[Integers, Integers]:
        """The slots and places of the keys, both -1 for one that is not there."""
        places = self._homes(keys)
        slots = self._table_slots[places]
        pending = np.flatnonzero(((self._table_keys[places] != keys) & (slots != _EMPTY)) | (slots == _REMOVED))
        while len(pending):
            next_ = places[pending] = (places[pending] + 1) & self._mask
            found = slots[pending] = self._table_slots[next_]
            other = ((self._table_keys[next_] != keys[pending]) & (found != _EMPTY)) | (found == _REMOVED)
            pending = pending[other]
        places[slots < 0] = -1
        return slots, places

    def _reserve(self, more: int) -> None:
        """At most half of the places are taken, by keys and marks."""
        needed = self._slots.count + more
        if 2 * (needed + self._marks) <= len(self._table_slots):
            return
        places = len(self._table_slots)
        while 2 * needed > places:
            places *= 2
        self._clear(places)
        used = self._slots.in_use()
        self._enter(self._keys[used], used)

    def _enter(self, keys: Integers, slots: Integers) -> None:
        """Enters different keys that are not there: each at the first empty place, one of those that want the same."""
        places = self._homes(keys)
        while len(keys):
            empty = self._table_slots[places] == _EMPTY
            self._table_slots[places[empty]] = slots[empty]
            entered = self._table_slots[places] == slots
            self._table_keys[places[entered]] = keys[entered]
            rest = ~entered
            keys, slots, places = keys[rest], slots[rest], (places[rest] + 1) & self._mask
