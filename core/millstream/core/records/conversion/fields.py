"""The fields of records, which are tuples, rows, dataclasses or dicts."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

from millstream.core.records.conversion.schemas import ConversionError
from millstream.core.row import Row, RowKind, kind_of, names_of, values_of


def names_in(rows: list[Any]) -> list[str] | None:
    """The field names that records of an unknown type have, or None when they are single values."""
    if not rows:
        return None
    if all(isinstance(row, dict) for row in rows):
        return [str(name) for name in dict.fromkeys(name for row in rows for name in row)]
    first = rows[0]
    if isinstance(first, Row):
        return first.get_fields_names() or [f"f{i}" for i in range(len(first))]
    if isinstance(first, tuple):
        return list(getattr(first, "_fields", ())) or [f"f{i}" for i in range(len(first))]
    if dataclasses.is_dataclass(first):
        return [f.name for f in dataclasses.fields(first)]
    return None


def columns_of(rows: list[Any], names: Sequence[str]) -> list[Sequence[Any]]:
    """The values of each named field, in the order of the names. A key that a dict lacks is None."""
    if not rows:
        return [() for _ in names]
    kinds = {row.__class__ for row in rows}
    kind = kinds.pop()
    if kinds:
        return _transposed([fields_of(row, names, number) for number, row in enumerate(rows)], len(names))
    if kind is tuple:
        return _transposed(rows, len(names))
    if kind is Row and set(map(names_of, rows)) <= {None, tuple(names)} and set(map(kind_of, rows)) == {RowKind.INSERT}:
        return _transposed(list(map(values_of, rows)), len(names))
    if dataclasses.is_dataclass(kind) and {f.name for f in dataclasses.fields(kind)} == set(names):
        return [list(map(operator.attrgetter(name), rows)) for name in names]
    return _transposed([fields_of(row, names, number) for number, row in enumerate(rows)], len(names))


def _transposed(rows: list[Any], width: int) -> list[Sequence[Any]]:
    try:
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
    except ValueError:
        columns = []
    if len(columns) != width:
        number, row = next((n, r) for n, r in enumerate(rows) if len(r) != width)
        raise ConversionError(f"row {number} has {len(row)} fields, expected {width}: {row!r:.200}", number)
    return columns


def fields_of(row: Any, names: Sequence[str], number: int) -> Sequence[Any]:
    """One record's fields, in the order of the names; a record that has others would lose them."""
    if isinstance(row, tuple | list):
        return row
    if isinstance(row, Row):
        if kind_of(row) is not RowKind.INSERT:
            raise ConversionError(
                f"row {number} is of the kind {kind_of(row)}, which columns do not hold: {row!r:.200}", number
            )
        own = names_of(row)
        if own is None or own == tuple(names):
            return values_of(row)  # type: ignore[no-any-return]  # a row's
        values: dict[str, Any] = row.as_dict()
    elif isinstance(row, dict):
        values = row
    elif dataclasses.is_dataclass(row) and not isinstance(row, type):
        values = {f.name: getattr(row, f.name) for f in dataclasses.fields(row) if hasattr(row, f.name)}
    else:
        values = {}
    if not isinstance(row, dict) and not values.keys() >= set(names):
        raise ConversionError(f"row {number} does not have the fields {', '.join(names)}: {row!r:.200}", number)
    if further := [str(name) for name in values if name not in names]:
        raise ConversionError(
            f"row {number} has further fields, {', '.join(further)}, which would be lost: {row!r:.200}", number
        )
    return [values.get(name) for name in names]
