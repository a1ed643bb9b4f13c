"""What kernels do. There are two implementations, which return the same: `native.py` in C, and `twin.py` with NumPy.

Any thread may call any function of `Kernels` and of an index, which handles one call at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]
    Integers = npt.NDArray[np.int64]


class Added(NamedTuple):
    """The slots of keys, and which rows added theirs."""

    slots: Integers
    """The slot of each key: equal keys have the same one."""

    rows: Integers
    """The rows whose key was not there, ascending; of equal keys the first row."""


class Index(Protocol):
    """Slots: small numbers that keys have while they are in the index, for use as positions in arrays.

    A new key gets the slot that was freed last, or else the lowest that was never used. So two indexes with the same
    calls give the same slots, whichever implementation they have. A call that raises an error has changed no key.
    """

    def __len__(self) -> int:
        """The number of keys."""
        ...

    @property
    def bound(self) -> int:
        """All slots that keys have or had are below this: the length that arrays by slot need."""
        ...

    @property
    def nbytes(self) -> int:
        """The memory that it takes: for NumPy an estimate."""
        ...

    def used(self) -> Integers:
        """The slots in use, ascending."""
        ...


class IntegerIndex(Index, Protocol):
    """An index of int64 keys, which are arrays of NumPy. Raises a TypeError for arrays of another type."""

    def slots(self, keys: Integers) -> Added:
        """The slots of the keys, which are added if they are not there."""
        ...

    def find(self, keys: Integers) -> Integers:
        """The slot of each key, -1 for one that is not there."""
        ...

    def remove(self, keys: Integers) -> Integers:
        """Removes the keys; returns the slots that they had, -1 for one that was not there or came before in `keys`."""
        ...

    def keys(self, slots: Integers) -> Integers:
        """The keys that have these slots. Raises a ValueError if a slot is not in use."""
        ...


class BytesIndex(Index, Protocol):
    """An index of bytes: Arrow arrays of (large) strings or binaries; a text is the same key as its bytes in UTF-8.

    Raises a TypeError for arrays of another type, and a ValueError for nulls, which have to be encoded in the bytes.
    """

    def slots(self, keys: Any) -> Added:
        """The slots of the keys, which are added if they are not there."""
        ...

    def find(self, keys: Any) -> Integers:
        """The slot of each key, -1 for one that is not there."""
        ...

    def remove(self, keys: Any) -> Integers:
        """Removes the keys; returns the slots that they had, -1 for one that was not there or came before in `keys`."""
        ...

    def keys(self, slots: Integers) -> Any:
        """The keys that have these slots, as large binaries. Raises a ValueError if a slot is not in use."""
        ...


class Kernels(Protocol):
    """The kernels of one implementation."""

    name: str
    """Of the implementation: `native` or `numpy`."""

    def hash_integers(self, column: Any) -> Hashes:
        """The hashes of an Arrow array of integers, as `stable_hash` has them. Those of nulls are undefined.

        Unsigned integers above 2**63 - 1 hash as the negative numbers with the same bits.
        """
        ...

    def hash_texts(self, column: Any, tag: int) -> Hashes:
        """The hashes of an Arrow array of (large) strings or binaries. Those of nulls are undefined.

        `tag` distinguishes the types.
        """
        ...

    def hash_encoded(self, known: Hashes, indices: Any) -> Hashes:
        """The hash at each index, which an Arrow array of integers holds. Those of nulls are undefined.

        Raises a ValueError when an index is outside of `known`.
        """
        ...

    def hash_nulls(self, column: Any, null: int, hashes: Hashes) -> Hashes:
        """Returns the hashes of an Arrow array with `null` for its nulls. It may write to `hashes`."""
        ...

    def hash_composite(self, fields: list[Hashes]) -> Hashes:
        """The hashes of composite keys, from those of their fields, which are at least one."""
        ...

    def encode_keys(self, columns: Sequence[Any]) -> Any:
        """The keys whose fields these Arrow arrays hold, as large binaries for an index: see `key_encoding`.

        Raises a TypeError for types that keys cannot have, such as floats, and a ValueError unless the arrays, which
        are at least one, have the same length.
        """
        ...

    def integer_index(self) -> IntegerIndex:
        """A new index of int64 keys."""
        ...

    def bytes_index(self) -> BytesIndex:
        """A new index of bytes, for keys that are texts or composites."""
        ...
