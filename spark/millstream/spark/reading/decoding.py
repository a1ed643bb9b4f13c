"""Pickled values as columns of a type that the caller gives: the only place that loads a pickle, and only on request.

It runs in the executors, where the classes of the values have to be importable. A value that is not of the type fails
the query, and the error names the column and the value.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as s
from pyspark.sql.functions import arrow_udf, col

from millstream.core.records import types as t
from millstream.core.records.conversion import field_types
from millstream.core.row import Row
from millstream.core.snapshot.tables.columns import from_array, to_array
from millstream.core.snapshot.tables.table import ELEMENT, KEY, MAP_KEY, MAP_VALUE, NAMESPACE, VALUE
from millstream.spark.reading.states import OpenState
from millstream.spark.types import arrow_type_of, spark_type, to_spark, to_stored, type_information

if TYPE_CHECKING:
    from pyspark.sql import Column

Function = Callable[[Any], Any]

CONTENT = (VALUE, ELEMENT, MAP_VALUE)
PARAMETERS = {
    KEY: "key_type", NAMESPACE: "namespace_type", MAP_KEY: "map_key_type", **dict.fromkeys(CONTENT, "value_type")
}  # fmt: skip


def declared_type(given: Any) -> t.TypeInformation:
    """What a caller gave as a type: of Millstream, a Python annotation, a type of Spark or its text."""
    if isinstance(given, str):
        given = s.DataType.fromDDL(given)
    return type_information(given) if isinstance(given, s.DataType) else t.from_hint(given)


def wanted_types(state: OpenState, given: Mapping[str, Any], function: Function | None) -> dict[str, t.TypeInformation]:
    """The type of each column with pickled values, by its name. Refuses to guess one, and one for declared values."""
    types = {name: kind for name, kind in given.items() if kind is not None}
    if function is not None and "value_type" not in types:
        returned = typing.get_type_hints(function).get("return") if not isinstance(function, type) else function
        if returned is None:
            raise state.refused("is to be read by a function whose type is not known: annotate it, or give value_type")
        types["value_type"] = returned
    wanted = {}
    for column in state.columns:
        parameter = PARAMETERS.get(column.name)
        kind = None if parameter is None else types.get(parameter)
        if column.name not in state.pickled():
            if kind is not None:
                declared = column.type.describe()
                detail = f"{column.name} declared as {declared}, and {parameter} is for pickled values only"
                raise state.refused(f"has its column {detail}: cast it after reading")
        elif kind is None:
            detail = f"Types.PICKLED_BYTE_ARRAY() as {parameter} for their bytes"
            raise state.refused(
                f"has pickled values in its column {column.name}, which are not loaded unasked: give {parameter}, the "
                f"type to load them as, or {detail}"
            )
        else:
            wanted[column.name] = declared_type(kind)
    return wanted


def decoded(name: str, stored: t.TypeInformation, wanted: t.TypeInformation, function: Function | None) -> Column:
    """The column of that name with its pickled values loaded, each given to the function if there is one."""
    return arrow_udf(loader(name, stored, wanted, function), spark_type(wanted))(col(name)).alias(name)


def loader(
    name: str, stored: t.TypeInformation, wanted: t.TypeInformation, function: Function | None
) -> Callable[[Any], Any]:
    """What makes a column with loaded values of one with pickled values; both as Spark has them."""
    target = arrow_type_of(spark_type(wanted))

    def load(column):  # type: ignore[no-untyped-def]  # by annotations Spark would choose another kind of function
        values = from_array(to_stored(column, stored, name), stored, name, unpickle=True)
        if function is not None:
            values = [None if value is None else function(value) for value in values]
        made = to_array([shaped(value, wanted) for value in values], wanted, name)
        return to_spark(made, wanted, target)

    return load


def shaped(value: Any, type: t.TypeInformation) -> Any:
    """A value as the type has it: a row of whatever has its fields, as keys, as attributes or in their order."""
    if value is None:
        return None
    match type:
        case t.ListType(element) if isinstance(value, list | tuple | set | frozenset):
            return [shaped(item, element) for item in value]
        case t.MapType(key, inner) if isinstance(value, Mapping):
            return {shaped(name, key): shaped(item, inner) for name, item in value.items()}
        case t.TupleType(fields) if isinstance(value, tuple) and len(value) == len(fields):
            return tuple(shaped(item, kind) for item, kind in zip(value, fields, strict=True))
        case t.RowType():
            return _row(value, type)
    return value


def _row(value: Any, type: t.RowType) -> Any:
    names, types = type.row_names, field_types(type) or []
    if isinstance(value, Mapping):
        parts = [value.get(name) for name in names]
    elif isinstance(value, tuple | list | Row):
        parts = list(value)
    else:
        parts = [getattr(value, name, None) for name in names]
    if len(parts) != len(names):
        return value  # which is refused
    return Row.of_names(names, tuple(shaped(part, kind) for part, kind in zip(parts, types, strict=True)))
