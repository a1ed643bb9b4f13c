"""Batches of entries as Arrow columns, for any table of single values.

A value with fields (a tuple, a row, a dataclass) is a struct, whose children are its columns: `flatten()` returns them
without copying, and `pa.StructArray.from_arrays` makes one of them. To update a batch, get the columns of distinct
entries, compute, and put the result. A backend that keeps columns or bytes can be faster than this implementation,
which converts Python values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from millstream.core.records.types import PickledType, TypeInformation
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.datastream.state import StateAccessError
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration
from millstream.taskmanager.worker.state.table import MISSING

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnAccess(ABC):
    """Implements columns, for tables to inherit."""

    declaration: StateDeclaration

    @abstractmethod
    def get_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """The values of many entries, MISSING where there is none."""

    @abstractmethod
    def put_all(self, keys: Collection[Any], values: Iterable[Any], namespaces: Iterable[Any] | None = None) -> None:
        """Sets the values of many entries; MISSING removes."""

    def take_all(self, keys: Collection[Any], namespaces: Iterable[Any] | None = None) -> list[Any]:
        """Removes many entries; returns their values, MISSING where there is none."""
        of_keys, of_namespaces = list(keys), None if namespaces is None else list(namespaces)
        found = self.get_all(of_keys, of_namespaces)
        self.put_all(of_keys, repeat(MISSING, len(of_keys)), of_namespaces)
        return found

    def get_columns(self, keys: pa.Array, namespaces: pa.Array | None = None) -> pa.Array:
        """The values of many entries as a column of the declared type, null where there is none."""
        found = self.get_all(*self._places(keys, namespaces))
        return to_array([None if value is MISSING else value for value in found], self._type(), self.declaration.name)

    def put_columns(self, keys: pa.Array, values: pa.Array, namespaces: pa.Array | None = None) -> None:
        """Sets the values of many entries; null removes. If an entry occurs twice, the last value counts."""
        put = from_array(values, self._type(), f"state '{self.declaration.name}'")
        of_keys, of_namespaces = self._places(keys, namespaces)
        self.put_all(of_keys, [MISSING if value is None else value for value in put], of_namespaces)

    def _type(self) -> TypeInformation:
        declared = self.declaration.types.value
        if declared is None or isinstance(declared, PickledType):
            raise StateAccessError(f"state '{self.declaration.name}' has no declared type, which columns require")
        return declared

    def _places(self, keys: pa.Array, namespaces: pa.Array | None) -> tuple[list[Any], list[Any] | None]:
        types = self.declaration.types
        of_keys = _values(keys, types.key, "key")
        return of_keys, None if namespaces is None else _values(namespaces, types.namespace, "namespace")


def _values(column: pa.Array, kind: TypeInformation | None, name: str) -> list[Any]:
    """Python values of the declared type; without one, as Arrow converts them."""
    if kind is None or isinstance(kind, PickledType):
        values: list[Any] = column.to_pylist()
        return values
    return from_array(column, kind, name)
