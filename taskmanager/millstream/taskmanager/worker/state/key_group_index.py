"""Computes the key groups of keys, one at a time or for a whole column.

One index serves all states of a subtask. Single keys are cached, within a bound: a dictionary look-up costs a tenth of
a hash. Columns of numbers, and of tuples of them, are hashed without a loop in Python.
"""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from millstream.core.keys.key_groups import combine_hashes, stable_hash, stable_hash_column
from millstream.core.keys.key_values import NOT_A_NUMBER, PLAIN, hashable, without_nan

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_REMEMBERED = 1 << 16


class KeyGroupIndex:
    """Key groups of `max_parallelism`, of which this subtask owns a range."""

    def __init__(self, max_parallelism: int, owned: range | None = None) -> None:
        self.max_parallelism = max_parallelism
        self.owned = range(max_parallelism) if owned is None else owned
        self._known: dict[Any, int] = {}

    def of(self, key: Any) -> int:
        """The key group of a key."""
        group = self._known.get(key)
        if group is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            group = self._known[key] = stable_hash(key) % self.max_parallelism
        return group

    def canonical(self, key: Any) -> Any:
        """The representative of all keys that are identical to this one: the key itself, except for NaN and lists.

        Raises an UnhashableKeyError if its subtask cannot be determined.
        """
        if type(key) in PLAIN or (type(key) is tuple and _has_plain_fields(key)):
            return key
        try:
            if key in self._known:
                return key
        except TypeError:  # a list, or a tuple with one inside
            key = hashable(key)
            hash(key)  # for any other mutable object, the missing hash is the error
        group = stable_hash(key) % self.max_parallelism
        key = without_nan(key)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = group
        return key

    def canonical_keys(self, keys: list[Any]) -> list[Any]:
        """The same for many keys."""
        kinds = set(map(type, keys))
        if kinds <= PLAIN or (kinds == {tuple} and PLAIN.issuperset(map(type, chain.from_iterable(keys)))):
            return keys
        if kinds == {float}:
            return [key if key == key else NOT_A_NUMBER for key in keys]
        return list(map(self.canonical, keys))

    def column(self, keys: list[Any]) -> npt.NDArray[np.int32]:
        """The key groups of many keys; safe on any thread."""
        import numpy as np

        return (_hashes(keys) % np.uint64(self.max_parallelism)).astype(np.int32)


def _has_plain_fields(key: tuple[Any, ...]) -> bool:
    """Whether all fields are valid in keys, and none is NaN."""
    for field in key:  # noqa: SIM110  # a generator would take twice the time
        if type(field) not in PLAIN:
            return False
    return True


def _hashes(keys: list[Any]) -> npt.NDArray[np.uint64]:
    import numpy as np
    import pyarrow as pa

    kinds = set(map(type, keys))
    if kinds <= {int, bool}:
        try:
            return stable_hash_column(pa.array(np.fromiter(keys, np.int64, len(keys))))
        except OverflowError:  # integers beyond 64 bits
            pass
    elif kinds == {tuple} and len(widths := set(map(len, keys))) == 1 and (width := widths.pop()):
        return combine_hashes([_hashes(list(map(itemgetter(field), keys))) for field in range(width)])
    return np.fromiter(map(stable_hash, keys), np.uint64, len(keys))
