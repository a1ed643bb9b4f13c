"""`CsvSchema`: the columns of CSV text and how it is written, with PyFlink's builder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NoReturn, Self

from millstream.core.errors import InvalidProgramError
from millstream.core.records.types import (
    BOOLEAN,
    LONG,
    STRING,
    BasicType,
    ListType,
    RowType,
    TypeInformation,
    from_hint,
)
from millstream.datastream.formats.csv.columns import Column
from millstream.datastream.formats.csv.dialect import Dialect

_NUMBERS = (int, float, Decimal)


@dataclass(frozen=True)
class CsvSchema:
    """Made with a builder. Columns are found by their position; a header is passed over, or checked."""

    columns: tuple[Column, ...]
    dialect: Dialect = field(default_factory=Dialect)
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    allow_comments: bool = False

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begins without columns."""
        return CsvSchemaBuilder()

    def get_type_info(self) -> TypeInformation:
        """Rows with the columns as their fields."""
        return RowType(tuple(c.type for c in self.columns), tuple(c.name for c in self.columns))

    def size(self) -> int:
        """The number of columns."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


class CsvSchemaBuilder:
    """Settings of a schema. Types are `Types....` or Python's: `Types.INT()`, `int`."""

    def __init__(self) -> None:
        self._columns: list[Column] = []
        self._dialect: dict[str, Any] = {}
        self._settings: dict[str, bool] = {}
        self._separator = ";"

    def build(self) -> CsvSchema:
        """The schema.

        Raises `InvalidProgramError` for columns of the same name.
        """
        names = [column.name for column in self._columns]
        if len(set(names)) != len(names):
            raise InvalidProgramError(f"CSV columns must have different names, got {', '.join(names)}")
        columns = tuple(
            replace(c, separator=c.separator or self._separator) if isinstance(c.type, ListType) else c
            for c in self._columns
        )
        return CsvSchema(columns, Dialect(**self._dialect), **self._settings)

    def _add(self, name: str, kind: TypeInformation, separator: str = "") -> Self:
        self._columns.append(Column(name, kind, separator))
        return self

    def add_array_column(self, name: str, separator: str = ";", element_type: Any = STRING) -> Self:
        """Adds the column `name`, a list of `element_type` with `separator` between its elements."""
        return self._add(name, ListType(_basic("add_array_column", element_type)), separator)

    def add_boolean_column(self, name: str) -> Self:
        """Adds the column `name`, a boolean."""
        return self._add(name, BOOLEAN)

    def add_number_column(self, name: str, number_type: Any = LONG) -> Self:
        """Adds the column `name`, a number of `number_type`.

        Raises `InvalidProgramError` for a type that is not one of numbers.
        """
        kind = _basic("add_number_column", number_type)
        if kind.python_type not in _NUMBERS:
            raise InvalidProgramError(f"add_number_column: {kind.describe()} is no type of numbers")
        return self._add(name, kind)

    def add_string_column(self, name: str) -> Self:
        """Adds the column `name`, text."""
        return self._add(name, STRING)

    def add_columns_from(self, schema: CsvSchema) -> Self:
        """The columns of another schema, behind those that there are."""
        self._columns += schema.columns
        return self

    def clear_columns(self) -> Self:
        """Begins again without columns."""
        self._columns.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> Self:
        """Sets whether lines that begin with # are ignored: `allow`."""
        return self._set("allow_comments", allow)

    def set_any_property_name(self, name: str) -> NoReturn:
        """Raises an error for any `name`: not available."""
        raise InvalidProgramError(
            "set_any_property_name: a row has no place for values without a column; declare a column for each"
        )

    def disable_array_element_separator(self) -> Self:
        """Lists whose column has no separator of its own have none."""
        return self.set_array_element_separator("")

    def remove_array_element_separator(self, index: int) -> Self:
        """Removes the separator of the elements of column `index`."""
        self._columns[index] = replace(self._columns[index], separator="")
        return self

    def set_array_element_separator(self, separator: str) -> Self:
        """What is between the elements of lists whose column has no separator of its own."""
        self._separator = separator
        return self

    def set_column_separator(self, char: str) -> Self:
        """Sets the character between columns to `char`; the default is a comma."""
        return self._write(delimiter=char)

    def disable_escape_char(self) -> Self:
        """No character is taken out of its meaning: the default."""
        return self._write(escape=None)

    def set_escape_char(self, char: str) -> Self:
        """Sets the escape character to `char`: the character after it has no special meaning."""
        return self._write(escape=char)

    def set_line_separator(self, separator: str) -> Self:
        r"""Sets the `separator` of the lines that are written; \n, \r\n and \r are recognized when lines are read."""
        return self._write(line_separator=separator)

    def set_null_value(self, null_value: str) -> Self:
        """Sets the text for None, without quotes, to `null_value`; the default is none."""
        return self._write(null_literal=null_value)

    def disable_quote_char(self) -> Self:
        """Nothing is in quotes."""
        return self._write(quote=None)

    def set_quote_char(self, char: str) -> Self:
        """Sets the character around text to `char`."""
        return self._write(quote=char)

    def set_skip_first_data_row(self, skip: bool = True) -> Self:
        """Sets whether the first record is ignored: `skip`."""
        return self._set("skip_first_data_row", skip)

    def set_strict_headers(self, strict: bool = True) -> Self:
        """Sets whether the names in the header have to be those of the columns: `strict`."""
        return self._set("strict_headers", strict)

    def set_use_header(self, use: bool = True) -> Self:
        """Sets whether the first line has the names of the columns: `use`."""
        return self._set("use_header", use)

    def _set(self, setting: str, value: bool) -> Self:
        self._settings[setting] = bool(value)
        return self

    def _write(self, **changed: Any) -> Self:
        Dialect(**{**self._dialect, **changed})  # refuses what cannot be
        self._dialect.update(changed)
        return self

    def size(self) -> int:
        """The number of columns."""
        return len(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _basic(method: str, hint: Any) -> BasicType:
    kind = from_hint(hint)
    if not isinstance(kind, BasicType):
        raise InvalidProgramError(f"{method}: expected a plain type such as Types.INT(), got {hint!r}")
    return kind
