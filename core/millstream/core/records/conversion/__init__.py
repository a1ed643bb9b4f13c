"""Between Python records and Arrow record batches, by the records' declared type.

A record with fields (tuple, `Row`, dataclass) becomes a column for each field; any other record becomes one column
named `value`. Without a declared type the fields are taken from the records themselves. Converted values are plain
Python objects, never NumPy scalars or pandas timestamps.

Columns have no classes: the class of a record, list or map is not stored, only that all of a record's fields have a
column. The values themselves are stored exactly, or rejected: see `exact_values`.
"""

from __future__ import annotations

from millstream.core.records.conversion.arrow_kinds import in_microseconds, keeps_values
from millstream.core.records.conversion.fields import columns_of
from millstream.core.records.conversion.results import to_record_batch
from millstream.core.records.conversion.schemas import (
    UNKNOWN,
    VALUE_COLUMN,
    ConversionError,
    arrow_schema,
    field_types,
)
from millstream.core.records.conversion.to_columns import rows_to_record_batch
from millstream.core.records.conversion.to_records import record_batch_to_rows

__all__ = [
    "UNKNOWN",
    "VALUE_COLUMN",
    "ConversionError",
    "arrow_schema",
    "columns_of",
    "field_types",
    "in_microseconds",
    "keeps_values",
    "record_batch_to_rows",
    "rows_to_record_batch",
    "to_record_batch",
]
