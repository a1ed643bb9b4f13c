"""The contract of tables of columns: keyed state that operators read and write by whole batches.

A row has an address, which is its key, and below the key a namespace (such as a window), a sub-key, both or neither;
and it has values. All are columns by name, in Arrow tables. Those of an address are in the form in which Arrow groups
them (`GroupedColumn`): equal values are equal bytes, and null is a value like any other. Values are in the Arrow type
of their declared type.

`tests/taskmanager/state/test_column_table.py` holds the suite that every backend passes. All methods are called on the
task's thread. A returned table is the caller's, and a table that was passed may be kept: Arrow's data is immutable.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from millstream.core.records.types import TypeInformation
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

Named = tuple[str, TypeInformation]
"""The name of a column, and its declared type."""


class RowLayout(Struct, frozen=True):
    """The columns of a row. Names are different; only those of values are in snapshots, where these are a struct."""

    key: tuple[Named, ...]
    values: tuple[Named, ...]
    namespace: tuple[Named, ...] = ()
    sub_key: Named | None = None

    @property
    def below(self) -> tuple[Named, ...]:
        """The columns that, together with those of the key, are the address."""
        return self.namespace if self.sub_key is None else (*self.namespace, self.sub_key)

    @property
    def address(self) -> tuple[Named, ...]:
        """All columns of the address."""
        return (*self.key, *self.below)


class ColumnTable(Protocol):
    """The rows of one state.

    With a time-to-live, the rows that a method finds have not expired, unless the state's visibility allows that, and
    their lifetimes start again if the state extends them when they are read. Expired rows may be removed at any time.
    """

    @property
    def declaration(self) -> StateDeclaration:
        """What the state is."""

    @property
    def layout(self) -> RowLayout:
        """The columns."""

    def __len__(self) -> int:
        """The number of rows; expired ones may be included."""

    def find(self, addresses: pa.Table) -> tuple[npt.NDArray[np.bool_], pa.Table]:
        """Which of the addresses have a row, and the values of each: nulls where there is no row."""

    def of_keys(self, keys: pa.Table) -> pa.Table:
        """All rows with one of these keys, each row once: addresses and values, in any order."""

    def put(self, rows: pa.Table) -> None:
        """Adds rows, or replaces the values of those that are there. If an address occurs twice, the last one counts.

        Its lifetime starts.
        """

    def remove(self, addresses: pa.Table) -> npt.NDArray[np.bool_]:
        """Removes rows. Returns which of the addresses had one, and had not occurred before."""

    def scan(self, key_groups: range | None = None) -> Generator[pa.Table]:
        """All rows of some key groups, or of all: tables of bounded size, ordered by key group.

        As of when the first is read: the table may be changed meanwhile. An iterator that is not read to its end has to
        be closed, as generators are.
        """
