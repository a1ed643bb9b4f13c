"""The columns that an operator needs of a batch, in the Arrow types that its stream declares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.records.batches import Batch, ColumnBatch
from millstream.core.records.conversion import ConversionError, field_types, in_microseconds
from millstream.core.records.types import RowType, TupleType, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class InputColumns:
    """Some columns of the records of one stream. A column of another type is cast, if the cast is lossless."""

    def __init__(self, record_type: TypeInformation, wanted: Sequence[str]) -> None:
        self._type = record_type
        self._names = record_type.field_names() or []
        types = dict(zip(self._names, field_types(record_type) or [], strict=True))
        self._wanted = [name for name in self._names if name in wanted]
        self._arrow_types = [types[name].arrow_type() for name in self._wanted]
        nameless = isinstance(record_type, RowType) and record_type.names is None
        self._by_position = isinstance(record_type, TupleType) or nameless

    def of(self, batch: Batch) -> pa.RecordBatch:
        """The selected columns. Raises a ChangedRecordError if a record is not an insertion."""
        data = batch.columns(self._type, self._wanted)
        return self._selected(data) if batch.in_columns else data

    def of_changes(self, batch: Batch) -> ColumnBatch:
        """The selected columns of records that may be changes, with their timestamps and kinds."""
        columns = batch.to_columns(self._type, self._wanted)
        if not batch.in_columns:
            return columns
        return ColumnBatch(self._selected(columns.data), columns.timestamps, columns.kinds)

    def _selected(self, data: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        arrays = [
            self._column(data, name, kind) for name, kind in zip(self._wanted, self._arrow_types, strict=True)
        ]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.nulls(data.num_rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, names=self._wanted)

    def _column(self, data: pa.RecordBatch, name: str, kind: Any) -> pa.Array:
        import pyarrow as pa

        names = data.schema.names
        if names.count(name) == 1:
            column = data.column(name)
        elif self._by_position and len(names) == len(self._names):
            column = data.column(self._names.index(name))
        else:
            raise ConversionError(
                f"a batch of columns {', '.join(names) or '(none)'} does not have exactly one column '{name}', which "
                f"{self._type.describe()} declares"
            )
        if column.type == kind:
            return column
        try:
            return in_microseconds(column).cast(kind)
        except pa.ArrowException as error:
            detail = " ".join(str(error).split())
            raise ConversionError(f"column '{name}' of {column.type} does not fit {kind}: {detail}") from error
