"""CSV by a schema of columns, with PyFlink's names: in files, and as messages.

`FileSource.for_csv` and `FileSink.for_csv` read and write columns, many times as fast, where no lists, comments or
escapes are needed.
"""

from millstream.datastream.formats.csv.reading import CsvReaderFormat
from millstream.datastream.formats.csv.row_schemas import CsvRowDeserializationSchema, CsvRowSerializationSchema
from millstream.datastream.formats.csv.schema import CsvSchema, CsvSchemaBuilder
from millstream.datastream.formats.csv.writing import CsvBulkWriters

__all__ = [
    "CsvBulkWriters",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]
