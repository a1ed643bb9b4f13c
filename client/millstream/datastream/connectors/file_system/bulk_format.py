"""`BulkFormat`: PyFlink's name for the formats that read a file as batches of records, such as Parquet."""

from __future__ import annotations

from millstream.core.overriding import override
from millstream.core.records.type_variables import T_co
from millstream.datastream.connectors.file_system.splits import FileFormat


class BulkFormat(FileFormat[T_co]):
    """Base of formats whose readers return Arrow batches."""

    @override
    def produces_columns(self) -> bool:
        return True
