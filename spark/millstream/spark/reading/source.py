"""The data source `millstream`: one state of a snapshot as a table.

    spark.read.format("millstream").option("uid", "visits").option("state", "count").load(path)

| option | meaning |
|---|---|
| `path` | the snapshot: its folder or its `_metadata.json`, as a path or a URI |
| `uid` | the operator: its uid, its id, or its name if only one has it |
| `state` | the name of the state |
| `columns` | the columns that are read, by commas; without it all |
| `pickled` | `binary`: columns with pickled values are read as bytes; without it they are refused |
| `times` | how datetimes are read: `stored` (default), `local`, `moments`, `zoned` |
| `keyGroups` | the key groups that are read, as `3, 8-15`; without it all |
| `keys` | the keys that are read, as `SavepointReader.for_keys` writes them; without it all |
| `rowsPerPartition` | files with more rows are read by several tasks |

Spark does not pass the needed columns to a Python data source. So columns are pruned by the option, or by a schema
that has only some of them. It would pass the conditions, but keeps what was planned with those of one scan
(`PythonScanBuilder.pushFilters` hands it to the relation's `PythonDataSourceV2.setReadInfo`) for all scans of the same
DataFrame: they would miss rows. So keys and key groups are chosen by options, which hold for a whole DataFrame.

The driver's Python workers plan, the executors' read; both import this module. A partition is a file, or a run of the
parts of a large one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from millstream.core.errors import MillstreamError
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.core.snapshot.metadata.model import StateFile, absolute_location
from millstream.core.snapshot.storage.file_storage import storage_at
from millstream.core.snapshot.tables.files import ROWS_PER_FILE, fetch, file_name
from millstream.core.snapshot.tables.table import KEY
from millstream.spark.reading.batches import checked_parts, tables_of
from millstream.spark.reading.chosen_keys import ChosenKeys
from millstream.spark.reading.key_filters import groups_from_text
from millstream.spark.reading.states import SUBTASK, Column, OpenState, Times, open_state
from millstream.spark.types import arrow_type_of, fits, to_spark

NAME = "millstream"
PICKLED_AS_BINARY = "binary"
_OPTIONS = ("path", "uid", "state", "columns", "pickled", "times", "keyGroups", "keys", "rowsPerPartition")


class OptionError(MillstreamError):
    """An option of the data source is missing, unknown, or has a value that it cannot have."""


class StateSource(DataSource):  # type: ignore[misc]  # PySpark is not followed
    """The data source. Spark makes one with the options of a read."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the state, with the types that it was declared with."""
        return self._checked(self._open()).schema

    def reader(self, schema: StructType) -> StateSourceReader:
        """A reader of the columns in the schema, which has to be the state's own or a part of it."""
        wanted = self._checked(self._open(known=True).pruned(schema.fieldNames()))
        for field, column in zip(schema.fields, wanted.columns, strict=True):
            if not fits(column.type, field.dataType):
                detail = f"{column.spark_type.simpleString()}, and the schema requires {field.dataType.simpleString()}"
                raise wanted.refused(f"has a column {field.name} of the type {detail}: cast it after reading")
        return StateSourceReader(
            wanted, schema, self._rows_per_partition(), self._key_groups(wanted), self._keys(wanted)
        )

    def _open(self, known: bool = False) -> OpenState:
        options = {name.lower() for name in _OPTIONS}
        for name in self.options:
            if name.lower() not in options:
                near = difflib.get_close_matches(name, _OPTIONS, n=1)
                detail = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(_OPTIONS)}"
                raise OptionError(f"the data source {NAME} has no option '{name}': {detail}")
        pointer, uid, name = (self._required(option) for option in ("path", "uid", "state"))
        pointer = absolute_location(pointer)  # an executor may be in another folder
        snapshot = open_snapshot(pointer)
        operator = snapshot.operator(uid)
        state = open_state(pointer, snapshot, operator, snapshot.state(operator, name), self._times(), known)
        columns = self.options.get("columns")
        if columns is not None:
            state = state.pruned([column.strip() for column in columns.split(",") if column.strip()])
        return state

    def _checked(self, state: OpenState) -> OpenState:
        """The state, unless a column of it is pickled and that was not requested."""
        pickled = self.options.get("pickled", "refused")
        if pickled not in ("refused", PICKLED_AS_BINARY):
            raise OptionError(f"the option pickled is '{pickled}': leave it out, or set it to {PICKLED_AS_BINARY}")
        if pickled == "refused" and state.pickled():
            raise state.refused(
                f"has pickled values ({', '.join(state.pickled())}), which are not loaded unasked: set the option "
                f"pickled to {PICKLED_AS_BINARY} for their bytes, or read it with SavepointReader and a type"
            )
        return state

    def _required(self, name: str) -> str:
        value: str | None = self.options.get(name)
        if not value:
            raise OptionError(f"the option {name} is missing: the data source {NAME} needs path, uid and state")
        return value

    def _times(self) -> Times:
        value = self.options.get("times", Times.STORED.value)
        try:
            return Times(value)
        except ValueError:
            known = ", ".join(times.value for times in Times)
            raise OptionError(f"the option times is '{value}', and must be one of {known}") from None

    def _key_groups(self, state: OpenState) -> list[range] | None:
        value = self.options.get("keyGroups")
        if value is None:
            return None
        if not state.state.kind.keyed:
            raise state.refused("is not by key, so it has no key groups: leave out the option keyGroups")
        try:
            return groups_from_text(value, state.max_parallelism)
        except ValueError:
            detail = f"must be numbers and ranges of them, like '3, 8-15', from 0 to {state.max_parallelism - 1}"
            raise OptionError(f"the option keyGroups is '{value}', and {detail}") from None

    def _keys(self, state: OpenState) -> ChosenKeys | None:
        value = self.options.get("keys")
        try:
            return None if value is None else ChosenKeys(value, state)
        except ValueError:
            raise OptionError("the option keys is not one that SavepointReader.for_keys has made") from None

    def _rows_per_partition(self) -> int:
        value = self.options.get("rowsPerPartition", str(ROWS_PER_FILE))
        if not value.isdecimal() or int(value) == 0:
            raise OptionError(f"the option rowsPerPartition is '{value}', and must be a positive number")
        return int(value)


class FilePartition(InputPartition):  # type: ignore[misc]  # PySpark is not followed
    """The `share`-th of `shares` equal shares of a file's parts."""

    def __init__(self, file: StateFile, share: int = 0, shares: int = 1) -> None:
        super().__init__(file.path)
        self.file, self.share, self.shares = file, share, shares


class StateSourceReader(DataSourceReader):  # type: ignore[misc]  # PySpark is not followed
    """Reads a state; made in the driver, and copied to where its partitions are read."""

    def __init__(
        self, state: OpenState, schema: StructType, rows_per_partition: int, key_groups: list[range] | None,
        keys: ChosenKeys | None,
    ) -> None:  # fmt: skip
        self._state = state
        self._schema = schema
        self._rows_per_partition = rows_per_partition
        self._key_groups = keys.key_groups if keys is not None else key_groups
        self._keys = keys

    def partitions(self) -> Sequence[FilePartition]:
        """The files that can hold wanted rows, large ones in several shares."""
        found = []
        for file in self._state.files:
            held = file.key_groups
            if held is not None and self._key_groups is not None and not _meet(held, self._key_groups):
                continue
            shares = max(1, -(-file.rows // self._rows_per_partition))
            found += [FilePartition(file, share, shares) for share in range(shares)]
        return found

    def read(self, partition: Any) -> Iterator[Any]:
        """The record batches of a partition."""
        import pyarrow as pa

        if not isinstance(partition, FilePartition):
            return  # Spark's own, when there is nothing to read
        state, file = self._state, partition.file
        storage, location = storage_at(state.pointer)
        where = file_name(location, file)
        parts = checked_parts(fetch(storage, location, file), file, state.state, where)
        count = parts.count
        numbers = range(partition.share * count // partition.shares, (partition.share + 1) * count // partition.shares)
        targets = [arrow_type_of(field.dataType) for field in self._schema.fields]
        stored = [column.name for column in state.columns if column.name != SUBTASK]
        read = stored if self._keys is None else [*stored, KEY]
        for found in tables_of(parts, numbers, file, state.state, where, read, self._key_groups):
            table = found if self._keys is None else self._keys.rows(found)
            arrays = [
                pa.repeat(pa.scalar(file.subtask, target), table.num_rows)
                if column.name == SUBTASK
                else _handed(table, column, target, where)
                for column, target in zip(state.columns, targets, strict=True)
            ]
            fields = [
                pa.field(field.name, array.type, field.nullable)
                for field, array in zip(self._schema.fields, arrays, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _handed(table: Any, column: Column, target: Any, where: str) -> Any:
    try:
        return to_spark(table.column(column.name).combine_chunks(), column.type, target)
    except SnapshotError as error:
        raise SnapshotError(where, f"column {column.name} {error.reason}: see the option times") from error


def _meet(held: range, wanted: Sequence[range]) -> bool:
    return any(held.start < part.stop and part.start < held.stop for part in wanted)
