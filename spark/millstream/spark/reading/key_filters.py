"""Conditions on keys as the key groups that can meet them, so that only their files and row groups are read.

Conditions are Spark's filters, all of which have to hold. One that does not concern key groups has no effect. Key
groups are chosen before a DataFrame is made, and given to the data source as text.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from millstream.core.keys.key_groups import UnhashableKeyError, key_group_of
from millstream.core.records import types as t
from millstream.core.records.conversion import ConversionError, field_types
from millstream.core.snapshot.metadata.model import TypeJson
from millstream.core.snapshot.metadata.types_json import compared, holds_pickled, type_from_json
from millstream.core.snapshot.tables.columns import to_array
from millstream.core.snapshot.tables.table import KEY, KEY_GROUP

_MOST_KEYS = 1000  # of a product of conditions: for more, reading everything is as good

Path = tuple[str, ...]
Values = dict[Path, list[Any]]

_PARSED: dict[str, Callable[[str], Any]] = {
    t.BIG_INT.name: int, t.BIG_DEC.name: decimal.Decimal, t.TIME.name: datetime.time.fromisoformat
}  # fmt: skip


def key_groups_for(filters: Iterable[Filter], key_type: TypeJson | None, max_parallelism: int) -> list[range] | None:
    """The key groups that rows under these conditions can be in; None when the conditions do not say."""
    filters = list(filters)
    groups: set[int] | None = None
    values: Values = {}
    for condition in filters:
        wanted = _of_key_group(condition, max_parallelism)
        if wanted is not None:
            groups = wanted if groups is None else groups & wanted
        path, options = _options(condition)
        if options is not None and path[:1] == (KEY,):
            values[path] = options
    if key_type is not None and values and not holds_pickled(key_type):
        wanted = _of_keys(values, key_type, max_parallelism)
        if wanted is not None:
            groups = wanted if groups is None else groups & wanted
    return None if groups is None else ranges_of(sorted(groups))


def groups_as_text(groups: Iterable[int]) -> str:
    """Key groups as the option of the data source has them: `3, 8-15`."""
    return ", ".join(f"{part.start}-{part.stop - 1}" for part in ranges_of(sorted(set(groups))))


def groups_from_text(text: str, max_parallelism: int) -> list[range]:
    """The key groups of such a text. ValueError for any other, and for key groups that there are not."""
    groups: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        first, dash, last = part.partition("-")
        start, stop = int(first), int(last if dash else first) + 1
        if not 0 <= start < stop <= max_parallelism:
            raise ValueError(part)
        groups.update(range(start, stop))
    return ranges_of(sorted(groups))


def ranges_of(groups: Sequence[int]) -> list[range]:
    """Key groups in order, as ranges of neighbours."""
    found: list[range] = []
    for group in groups:
        if found and found[-1].stop == group:
            found[-1] = range(found[-1].start, group + 1)
        else:
            found.append(range(group, group + 1))
    return found


def _of_key_group(condition: Filter, max_parallelism: int) -> set[int] | None:
    everything = range(max_parallelism)
    match condition:
        case EqualTo((name,), int() as value) | EqualNullSafe((name,), int() as value) if name == KEY_GROUP:
            return {value} & set(everything)
        case In((name,), values) if name == KEY_GROUP:
            return {value for value in values if value is not None} & set(everything)
        case GreaterThan((name,), int() as value) if name == KEY_GROUP:
            return {group for group in everything if group > value}
        case GreaterThanOrEqual((name,), int() as value) if name == KEY_GROUP:
            return {group for group in everything if group >= value}
        case LessThan((name,), int() as value) if name == KEY_GROUP:
            return {group for group in everything if group < value}
        case LessThanOrEqual((name,), int() as value) if name == KEY_GROUP:
            return {group for group in everything if group <= value}
    return None


def _options(condition: Filter) -> tuple[Path, list[Any] | None]:
    """The column of a condition, and the values that it may have under it; None when that is no short list."""
    match condition:
        case EqualTo(path, value) | EqualNullSafe(path, value):
            return path, [value]
        case In(path, values):
            return path, list(values)
        case IsNull(path):
            return path, [None]
    return (), None


def _of_keys(values: Values, key_type: TypeJson, max_parallelism: int) -> set[int] | None:
    keys = _candidates(values, (KEY,), type_from_json(key_type))
    if keys is None:
        return None
    part = compared(key_type)
    try:
        return {key_group_of(key if part is None else part(key), max_parallelism) for key in keys}
    except UnhashableKeyError:
        return None


def _candidates(values: Values, path: Path, type: t.TypeInformation) -> list[Any] | None:
    """All that can be at the path under the conditions; None when that is not known."""
    names, types = type.field_names(), field_types(type)
    if names is not None and types is not None:
        if values.get(path) == [None]:
            return [None]
        inner = [_candidates(values, (*path, name), kind) for name, kind in zip(names, types, strict=True)]
        known = [found for found in inner if found is not None]
        few = math.prod(map(len, known)) <= _MOST_KEYS
        return list(product(*known)) if few and len(known) == len(inner) else None
    options = values.get(path)
    if options is None or not isinstance(type, t.BasicType):
        return None
    try:
        keys = [None if value is None else _as_declared(value, type) for value in options]
        to_array(keys, type, KEY)  # refuses what is no key of the type: its key group would be another
    except (ValueError, TypeError, decimal.InvalidOperation, ConversionError):
        return None
    return keys


def _as_declared(value: Any, type: t.BasicType) -> Any:
    if type.name in _PARSED:
        return _PARSED[type.name](value)
    return bytes(value) if type == t.BYTES else value
