"""JSON messages, with PyFlink's names. For files of JSON lines, see `FileSource` and `FileSink`."""

from millstream.datastream.formats.json.row_schemas import JsonRowDeserializationSchema, JsonRowSerializationSchema

__all__ = ["JsonRowDeserializationSchema", "JsonRowSerializationSchema"]
