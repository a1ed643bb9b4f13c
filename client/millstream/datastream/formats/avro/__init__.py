"""Avro, with PyFlink's names. Needs fastavro: `pip install millstream[avro]`."""

from millstream.datastream.formats.avro.reading import AvroInputFormat
from millstream.datastream.formats.avro.row_schemas import AvroRowDeserializationSchema, AvroRowSerializationSchema
from millstream.datastream.formats.avro.schema import AvroSchema, GenericRecordAvroTypeInfo
from millstream.datastream.formats.avro.writing import AvroBulkWriters

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]
