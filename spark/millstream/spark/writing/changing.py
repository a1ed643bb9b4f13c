"""The rows of a state that is there as a DataFrame, and what a changed DataFrame makes of its types. On the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from millstream.core.records.types import from_hint
from millstream.core.snapshot.metadata.model import StateSnapshot, ValueEncoding
from millstream.core.snapshot.metadata.types_json import holds_pickled, type_to_json
from millstream.core.snapshot.tables.table import (
    ELEMENT,
    KEY,
    KEY_GROUP,
    MAP_KEY,
    MAP_VALUE,
    NAMESPACE,
    POSITION,
    VALUE,
)
from millstream.spark.errors import SavepointWriteError
from millstream.spark.reading.states import SUBTASK
from millstream.spark.reading.tables import state_table
from millstream.spark.types import type_information

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

_DOCUMENTS = {
    KEY: "key_type", NAMESPACE: "namespace_type", MAP_KEY: "map_key_type", VALUE: "value_type", ELEMENT: "value_type",
    MAP_VALUE: "value_type",
}  # fmt: skip
_SUBTASK_BITS = 40  # of a position are above those that count elements


def state_frame(spark: SparkSession, uri: str, operator: str, state: StateSnapshot) -> DataFrame:
    """The rows with the columns of the snapshot format, but for the key group; pickled values stay bytes.

    Elements of several subtasks, each of which counts its own, have the positions that they have one after another.
    """
    from pyspark.sql import functions as f

    frame = state_table(spark, uri, operator, state.name)
    if SUBTASK in frame.columns and POSITION in frame.columns:
        frame = frame.withColumn(POSITION, f.shiftleft(f.col(SUBTASK).cast("long"), _SUBTASK_BITS) + f.col(POSITION))
    return frame.drop(KEY_GROUP, SUBTASK)


def changed(spark: SparkSession, frame: DataFrame, name: str, change: Callable[[Any], Any] | str) -> DataFrame:
    """What a function, or SQL with `{state}` in it, makes of the rows: in the same columns."""
    after: DataFrame = spark.sql(change, state=frame) if isinstance(change, str) else change(frame)
    if sorted(after.columns) != sorted(frame.columns):
        detail = f"has the columns {', '.join(after.columns)}, and must have {', '.join(frame.columns)}"
        raise SavepointWriteError(f"the changed state '{name}' {detail}")
    return after.select(*frame.columns)


def changed_state(
    state: StateSnapshot, before: DataFrame, after: DataFrame, declared: dict[str, Any]
) -> StateSnapshot:
    """The state with the types of its changed columns: as declared by name, else as the columns say.

    Where Spark's type of a column is the one that it was, so is the declared one.
    """
    documents: dict[str, Any] = {}
    for column, field in _DOCUMENTS.items():
        if column not in after.columns:
            continue
        kind = after.schema[column].dataType
        if declared.get(field) is not None:
            documents[field] = type_to_json(from_hint(declared[field]))
        elif kind != before.schema[column].dataType:
            documents[field] = type_to_json(type_information(kind, f"the column '{column}'"))
    now = replace(state, **documents)
    pickled = any(d is not None and holds_pickled(d) for d in (getattr(now, field) for field in _DOCUMENTS.values()))
    return replace(now, encoding=ValueEncoding.PICKLE if pickled else None)
