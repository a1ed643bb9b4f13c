"""What is read of a snapshot: one state, its columns, and its files. All that can be refused is refused here.

A plan is made in the driver and goes to the executors, so it is values only. It holds the pointer with which storage
is opened, which may have credentials in it and is never shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import types as s

from millstream.core.records import types as t
from millstream.core.records.conversion import field_types
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.inspection.opened import OpenedSnapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.metadata.types_json import holds_pickled, type_to_json
from millstream.core.snapshot.tables.files import fetch
from millstream.core.snapshot.tables.parts import native_format
from millstream.core.snapshot.tables.restore import NEVER_NULL, column_types, columns_for
from millstream.core.snapshot.tables.times import zoned_type
from millstream.spark.reading.batches import checked_parts
from millstream.spark.types import common_type, spark_type
from millstream.spark.types.schemas import holds_times, is_time

if TYPE_CHECKING:
    import pyarrow as pa

SUBTASK = "subtask"
_LOOKERS = 8
_WITHOUT_NULLS = (SUBTASK, *NEVER_NULL)


class Times(Enum):
    """Of which type columns with datetimes are."""

    STORED = "stored"  # as the files have them, which are read when the state is opened
    LOCAL = "local"
    MOMENTS = "moments"
    ZONED = "zoned"


class Column(Struct, frozen=True):
    """A column: its declared type, and its Arrow type in files where that does not follow from it."""

    name: str
    type: t.TypeInformation
    stored: Any = None

    @property
    def spark_type(self) -> Any:
        """Its type in Spark."""
        return spark_type(self.type, self.stored)


class OpenState(Struct, frozen=True):
    """A state that can be read, with the columns that are wanted of it."""

    pointer: str
    location: str
    operator: str
    max_parallelism: int
    state: StateSnapshot
    columns: tuple[Column, ...]

    def __repr__(self) -> str:
        return f"OpenState({self.location!r}, {self.operator!r}, {self.state.name!r})"

    @property
    def schema(self) -> Any:
        """The columns as Spark's, which looks for no nulls in those that were checked to have none."""
        return s.StructType([s.StructField(c.name, c.spark_type, c.name not in _WITHOUT_NULLS) for c in self.columns])

    @property
    def files(self) -> tuple[StateFile, ...]:
        """The files with its rows; of broadcast state, of which all subtasks have a copy, those of one."""
        files = self.state.files
        if self.state.kind is StateKind.BROADCAST:
            first = min((file.subtask for file in files), default=0)
            return tuple(file for file in files if file.subtask == first)
        return files

    def pruned(self, names: Sequence[str]) -> OpenState:
        """The same with some of the columns, in this order."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                detail = f"; did you mean '{near[0]}'?" if near else ""
                raise self.refused(f"has no column '{name}': it has {', '.join(known)}{detail}")
        return replace(self, columns=tuple(known[name] for name in names))

    def pickled(self) -> list[str]:
        """The names of the columns with pickled values, or with such inside."""
        return [column.name for column in self.columns if holds_pickled(type_to_json(column.type))]

    def refused(self, reason: str) -> SnapshotError:
        """An error about the state."""
        return SnapshotError(self.location, f"the state '{self.state.name}' of '{self.operator}' {reason}")


def open_state(
    pointer: str, snapshot: OpenedSnapshot, operator: OperatorSnapshot, state: StateSnapshot,
    times: Times = Times.STORED, known: bool = False,
) -> OpenState:  # fmt: skip
    """The state with all of its columns. Refuses what Spark cannot read.

    With `known`, the caller already has its columns and their types: then no file is read.
    """
    opened = OpenState(
        pointer, snapshot.location, operator.uid or operator.operator_id, operator.max_parallelism, state, ()
    )
    native = next((name for file in state.files if (name := native_format(file))), None)
    if native is not None:
        raise opened.refused(
            f"is in the format of the state backend {native}, which only a job with it reads: take a savepoint"
        )
    found = _found(snapshot, opened.files, state) if not known and _must_look(state, times) else []
    names = columns_for(state)
    types = column_types(state)
    columns = [Column(SUBTASK, t.INT)] if not state.kind.keyed and state.kind is not StateKind.BROADCAST else []
    for name in names:
        kind = types[name]
        if kind is None:
            raise opened.refused(f"has no type for its column {name}")
        columns.append(Column(name, kind, _stored(name, kind, found, times)))
    return replace(opened, columns=tuple(columns))


def _must_look(state: StateSnapshot, times: Times) -> bool:
    """Whether only the files say which columns there are, or which types they have."""
    types = column_types(state)
    kinds = (types[name] for name in columns_for(state))
    return times is Times.STORED and any(kind is not None and holds_times(kind) for kind in kinds)


def _found(snapshot: OpenedSnapshot, files: Iterable[StateFile], state: StateSnapshot) -> list[pa.Schema]:
    """The columns of the files, each of which was compared with its checksum."""

    def look(file: StateFile) -> pa.Schema:
        data = fetch(snapshot.storage, snapshot.location, file)
        return checked_parts(data, file, state, snapshot.where(file)).schema

    with ThreadPoolExecutor(_LOOKERS, thread_name_prefix="look") as lookers:
        return list(lookers.map(look, files))


def _stored(name: str, type: t.TypeInformation, found: list[pa.Schema], times: Times) -> Any:
    if not holds_times(type):
        return None
    if times is not Times.STORED:
        return _with_times(type, times)
    kinds = [schema.field(name).type for schema in found]
    return reduce(lambda one, other: common_type(one, other, type), kinds) if kinds else None


def _with_times(type: t.TypeInformation, times: Times) -> pa.DataType:
    """An Arrow type with all datetimes alike; what else is in it is of no concern."""
    import pyarrow as pa

    if is_time(type):
        layouts = {
            Times.LOCAL: pa.timestamp("us"), Times.MOMENTS: pa.timestamp("us", "UTC"), Times.ZONED: zoned_type()
        }  # fmt: skip
        return layouts[times]
    match type:
        case t.ListType(element):
            return pa.list_(_with_times(element, times))
        case t.MapType(key, value):
            return pa.map_(_with_times(key, times), _with_times(value, times))
    names, types = type.field_names(), field_types(type)
    if names is None or types is None:
        return pa.null()
    return pa.struct([(name, _with_times(inner, times)) for name, inner in zip(names, types, strict=True)])
