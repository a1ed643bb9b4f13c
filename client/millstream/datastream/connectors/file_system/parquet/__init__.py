"""Parquet files, read and written."""
