"""From anything that holds columns, as functions over batches return it, to a record batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millstream.core.records.conversion.schemas import ConversionError

if TYPE_CHECKING:
    import pyarrow as pa


def to_record_batch(result: Any) -> pa.RecordBatch:
    """The result of a vectorised function: a record batch, a table, a pandas DataFrame, or a dict of columns."""
    import pyarrow as pa

    if isinstance(result, pa.RecordBatch):
        return result
    try:
        if isinstance(result, pa.Table):
            return _one_batch(result)
        if isinstance(result, dict):
            return pa.RecordBatch.from_pydict(
                {name: c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for name, c in result.items()}
            )
        if result.__class__.__module__.partition(".")[0] == "pandas" and hasattr(result, "columns"):
            return pa.RecordBatch.from_pandas(result, preserve_index=False)
        if hasattr(result, "__arrow_c_stream__") and not isinstance(result, pa.ChunkedArray):
            return _one_batch(pa.table(result))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConversionError(f"the result cannot become a record batch: {' '.join(str(error).split())}") from error
    raise ConversionError(
        f"expected a pyarrow RecordBatch or Table, a pandas DataFrame or a dict of columns, "
        f"got {type(result).__qualname__}: {result!r:.200}"
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    import pyarrow as pa

    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    if batches:
        return pa.concat_batches(batches)
    return pa.RecordBatch.from_pylist([], schema=table.schema)
