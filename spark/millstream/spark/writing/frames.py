"""DataFrames of a caller as DataFrames with the columns of the snapshot format, and the types that go with them.

All of it is planned here, on the driver: errors in the columns are reported before anything runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from millstream.core.records import types as t
from millstream.core.records.types import from_hint
from millstream.core.snapshot.metadata.model import StateKind, TtlSettings
from millstream.core.snapshot.tables.table import (
    ELEMENT,
    EXPIRES_AT,
    KEY,
    MAP_KEY,
    MAP_VALUE,
    NAMESPACE,
    POSITION,
    VALUE,
    StateTypes,
)
from millstream.spark.errors import SavepointWriteError, nearest
from millstream.spark.types import type_information

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Columns = str | Sequence[str]
"""One column, or several, which are one value with fields."""


class Typed(Struct, frozen=True):
    """One value in each row: the expression for it, and its declared type."""

    column: Any
    type: t.TypeInformation


def picked(frame: DataFrame, what: str, columns: Columns, declared: Any = None, *, is_key: bool = False) -> Typed:
    """A caller's description of a value: its columns, and its type if it is not theirs.

    Several columns are a tuple as a key, else a row with their names, unless a type is declared.
    """
    from pyspark.sql import functions as f

    names = [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise SavepointWriteError(f"the {what} has no columns: name one, or several")
    for name in names:
        if name not in frame.columns:
            raise SavepointWriteError(f"the {what} column '{name}' is not there: {nearest(name, frame.columns)}")
    wanted = None if declared is None else from_hint(declared)
    found = [type_information(frame.schema[name].dataType, f"the {what} column '{name}'") for name in names]
    if isinstance(columns, str):
        return Typed(_renamed(f.col(_quoted(columns)), found[0], wanted), wanted or found[0])
    default = t.TupleType(tuple(found)) if is_key else t.RowType(tuple(found), tuple(names))
    kind = wanted or default
    fields = kind.field_names()
    if fields is None or len(fields) != len(names):
        detail = f"the {what} has {len(names)} columns ({', '.join(names)}), which do not fit {kind.describe()}"
        raise SavepointWriteError(detail)
    by_name = not isinstance(kind, t.TupleType) and set(fields) == set(names)
    pairs = [(name if by_name else field, name) for field, name in zip(fields, names, strict=True)]
    return Typed(f.struct(*(f.col(_quoted(name)).alias(field) for field, name in pairs)), kind)


def picked_whole(frame: DataFrame, kind: StateKind, columns: Columns, value_type: Any, map_key_type: Any) -> Typed:
    """A value with all that a key has: the list or the map, of elements and entries of the declared types."""
    found = picked(frame, "value", columns, None if kind in (StateKind.LIST, StateKind.MAP) else value_type)
    match kind, found.type:
        case StateKind.LIST, t.ListType(element):
            return Typed(found.column, t.ListType(element if value_type is None else from_hint(value_type)))
        case StateKind.MAP, t.MapType(key, value):
            key = key if map_key_type is None else from_hint(map_key_type)
            return Typed(found.column, t.MapType(key, value if value_type is None else from_hint(value_type)))
    return found


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _renamed(column: Column, found: t.TypeInformation, wanted: t.TypeInformation | None) -> Column:
    """A struct with the names of a tuple's fields, which have places rather than names."""
    from pyspark.sql import functions as f

    have, names = found.field_names(), None if wanted is None else wanted.field_names()
    if not isinstance(wanted, t.TupleType) or have is None or names is None or len(have) != len(names):
        return column
    return f.struct(*(column.getField(old).alias(new) for old, new in zip(have, names, strict=True)))


class KeyedColumns(Struct, frozen=True):
    """A caller's description of keyed state in the rows of a DataFrame."""

    key: Typed
    value: Typed
    map_key: Typed | None = None
    position: Typed | None = None
    namespace: Typed | None = None


def keyed_frame(
    frame: DataFrame, kind: StateKind, columns: KeyedColumns, ttl: TtlSettings | None, expires_at: str | None
) -> tuple[DataFrame, StateTypes]:
    """The rows of a state, one for each value, element or entry, and the types of its columns."""
    from pyspark.sql import functions as f

    shared = [columns.key.column.alias(KEY)]
    if columns.namespace is not None:
        shared.append(columns.namespace.column.alias(NAMESPACE))
    if ttl is not None:
        shared.append(_deadline(frame, ttl, expires_at).alias(EXPIRES_AT))
    elif expires_at is not None:
        raise SavepointWriteError("rows expire only in a state with a time-to-live: give its ttl as well")
    value, map_type = columns.value, None
    content: list[Column]
    match kind:
        case StateKind.LIST if columns.position is not None:
            content = [value.column.alias(ELEMENT), columns.position.column.cast("long").alias(POSITION)]
        case StateKind.LIST:
            if not isinstance(value.type, t.ListType):
                raise SavepointWriteError(
                    "a list state is made of a column of arrays, or of a row for each element with its position: "
                    f"the value is {value.type.describe()}; name the column of the position"
                )
            value = Typed(value.column, value.type.element)
            content = [f.posexplode(value.column).alias(POSITION, ELEMENT)]
        case StateKind.MAP if columns.map_key is not None:
            map_type = columns.map_key.type
            content = [columns.map_key.column.alias(MAP_KEY), value.column.alias(MAP_VALUE)]
        case StateKind.MAP:
            if not isinstance(value.type, t.MapType):
                raise SavepointWriteError(
                    "a map state is made of a column of maps, or of a row for each entry with its map_key: the value "
                    f"is {value.type.describe()}; name the column of the map_key"
                )
            map_type = value.type.key
            content = [f.explode(value.column).alias(MAP_KEY, MAP_VALUE)]
            value = Typed(value.column, value.type.value)
        case _:
            content = [value.column.alias(VALUE)]
    namespace = None if columns.namespace is None else columns.namespace.type
    return frame.select(*shared, *content), StateTypes(columns.key.type, value.type, namespace, map_type)


def _deadline(frame: DataFrame, ttl: TtlSettings, expires_at: str | None) -> Column:
    """In milliseconds; without a column, all rows expire as if they had been written now."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    if expires_at is None:
        return f.lit(int(time.time() * 1000) + ttl.ttl_ms).cast("long")
    picked(frame, "expires_at", expires_at)
    column = f.col(_quoted(expires_at))
    is_moment = isinstance(frame.schema[expires_at].dataType, TimestampType)
    return f.unix_millis(column) if is_moment else column
