"""DataFrames of a caller as DataFrames with the columns of the snapshot format, and the types that go with them.

All of it is planned here, on the driver: what is wrong with the columns is said before anything runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.records import types as t
from millstream.core.records.types import from_hint
from millstream.spark.errors import SavepointWriteError, nearest
from millstream.spark.types import type_information

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Columns = str | Sequence[str]
"""One column, or several, which are one value with fields."""


class Side:
    """What a caller says of one value in the rows: its columns, and its type if it is not theirs."""

    def __init__(self, frame: DataFrame, what: str, columns: Columns, declared: Any, *, tuples: bool = False) -> None:
        from pyspark.sql import functions as f

        names = [columns] if isinstance(columns, str) else list(columns)
        for name in names:
            if name not in frame.columns:
                raise SavepointWriteError(f"the {what} column '{name}' is not there: {nearest(name, frame.columns)}")
        kinds = [type_information(frame.schema[name].dataType, f"the {what} column '{name}'") for name in names]
        wanted = None if declared is None else from_hint(declared)
        if isinstance(columns, str):
            self.column: Column = f.col(f"`{columns}`")
            self.type: t.TypeInformation = wanted or kinds[0]
            return
        if not names:
            raise SavepointWriteError(f"the {what} has no columns: name one, or several")
        default = t.TupleType(tuple(kinds)) if tuples else t.RowType(tuple(kinds), tuple(names))
        self.type = wanted or default
        fields = self.type.field_names()
        if fields is None or len(fields) != len(names):
            raise SavepointWriteError(
                f"the {what} has {len(names)} columns ({', '.join(names)}), which do not fit {self.type.describe()}"
            )
        by_name = not isinstance(self.type, t.TupleType) and set(fields) == set(names)
        pairs = [(name if by_name else field, name) for field, name in zip(fields, names, strict=True)]
        self.column = f.struct(*(f.col(f"`{name}`").alias(field) for field, name in pairs))
