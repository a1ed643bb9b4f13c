"""The slot of each address: an index of integers where the address is one column of them, and otherwise of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.kernels.contract import Added
from millstream.core.kernels.key_encoding import decode_keys
from millstream.core.kernels.loading import kernels

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Slots = npt.NDArray[np.int64]


class RowIndex:
    """Addresses are given as their columns, of the types that the index was made for. `bound` is above all slots."""

    def __init__(self, types: Sequence[Any]) -> None:
        self._types = types
        self._integers = _IntegerKeys(types[0]) if len(types) == 1 and _is_like_integer(types[0]) else None
        self._bytes = kernels().bytes_index()

    def __len__(self) -> int:
        return len(self._bytes) if self._integers is None else len(self._integers)

    @property
    def bound(self) -> int:
        """All slots are below."""
        return self._bytes.bound if self._integers is None else self._integers.bound

    def slots(self, columns: Sequence[Any]) -> Added:
        """The slots of addresses, which are added if they are not there."""
        if self._integers is not None:
            return self._integers.slots(columns[0])
        return self._bytes.slots(kernels().encode_keys(columns))

    def find(self, columns: Sequence[Any]) -> Slots:
        """The slot of each address, -1 for one that is not there."""
        if self._integers is not None:
            return self._integers.find(columns[0])
        return self._bytes.find(kernels().encode_keys(columns))

    def remove(self, slots: Slots) -> None:
        """Removes the addresses of different slots in use."""
        if self._integers is not None:
            self._integers.remove(slots)
        else:
            self._bytes.remove(self._bytes.keys(slots))

    def columns(self, slots: Slots) -> list[Any]:
        """The addresses of slots in use."""
        if self._integers is not None:
            return [self._integers.column(slots)]
        return decode_keys(self._bytes.keys(slots), self._types)


def _is_like_integer(kind: Any) -> bool:
    import pyarrow as pa

    of = pa.types
    return bool(of.is_signed_integer(kind) or of.is_date32(kind) or of.is_timestamp(kind) or of.is_time64(kind))


class _IntegerKeys:
    """Integers, or what is stored as such. Slot 0 is that of null; the others are those of the index, and one more."""

    def __init__(self, kind: Any) -> None:
        self._type = kind
        self._index = kernels().integer_index()
        self._has_null = False

    def __len__(self) -> int:
        return len(self._index) + self._has_null

    @property
    def bound(self) -> int:
        return self._index.bound + 1

    def slots(self, column: Any) -> Added:
        import numpy as np

        if not column.null_count:
            added = self._index.slots(self._numbers(column))
            return Added(added.slots + 1, added.rows)
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
        added = self._index.slots(self._numbers(column.drop_null()))
        slots = np.zeros(len(column), np.int64)
        slots[rows] = added.slots + 1
        fresh = rows[added.rows]
        if not self._has_null:
            self._has_null = True
            fresh = np.sort(np.append(fresh, int((slots == 0).argmax())))
        return Added(slots, fresh)

    def find(self, column: Any) -> Slots:
        import numpy as np

        if not column.null_count:
            return self._shifted(self._index.find(self._numbers(column)))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        slots = np.full(len(column), 0 if self._has_null else -1, np.int64)
        slots[valid] = self._shifted(self._index.find(self._numbers(column.drop_null())))
        return slots

    def remove(self, slots: Slots) -> None:
        if self._has_null and (slots == 0).any():
            self._has_null = False
            slots = slots[slots != 0]
        self._index.remove(self._index.keys(slots - 1))

    def column(self, slots: Slots) -> Any:
        import numpy as np
        import pyarrow as pa

        nulls = slots == 0 if self._has_null else np.zeros(0, np.bool_)
        if not nulls.any():
            return self._of_numbers(pa.array(self._index.keys(slots - 1)))
        numbers = np.zeros(len(slots), np.int64)
        numbers[~nulls] = self._index.keys(slots[~nulls] - 1)
        return self._of_numbers(pa.array(numbers, mask=nulls))

    def _numbers(self, column: Any) -> Slots:
        """A column without nulls."""
        import numpy as np
        import pyarrow as pa

        if not pa.types.is_integer(self._type):
            column = column.view(pa.int32() if pa.types.is_date32(self._type) else pa.int64())
        numbers: Slots = np.asarray(column.cast(pa.int64()).to_numpy(), np.int64)
        return numbers

    def _of_numbers(self, numbers: Any) -> Any:
        import pyarrow as pa

        if pa.types.is_integer(self._type):
            return numbers.cast(self._type)
        return (numbers.cast(pa.int32()) if pa.types.is_date32(self._type) else numbers).view(self._type)

    @staticmethod
    def _shifted(slots: Slots) -> Slots:
        import numpy as np

        return np.where(slots < 0, slots, slots + 1)
