"""Formats of files and messages, at PyFlink's paths: json, csv, avro, parquet and orc."""
