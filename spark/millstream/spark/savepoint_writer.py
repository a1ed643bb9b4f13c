"""`SavepointWriter`: a savepoint from DataFrames, or from another savepoint and changes to it.

Calls only plan, and refuse what is wrong with names, columns and types at once; `write` runs Spark's jobs. What is
written is a savepoint as a job's is: it is restored, inspected and disposed of in the same way.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from millstream.client.state_bootstrap import (
    USER_TIMERS,
    WINDOW_CONTENTS,
    WINDOW_TIMERS,
    described_state,
    ttl_settings,
)
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.records.types import from_hint
from millstream.core.snapshot.inspection.opened import open_snapshot
from millstream.core.snapshot.metadata.model import SnapshotMetadata, StateKind, StateSnapshot, TtlSettings
from millstream.core.snapshot.tables.restore import column_types
from millstream.core.snapshot.tables.table import (
    DOMAIN,
    ELEMENT,
    KEY,
    MAP_KEY,
    MAP_VALUE,
    NAMESPACE,
    POSITION,
    TIMESTAMP,
    StateTypes,
)
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.datastream.state.ttl import StateTtlConfig
from millstream.spark.errors import SavepointWriteError
from millstream.spark.functions import KeyedStateBootstrapFunction, StateBootstrapFunction
from millstream.spark.operator_identifier import OperatorIdentifier
from millstream.spark.registration import require_classic
from millstream.spark.validation import check_against_job
from millstream.spark.writing.changing import changed, changed_state, state_frame
from millstream.spark.writing.draft import AsItIs, Draft, FromRows, PlannedOperator, PlannedState
from millstream.spark.writing.executing import SavepointWrite, WriteOptions
from millstream.spark.writing.existing import Snapshot, redeclared, stored_rows
from millstream.spark.writing.filling import ORDER, PREFIX, Filling
from millstream.spark.writing.frames import Columns, KeyedColumns, Typed, keyed_frame, picked, picked_whole
from millstream.spark.writing.identity import KeepOnConflict, Rule
from millstream.spark.writing.jobs import Rows, of_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Operator = OperatorIdentifier | str
_WINDOW = t.TupleType((t.LONG, t.LONG), ("start", "end"))
_KINDS = (StateKind.VALUE, StateKind.LIST, StateKind.MAP, StateKind.REDUCING, StateKind.AGGREGATING)
_EVENT = "event"


class Untouched(Enum):
    """What becomes of states that the writer does not name."""

    COPY = "copy"
    LINK = "link"


class SavepointWriter:
    """Made by `new_savepoint` or `from_existing_savepoint`. Its methods return the writer itself, but for `write`."""

    def __init__(self, spark: SparkSession, draft: Draft, base: Snapshot | None, load_pickles: bool) -> None:
        self._spark, self._draft, self._base, self._load_pickles = spark, draft, base, load_pickles

    @classmethod
    def new_savepoint(
        cls, spark: SparkSession, max_parallelism: int, *, job_name: str = "", load_pickles: bool = False
    ) -> SavepointWriter:
        """A savepoint that has nothing yet. The job that starts from it has this max parallelism ever after."""
        require_classic(spark)
        return cls(spark, Draft(max_parallelism, job_name), None, load_pickles)

    @classmethod
    def from_existing_savepoint(
        cls, spark: SparkSession, path: str, *, max_parallelism: int | None = None, load_pickles: bool = False
    ) -> SavepointWriter:
        """A savepoint that has all that another, or a checkpoint, has; which is only read.

        With a max parallelism, keyed state is hashed to its key groups again. Keys that are pickled are loaded for it
        only with `load_pickles`, for a pickle can run any code.
        """
        require_classic(spark)
        opened = open_snapshot(str(path))
        return cls(spark, Draft.of(opened.metadata, max_parallelism), Snapshot(str(path)), load_pickles)

    # State from DataFrames

    def with_keyed_state(
        self, uid: Operator, state: str | StateDescriptor, df: DataFrame, *, key: Columns, value: Columns,
        kind: StateKind | str = StateKind.VALUE, map_key: Columns | None = None, position: str | None = None,
        key_type: Any = None, value_type: Any = None, map_key_type: Any = None,
        ttl: StateTtlConfig | timedelta | None = None, expires_at: str | None = None,
        on_conflict: Rule | str | None = None,
    ) -> SavepointWriter:  # fmt: skip
        """Keyed state, of the columns of a DataFrame. Several columns are a composite key, or a value with fields.

        `state` is the name, with its `kind` (`value`, `list`, `map`, `reducing`, `aggregating`); or the descriptor that
        the job has, which has the kind, types and time-to-live. Without declared types, they are those of the columns;
        `value_type` is that of a list's elements, and of a map's values.
        Reducing state has its value, aggregating state its accumulator. A list is a column of arrays, or a row for each
        element with its `position`; a map is a column of maps, or a row for each entry with its `map_key`.

        With a `ttl`, `expires_at` names the column with the time (a timestamp, or milliseconds; null: never); without
        it all rows expire as if they were written now. `on_conflict` merges the rows into a state that is there
        already: it decides what counts for a key on both sides (see `KeepOnConflict`).
        """
        name = state if isinstance(state, str) else state.name
        keys = picked(df, "key", key, key_type, is_key=True)
        wanted, settings = _kind(kind), _ttl(ttl)
        if isinstance(state, StateDescriptor):
            described = described_state(state, keys.type)
            wanted, settings = described.kind, described.ttl
            map_key_type, value_type = state.types[0], state.types[-1]
        is_whole = position is None and map_key is None  # a column of lists or maps, if that is what it is
        columns = KeyedColumns(
            keys,
            picked_whole(df, wanted, value, value_type, map_key_type) if is_whole
            else picked(df, "value", value, value_type),
            None if map_key is None else picked(df, "map_key", map_key, map_key_type),
            None if position is None else picked(df, "position", position),
        )  # fmt: skip
        frame, found = keyed_frame(df, wanted, columns, settings, expires_at)
        snapshot = replace(found.snapshot(name, wanted), ttl=settings)
        return self._put(uid, snapshot, frame, on_conflict)

    def with_keyed_function(
        self, uid: Operator, df: DataFrame, key: Columns, function: KeyedStateBootstrapFunction, *,
        key_type: Any = None, order_by: str | None = None,
    ) -> SavepointWriter:  # fmt: skip
        """Keyed state and timers of one operator, as a function makes them of rows.

        The function sees the rows of each key, in the order of `order_by` (a column of numbers or times), if given.
        """
        from pyspark.sql import functions as f

        keys = picked(df, "key", key, key_type, is_key=True)
        columns = [keys.column.alias(KEY), *_all_columns(df)]
        if order_by is not None:
            column = picked(df, "order_by", order_by)
            moment = column.type in (t.INSTANT, t.TIMESTAMP)
            order = f.unix_micros(column.column.cast("timestamp")) if moment else column.column.cast("long")
            columns.append(order.alias(ORDER))
        filling = Filling(
            df.select(*columns), to_bytes(function), keys.type, tuple(df.columns), order_by is not None
        )
        self._draft.operator_for(uid).fillings.append(filling)
        return self

    def with_operator_function(
        self, uid: Operator, df: DataFrame, function: StateBootstrapFunction
    ) -> SavepointWriter:
        """Operator state of one operator, as a function makes it of rows, which it sees in their order, in one task."""
        from pyspark.sql import functions as f

        frame = df.select(*_all_columns(df), f.monotonically_increasing_id().alias(ORDER))
        filling = Filling(frame, to_bytes(function), None, tuple(df.columns), ordered=True)
        self._draft.operator_for(uid).fillings.append(filling)
        return self

    def with_operator_state(
        self, uid: Operator, name: str, df: DataFrame, *, value: Columns, value_type: Any = None, union: bool = False
    ) -> SavepointWriter:
        """Elements of operator list state, in the order of the rows; with `union`, each subtask gets all of them."""
        from pyspark.sql import functions as f

        elements = picked(df, "value", value, value_type)
        kind = StateKind.OPERATOR_UNION if union else StateKind.OPERATOR_LIST
        frame = df.select(elements.column.alias(ELEMENT), f.monotonically_increasing_id().alias(POSITION))
        return self._put(uid, StateTypes(value=elements.type).snapshot(name, kind), frame, None)

    def with_broadcast_state(
        self, uid: Operator, name: str, df: DataFrame, *, key: Columns, value: Columns, key_type: Any = None,
        value_type: Any = None,
    ) -> SavepointWriter:  # fmt: skip
        """Broadcast state: a row for each entry of the map."""
        entry = picked(df, "key", key, key_type, is_key=True), picked(df, "value", value, value_type)
        types = StateTypes(value=entry[1].type, map_key=entry[0].type)
        frame = df.select(entry[0].column.alias(MAP_KEY), entry[1].column.alias(MAP_VALUE))
        return self._put(uid, types.snapshot(name, StateKind.BROADCAST), frame, None)

    def with_timers(
        self, uid: Operator, df: DataFrame, *, key: Columns, timestamp: str, domain: str = _EVENT, key_type: Any = None,
    ) -> SavepointWriter:  # fmt: skip
        """Timers of a process function: when (a timestamp, or milliseconds), of the `event` or `processing` domain."""
        keys = picked(df, "key", key, key_type, is_key=True)
        return self._timers(uid, USER_TIMERS, df, keys, _milliseconds(df, timestamp), domain, None)

    def with_window_state(
        self, uid: Operator, df: DataFrame, *, key: Columns, value: Columns, window: tuple[str, str],
        kind: StateKind | str = StateKind.REDUCING, position: str | None = None, key_type: Any = None,
        value_type: Any = None, name: str = WINDOW_CONTENTS, domain: str = _EVENT,
        allowed_lateness: timedelta = timedelta(),
    ) -> SavepointWriter:  # fmt: skip
        """What time windows hold: by key and window, which are columns of its start and its end.

        The kind is `reducing` for windows that reduce, `aggregating` for those that aggregate (the value is the
        accumulator), `list` for those that keep their records. Each window gets the timers that fire and remove it.
        """
        from pyspark.sql import functions as f

        keys = picked(df, "key", key, key_type, is_key=True)
        start, end = (_milliseconds(df, column) for column in window)
        space = Typed(f.struct(start.alias("start"), end.alias("end")), _WINDOW)
        where = None if position is None else picked(df, "position", position)
        columns = KeyedColumns(keys, picked(df, "value", value, value_type), None, where, space)
        frame, types = keyed_frame(df, _kind(kind), columns, None, None)
        self._put(uid, types.snapshot(name, _kind(kind)), frame, None)
        late = int(allowed_lateness.total_seconds() * 1000) if domain == _EVENT else 0
        times = f.explode(f.array_distinct(f.array(end - 1, end - 1 + late)))
        return self._timers(uid, WINDOW_TIMERS, df, keys, times, domain, space)

    def with_source_positions(
        self, uid: Operator, splits: Iterable[Any] = (), *, enumerator_state: Any = None
    ) -> SavepointWriter:
        """Where a source continues: the splits that its readers are at, and what its split enumerator has left.

        Splits are objects of the source's own class. `enumerator_state` is what the source's `restore_enumerator`
        takes; for most sources that is the list of the splits that no reader has yet.
        """
        frame = self._spark.createDataFrame(
            [(bytearray(to_bytes(split)), number) for number, split in enumerate(splits)],
            f"{ELEMENT} binary, {POSITION} long",
        )
        state = StateTypes(value=t.PICKLED).snapshot("splits", StateKind.SPLITS)
        self._put(uid, state, frame, None)
        identifier = self._draft.operator(uid).identifier
        self._draft.set_enumerator(identifier, base64.b64encode(to_bytes(enumerator_state)).decode())
        return self

    # Changes to what is there

    def remove_operator(self, uid: Operator) -> SavepointWriter:
        """Without an operator and all its state."""
        self._draft.remove_operator(uid)
        return self

    def change_operator_identifier(self, uid: Operator, new_uid: Operator) -> SavepointWriter:
        """An operator's state for one of another uid."""
        self._draft.rename_operator(uid, new_uid)
        return self

    def remove_state(self, uid: Operator, name: str) -> SavepointWriter:
        """Without a state."""
        self._draft.remove_state(uid, name)
        return self

    def rename_state(self, uid: Operator, name: str, new_name: str) -> SavepointWriter:
        """A state under another name."""
        self._draft.rename_state(uid, name, new_name)
        return self

    def transform_state(
        self, uid: Operator, name: str, change: Callable[[DataFrame], DataFrame] | str, *, key_type: Any = None,
        value_type: Any = None, map_key_type: Any = None,
    ) -> SavepointWriter:  # fmt: skip
        """A state's rows changed: by a function of the DataFrame, or by SQL in which `{state}` stands for it.

        The columns are those of the snapshot format (`key`, `value`; `element`, `position`; `map_key`, `map_value`;
        `namespace`, `expires_at`), and the result has the same ones. A type changes with its column: where Spark's type
        is the one that it was, the declared one stays. Lists of several subtasks are one list, in the order of these.
        """
        operator, planned = self._draft.state(uid, name)
        before, size = self._frame(operator, planned)
        after = changed(self._spark, before, name, change)
        declared = {"key_type": key_type, "value_type": value_type, "map_key_type": map_key_type}
        state = changed_state(planned.state, before, after, declared)
        self._draft.put(operator, state, FromRows((of_columns(after, state, size=size),)))
        return self

    def filter_keys(self, uid: Operator, condition: Column | str) -> SavepointWriter:
        """Only the keys of an operator for which the condition, on the column `key`, holds; in all its states."""
        operator = self._draft.operator(uid)
        for planned in list(operator.states.values()):
            if planned.state.kind.keyed:
                frame, size = self._frame(operator, planned)
                rows = of_columns(frame.where(condition), planned.state, size=size)
                self._draft.put(operator, planned.state, FromRows((rows,)))
        return self

    def declare_state(
        self, uid: Operator, name: str, *, value_type: Any = None, key_type: Any = None, map_key_type: Any = None
    ) -> SavepointWriter:
        """A state whose values were pickled, with the types that they are of. Loads the pickles, in Spark's tasks."""
        operator, planned = self._draft.state(uid, name)
        if not self._load_pickles:
            raise SavepointWriteError(
                f"state '{name}' is pickled, and loading it may run any code: allow it with load_pickles=True, if you "
                "trust its author"
            )
        if not isinstance(planned.content, AsItIs) or self._base is None:
            raise SavepointWriteError(f"state '{name}' was written here: declare its types there")
        before = StateTypes.of(planned.state)
        pairs = [(before.key, key_type), (before.value, value_type), (before.map_key, map_key_type)]
        key, value, map_key = (old if hint is None else from_hint(hint) for old, hint in pairs)
        types = StateTypes(key, value, before.namespace, map_key)
        after = replace(types.snapshot(name, planned.state.kind), ttl=planned.state.ttl)
        change = redeclared(column_types(planned.state), column_types(after))
        rows = stored_rows(self._spark, self._base, planned.content.source, change)
        self._draft.put(operator, after, FromRows((rows,)))
        return self

    def compact(self, uid: Operator | None = None, name: str | None = None) -> SavepointWriter:
        """The same rows in fewer files: of one state, of all keyed states of an operator, or of all operators."""
        if name is not None and uid is not None:
            self._draft.state(uid, name)
        operators = list(self._draft.operators.values()) if uid is None else [self._draft.operator(uid)]
        for operator in operators:
            for planned in list(operator.states.values()):
                content, wanted = planned.content, name in (None, planned.state.name)
                if isinstance(content, AsItIs) and self._base is not None and planned.state.kind.keyed and wanted:
                    rows = stored_rows(self._spark, self._base, content.source)
                    self._draft.put(operator, planned.state, FromRows((rows,)))
        return self

    # The end

    def write(
        self, path: str, *, untouched: Untouched | str = Untouched.COPY, verify: bool = True,
        partitions: int | None = None, job: str | None = None, job_arguments: Sequence[str] = (),
    ) -> SnapshotMetadata:  # fmt: skip
        """Writes the savepoint to a folder that is not there yet, or empty: all of it or nothing.

        With `verify`, every file is read again and checked before the savepoint exists. With a `job` (a wheel or a
        program, and the arguments of `millstream run` that go with it), a savepoint that the job cannot start from is
        deleted again. States that the writer does not name are copied, or linked to (see `Untouched`).
        """
        link = Untouched(untouched) is Untouched.LINK
        options = WriteOptions(link, verify, self._load_pickles, partitions)
        writing = SavepointWrite(self._spark, self._draft, self._base, str(path), options)
        metadata = writing.run()
        if job is not None:
            try:
                check_against_job(str(path), job, job_arguments)
            except BaseException:
                writing.delete()
                raise
        return metadata

    def _put(
        self, uid: Operator, state: StateSnapshot, frame: DataFrame, on_conflict: Rule | str | None
    ) -> SavepointWriter:
        operator = self._draft.operator_for(uid)
        known = operator.states.get(state.name)
        if known is None:
            self._draft.put(operator, state, FromRows((of_columns(frame, state),)))
            return self
        named = f"operator '{operator.identifier.name}' has a state '{state.name}' already"
        if on_conflict is None:
            raise SavepointWriteError(f"{named}: remove it first, or merge the rows into it with on_conflict")
        if known.state != state:
            raise SavepointWriteError(f"{named}, of another kind or type: change its type first, or that of the rows")
        rule = KeepOnConflict(on_conflict) if isinstance(on_conflict, str) else on_conflict
        if isinstance(known.content, AsItIs) and self._base is not None:
            before: Rows = stored_rows(self._spark, self._base, known.content.source)
        elif isinstance(known.content, FromRows) and len(known.content.rows) == 1:
            before = known.content.rows[0]
        else:
            raise SavepointWriteError(f"{named}, which was merged into before: merge the rows before that")
        rows = before, of_columns(frame, state, side=1)
        self._draft.put(operator, state, FromRows(rows, rule))
        return self

    def _timers(
        self, uid: Operator, name: str, df: DataFrame, keys: Typed, times: Column, domain: str, space: Typed | None
    ) -> SavepointWriter:
        from pyspark.sql import functions as f

        if domain not in (_EVENT, "processing"):
            raise SavepointWriteError(f"the domain of timers is '{domain}', and must be event or processing")
        columns = [keys.column.alias(KEY), times.alias(TIMESTAMP), f.lit(domain).alias(DOMAIN)]
        if space is not None:
            columns.append(space.column.alias(NAMESPACE))
        types = StateTypes(keys.type, None, None if space is None else space.type)
        return self._put(uid, types.snapshot(name, StateKind.TIMERS), df.select(*columns), None)

    def _frame(self, operator: PlannedOperator, planned: PlannedState) -> tuple[DataFrame, int]:
        """A state's rows as a DataFrame with the columns of the format, and how many bytes they have in files."""
        if not isinstance(planned.content, AsItIs) or self._base is None:
            raise SavepointWriteError(
                f"state '{planned.state.name}' of '{operator.identifier.name}' was written or changed here already: "
                "change its DataFrame there"
            )
        source = planned.content.source
        frame = state_frame(self._spark, self._base.uri, planned.content.operator, source)
        return frame, sum(file.size for file in source.files)


def _kind(kind: StateKind | str) -> StateKind:
    try:
        found = StateKind(kind)
    except ValueError:
        found = None
    if found not in _KINDS:
        known = ", ".join(each.value for each in _KINDS)
        raise SavepointWriteError(f"the kind of a keyed state is '{kind}', and must be one of {known}")
    return found


def _ttl(ttl: StateTtlConfig | timedelta | None) -> TtlSettings | None:
    config = StateTtlConfig.new_builder(ttl).build() if isinstance(ttl, timedelta) else ttl
    return ttl_settings(config)


def _all_columns(df: DataFrame) -> list[Column]:
    """All columns, by numbers."""
    return [picked(df, "row", name).column.alias(f"{PREFIX}{number}") for number, name in enumerate(df.columns)]


def _milliseconds(df: DataFrame, column: str) -> Column:
    from pyspark.sql import functions as f

    found = picked(df, "time", column)
    return f.unix_millis(found.column) if found.type == t.INSTANT else found.column.cast("long")
