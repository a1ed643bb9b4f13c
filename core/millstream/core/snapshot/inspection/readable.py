"""Formats values of a snapshot as text and as JSON. Pickled values are shown as their size."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any

from millstream.core.row import Row, names_of
from millstream.core.snapshot.tables.columns import Pickled


def readable(value: Any) -> str:
    """A value as text: strings as they are, others as Python writes them."""
    return value if isinstance(value, str) else _inner(value)


def _inner(value: Any) -> str:
    match value:
        case Pickled(data):
            return f"<pickled, {len(data)} bytes>"
        case Row():
            names = names_of(value)
            inner = [_inner(item) for item in value]
            return f"({', '.join(inner if names is None else [f'{n}={v}' for n, v in zip(names, inner, strict=True)])})"
        case tuple() if type(value) is tuple:
            return f"({', '.join(map(_inner, value))}{',' if len(value) == 1 else ''})"
        case list():
            return f"[{', '.join(map(_inner, value))}]"
        case dict():
            return f"{{{', '.join(f'{_inner(key)}: {_inner(item)}' for key, item in value.items())}}}"
        case datetime.date() | datetime.time() | decimal.Decimal():
            return str(value)
    return repr(value)


def to_json(value: Any) -> Any:
    """A value for `json.dumps`: rows with names as objects, what JSON does not have as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Pickled(data):
            return {"pickled_bytes": len(data)}
        case bytes():
            return value.hex()
        case Row() if (names := names_of(value)) is not None:
            return {name: to_json(item) for name, item in zip(names, value, strict=True)}
        case Row() | list() | tuple():
            return [to_json(item) for item in value]
        case Mapping() if all(isinstance(key, str) for key in value):
            return {key: to_json(item) for key, item in value.items()}
        case Mapping():
            return [[to_json(key), to_json(item)] for key, item in value.items()]
        case datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
    return repr(value)
