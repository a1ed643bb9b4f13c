"""Which records of a CSV block Arrow is certain to refuse, all at once.

Arrow reports only that a block has a record that it refuses. To parse each record alone takes 0.2 ms each, so
those with another number of values, or with a letter that no value of the column's type has, are found before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_INTEGER = re.compile(rb"[^0-9a-fA-FxX+\- \t]")
_FLOAT = re.compile(rb"[^0-9.eEinfatyINFATY+\- \t]")
_TIME = re.compile(rb"[^0-9TtZz:.+\- \t]")
_SHOWN = 100


def certain(column: pa.Array, kind: pa.DataType) -> dict[int, str]:
    """The rows of a column, read as bytes, that Arrow would refuse for the type, with its message."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return _no_text(column.to_pylist())
    is_time = kinds.is_date(kind) or kinds.is_timestamp(kind) or kinds.is_time(kind)
    foreign = _INTEGER if kinds.is_integer(kind) else _FLOAT if kinds.is_floating(kind) else _TIME if is_time else None
    if foreign is None:
        return {}
    search = foreign.search
    return {
        number: f"CSV conversion error to {kind}: invalid value '{value[:_SHOWN].decode(errors='replace')}'"
        for number, value in enumerate(column.to_pylist())
        if value is not None and search(value)
    }


def _no_text(values: list[Any]) -> dict[int, str]:
    found: dict[int, str] = {}
    for number, value in enumerate(values):
        try:
            if value is not None:
                value.decode()
        except UnicodeDecodeError:
            found[number] = "CSV conversion error to string: invalid UTF8 data"
    return found
