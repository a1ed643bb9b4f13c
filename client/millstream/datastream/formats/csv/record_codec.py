"""Rows of a schema's columns as the text of CSV records, and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.records.conversion import ConversionError, columns_of
from millstream.core.row import Row
from millstream.datastream.formats.csv.columns import Column, formatter, parser
from millstream.datastream.formats.csv.dialect import CsvError, Dialect


class RecordCodec:
    """For one schema; `names` are those of its rows."""

    def __init__(self, columns: Sequence[Column], dialect: Dialect, names: tuple[str, ...] = ()) -> None:
        self._columns = columns
        self._dialect = dialect
        self._names = names
        self._parsers = [(column.name, parser(column)) for column in columns]
        self._formatters = [formatter(column, dialect) for column in columns]

    def row(self, record: str) -> Row:
        """The row of a record's text, which has no line end."""
        texts = self._dialect.fields(record)
        if len(texts) != len(self._parsers):
            raise CsvError(f"expected {len(self._parsers)} values, got {len(texts)}")
        values = []
        for (name, parse), text in zip(self._parsers, texts, strict=True):
            try:
                values.append(None if text is None else parse(text))
            except CsvError as error:
                raise CsvError(f"column '{name}': {error}") from None
        return Row.of_names(self._names, values)

    def record(self, row: Any) -> str:
        """The text of a row, a tuple, a dict or a dataclass, without a line end."""
        names = [column.name for column in self._columns]
        try:
            values = [found[0] for found in columns_of([row], names)]
        except ConversionError as error:
            raise CsvError(str(error)) from None
        if len(values) == 1 and values[0] is None and not self._dialect.null_literal:
            raise CsvError("None in the only column would be an empty line, which readers pass over")
        texts = []
        for name, format_, value in zip(names, self._formatters, values, strict=True):
            try:
                texts.append(self._dialect.none() if value is None else format_(value))
            except CsvError as error:
                raise CsvError(f"column '{name}': {error}") from None
        return self._dialect.delimiter.join(texts)
