"""`SavepointReader`: the states of a snapshot as DataFrames.

Each method reads the metadata when it is called, and refuses there what cannot be read; rows are read when Spark
runs a query. A snapshot is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import Filter
from pyspark.sql.functions import col

from millstream.core.records import types as t
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.snapshot.inspection.opened import OpenedSnapshot, open_snapshot
from millstream.core.snapshot.metadata.model import OperatorSnapshot, StateKind, StateSnapshot, absolute_location
from millstream.core.snapshot.tables.files import ROWS_PER_FILE
from millstream.spark.reading import overview
from millstream.spark.reading.chosen_keys import keys_as_text
from millstream.spark.reading.decoding import CONTENT, Function, decoded, wanted_types
from millstream.spark.reading.key_filters import groups_as_text, key_groups_for
from millstream.spark.reading.source import PICKLED_AS_BINARY
from millstream.spark.reading.states import OpenState, open_state
from millstream.spark.reading.tables import source_frame
from millstream.spark.registration import register, require_classic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_VALUES = (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING)
_FEWEST_ROWS = 256 * 1024  # that are worth a task of their own
_METHODS = {
    **dict.fromkeys(_VALUES, "read_keyed_state"),
    StateKind.LIST: "read_list_state",
    StateKind.OPERATOR_LIST: "read_list_state",
    StateKind.OPERATOR_UNION: "read_union_state",
    StateKind.BROADCAST: "read_broadcast_state",
    StateKind.MAP: "read_map_state",
    StateKind.TIMERS: "read_timers",
    StateKind.SPLITS: "read_source_positions",
}


class SavepointReader:
    """A snapshot, which is a savepoint or a checkpoint, opened with a session of Spark."""

    def __init__(
        self, spark: SparkSession, pointer: str, snapshot: OpenedSnapshot, key_groups: str | None = None,
        keys: tuple[Any, ...] | None = None,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._pointer = pointer
        self._snapshot = snapshot
        self._key_groups = key_groups
        self._keys = keys

    @staticmethod
    def read(spark: SparkSession, path: str) -> SavepointReader:
        """Opens a snapshot by its folder or its `_metadata.json`: a path, or a URI with its options."""
        pointer = absolute_location(str(path))
        snapshot = open_snapshot(pointer)
        require_classic(spark)
        register(spark)
        return SavepointReader(spark, pointer, snapshot)

    def key_groups(self, uid: str, name: str, *conditions: Filter) -> list[int]:
        """The key groups in which rows of a keyed state under all these conditions can be.

        Conditions are those of `pyspark.sql.datasource`, on `key`, on all fields of a composite key, or on `key_group`:
        `EqualTo(("key",), "user 3")`, `In(("key", "f0"), (1, 2))`. Others leave all key groups.
        """
        operator = self._snapshot.operator(uid)
        state = self._snapshot.state(operator, name)
        found = key_groups_for(conditions, state.key_type, operator.max_parallelism)
        return [group for part in ([range(operator.max_parallelism)] if found is None else found) for group in part]

    def of_key_groups(self, key_groups: Iterable[int]) -> SavepointReader:
        """The same snapshot, of whose keyed state only the files and row groups with these key groups are read."""
        return SavepointReader(self._spark, self._pointer, self._snapshot, groups_as_text(key_groups))

    def for_keys(self, keys: Iterable[Any]) -> SavepointReader:
        """The same snapshot, of whose keyed state only the rows of these keys are read.

        Keys are Python values, as a job has them; those with several columns are tuples. Files and row groups without
        their key groups are not read.
        """
        return SavepointReader(self._spark, self._pointer, self._snapshot, None, tuple(keys))

    def metadata(self) -> DataFrame:
        """The snapshot itself: one row."""
        return self._spark.createDataFrame(overview.metadata_rows(self._snapshot), overview.METADATA)

    def operators(self) -> DataFrame:
        """The operators: a row each."""
        return self._spark.createDataFrame(overview.operator_rows(self._snapshot), overview.OPERATORS)

    def states(self) -> DataFrame:
        """The states of all operators: a row each, with the declared types as text."""
        return self._spark.createDataFrame(overview.state_rows(self._snapshot), overview.STATES)

    def read_keyed_state(
        self, uid: str, name: str, *, value_type: Any = None, function: Function | None = None, key_type: Any = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """Value, reducing and aggregating state: `key_group`, `key` and `value`, a row for each key.

        With a time-to-live there is `expires_at`. Here as in all other methods:

        `value_type` is what pickled values are loaded as: a type of `Types`, a Python annotation, a type of Spark or
        its text. They are given to the `function` before, if there is one; what it returns has to be of the type.
        `Types.PICKLED_BYTE_ARRAY()` leaves them as bytes. `key_type`, `map_key_type` and `namespace_type` are the same
        for other columns that are pickled. Loading a pickle can run any code that is in it, in the executors.

        `columns` are the names of the columns that are read; without it all.
        """
        types = {"key_type": key_type, "value_type": value_type}
        return self._read(uid, self._state(uid, name, *_VALUES), types, function, columns)

    def read_list_state(
        self, uid: str, name: str, *, value_type: Any = None, function: Function | None = None, key_type: Any = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """List state, a row for each `element`, with its `position`.

        Of keyed state, with `key_group` and `key`; of operator state, with the `subtask` that had it.
        """
        types = {"key_type": key_type, "value_type": value_type}
        state = self._state(uid, name, StateKind.LIST, StateKind.OPERATOR_LIST)
        return self._read(uid, state, types, function, columns)

    def read_union_state(
        self, uid: str, name: str, *, value_type: Any = None, function: Function | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """Union list state of an operator: `subtask`, `element`, `position`."""
        return self._read(
            uid, self._state(uid, name, StateKind.OPERATOR_UNION), {"value_type": value_type}, function, columns
        )

    def read_broadcast_state(
        self, uid: str, name: str, *, map_key_type: Any = None, value_type: Any = None,
        function: Function | None = None, columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """Broadcast state, of which all subtasks have the same: `map_key` and `map_value`, a row for each entry."""
        types = {"map_key_type": map_key_type, "value_type": value_type}
        return self._read(uid, self._state(uid, name, StateKind.BROADCAST), types, function, columns)

    def read_map_state(
        self, uid: str, name: str, *, map_key_type: Any = None, value_type: Any = None,
        function: Function | None = None, key_type: Any = None, columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """Map state: `key_group`, `key`, `map_key` and `map_value`, a row for each entry."""
        types = {"key_type": key_type, "map_key_type": map_key_type, "value_type": value_type}
        return self._read(uid, self._state(uid, name, StateKind.MAP), types, function, columns)

    def read_timers(
        self, uid: str, name: str | None = None, *, key_type: Any = None, namespace_type: Any = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """Timers: `key_group`, `key`, `timestamp` and `domain` (event or processing time), a row each.

        Those of windows have the window as `namespace`. Only an operator with several states of timers needs a name.
        """
        state = self._only(uid, StateKind.TIMERS) if name is None else self._state(uid, name, StateKind.TIMERS)
        return self._read(uid, state, {"key_type": key_type, "namespace_type": namespace_type}, None, columns)

    def read_window_state(
        self, uid: str, name: str, *, value_type: Any = None, function: Function | None = None, key_type: Any = None,
        namespace_type: Any = None, map_key_type: Any = None, columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """State of windows, by key and `namespace`, which is the window: a struct of its start and its end.

        The rest is as of other state of its kind: a `value`; an `element` and its `position`; or a `map_key` and a
        `map_value`.
        """
        operator = self._snapshot.operator(uid)
        state = self._snapshot.state(operator, name)
        if state.namespace_type is None or state.kind is StateKind.TIMERS:
            raise self._wrong_kind(operator, state, "read_window_state reads state of windows")
        types = {
            "key_type": key_type,
            "namespace_type": namespace_type,
            "map_key_type": map_key_type,
            "value_type": value_type,
        }
        return self._read(uid, state, types, function, columns)

    def read_source_positions(
        self, uid: str, *, value_type: Any = None, function: Function | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:  # fmt: skip
        """How far a source has read: a split as each `element`, with the `subtask` that had it.

        Splits are objects of the connector, and pickled: a function makes values of the type of them.
        """
        return self._read(uid, self._only(uid, StateKind.SPLITS), {"value_type": value_type}, function, columns)

    def _state(self, uid: str, name: str, *kinds: StateKind) -> StateSnapshot:
        """A state of one of these kinds that has no windows."""
        operator = self._snapshot.operator(uid)
        state = self._snapshot.state(operator, name)
        wanted = " or ".join(kind.value for kind in kinds)
        if state.kind not in kinds:
            raise self._wrong_kind(operator, state, f"{_METHODS[kinds[0]]} reads {wanted} state")
        if state.namespace_type is not None and state.kind is not StateKind.TIMERS:
            raise self._wrong_kind(operator, state, f"{_METHODS[kinds[0]]} reads state without windows")
        return state

    def _wrong_kind(self, operator: OperatorSnapshot, state: StateSnapshot, wanted: str) -> SnapshotError:
        windows = state.namespace_type is not None and state.kind is not StateKind.TIMERS
        method = "read_window_state" if windows else _METHODS.get(state.kind)
        reason = f"is {state.kind.value} state{' of windows' if windows else ''}, and {wanted}"
        detail = f"use {method}" if method else "no method reads it"
        return SnapshotError(
            self._snapshot.location,
            f"the state '{state.name}' of '{operator.uid or operator.operator_id}' {reason}: {detail}",
        )

    def _only(self, uid: str, kind: StateKind) -> StateSnapshot:
        operator = self._snapshot.operator(uid)
        found = [state for state in operator.states if state.kind is kind]
        if len(found) == 1:
            return found[0]
        if found:
            detail = f"{len(found)} states of the kind {kind.value}: say which, by {', '.join(s.name for s in found)}"
        else:
            known = ", ".join(f"{state.name} ({state.kind.value})" for state in operator.states) or "none"
            detail = f"no state of the kind {kind.value}: it has {known}"
        raise SnapshotError(
            self._snapshot.location, f"the operator '{operator.uid or operator.operator_id}' has {detail}"
        )

    def _read(
        self, uid: str, state: StateSnapshot, types: Mapping[str, Any], function: Function | None,
        columns: Sequence[str] | None,
    ) -> DataFrame:  # fmt: skip
        """The state's columns; those with pickled values are loaded as the types that are given, by parameter."""
        operator = self._snapshot.operator(uid)
        opened = open_state(self._pointer, self._snapshot, operator, state)
        if columns is not None:
            opened = opened.pruned(columns)
        wanted = wanted_types(opened, types, function)
        options = {
            "path": self._pointer, "uid": operator.uid or operator.operator_id, "state": state.name,
            "rowsPerPartition": str(self._rows_per_partition(opened)),
        }  # fmt: skip
        if self._key_groups is not None and state.kind.keyed:
            options["keyGroups"] = self._key_groups
        if self._keys is not None and state.kind.keyed:
            options["keys"] = keys_as_text(self._keys, opened)
        if wanted:
            options["pickled"] = PICKLED_AS_BINARY
        frame = source_frame(self._spark, options, opened.schema)
        loaded = {name: kind for name, kind in wanted.items() if kind != t.PICKLED}
        if not loaded:
            return frame
        return frame.select(
            *(
                decoded(c.name, c.type, loaded[c.name], function if c.name in CONTENT else None)
                if c.name in loaded
                else col(c.name)
                for c in opened.columns
            )
        )

    def _rows_per_partition(self, opened: OpenState) -> int:
        """As many as keep all cores busy, not fewer: each share of a file reads all of it, to check its checksum."""
        tasks: int = self._spark.sparkContext.defaultParallelism
        if len(opened.files) >= tasks:
            return ROWS_PER_FILE
        return min(ROWS_PER_FILE, max(_FEWEST_ROWS, -(-sum(file.rows for file in opened.files) // tasks)))
