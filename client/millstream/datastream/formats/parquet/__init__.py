"""Parquet, with PyFlink's names: as columns of a row type, and as records of an Avro schema."""

from millstream.datastream.formats.parquet.avro_parquet import AvroParquetReaders, AvroParquetWriters
from millstream.datastream.formats.parquet.columnar import ParquetColumnarRowInputFormat
from millstream.datastream.formats.parquet.writing import ParquetBulkWriters

__all__ = ["AvroParquetReaders", "AvroParquetWriters", "ParquetBulkWriters", "ParquetColumnarRowInputFormat"]
