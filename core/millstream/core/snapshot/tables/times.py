"""Dates with times in a column, exactly as they were: with their time zone, and which of two equal times they are.

Times without a zone, and those whose zone is `datetime.UTC`, are plain timestamps. As soon as a column has another one,
it is a struct of the time on the clock, the zone (`Z`, an offset such as `+02:00`, or a name such as `Europe/Berlin`;
null without any) and the fold. Each value keeps its own zone, so what else is in the column does not matter to it.
"""

from __future__ import annotations

import datetime
import functools
import zoneinfo
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.records.exact_values import InexactError

if TYPE_CHECKING:
    import pyarrow as pa

_TIME, _ZONE, _FOLD = "time", "zone", "fold"
_UTC = "Z"


def zoned_type() -> pa.DataType:
    """The Arrow type of times with a zone each."""
    import pyarrow as pa

    return pa.struct([(_TIME, pa.timestamp("us")), (_ZONE, pa.string()), (_FOLD, pa.bool_())])


def times_array(values: Sequence[Any]) -> pa.Array:
    """The datetimes as a column."""
    import pyarrow as pa

    zones = {id(at.tzinfo) for at in values if at is not None}
    if not any(at is not None and at.fold for at in values):
        if zones <= {id(None)}:
            return pa.array(values, pa.timestamp("us"))
        if zones == {id(datetime.UTC)}:
            return pa.array(values, pa.timestamp("us", "UTC"))
    clock = [None if at is None else at.replace(tzinfo=None, fold=0) for at in values]
    names = [None if at is None else _name_of(number, at) for number, at in enumerate(values)]
    folds = [None if at is None else bool(at.fold) for at in values]
    columns = [pa.array(clock, pa.timestamp("us")), pa.array(names, pa.string()), pa.array(folds, pa.bool_())]
    mask = pa.array([at is None for at in values], pa.bool_())
    return pa.StructArray.from_arrays(columns, fields=list(zoned_type()), mask=mask)


def times_of(array: pa.Array) -> list[Any]:
    """The datetimes of a column, of either kind."""
    import pyarrow as pa

    if pa.types.is_struct(array.type):
        return [None if row is None else _at(row) for row in array.to_pylist()]
    if array.type.tz != "UTC":
        plain: list[Any] = array.to_pylist()  # a column in another zone was written by another tool
        return plain
    clock = array.cast(pa.timestamp("us")).to_pylist()
    return [None if at is None else at.replace(tzinfo=datetime.UTC) for at in clock]


def _name_of(number: int, at: datetime.datetime) -> str | None:
    zone = at.tzinfo
    if zone is None:
        return None
    if zone is datetime.UTC:
        return _UTC
    if type(zone) is datetime.timezone:
        offset = datetime.timezone(zone.utcoffset(None))
        if repr(offset) == repr(zone):
            return str(offset).removeprefix("UTC")
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return zone.key
    raise InexactError(
        number, at, f"its time zone, {zone!r:.100}, has no name to be stored by: use datetime.timezone or zoneinfo"
    )


@functools.lru_cache(1024)
def _zone_of(name: str) -> datetime.tzinfo | None:
    if name == _UTC:
        return datetime.UTC
    if name.startswith(("+", "-")):
        return datetime.datetime.fromisoformat(f"2000-01-01T00:00:00{name}").tzinfo
    return zoneinfo.ZoneInfo(name)


def _at(row: dict[str, Any]) -> datetime.datetime:
    at: datetime.datetime = row[_TIME]
    zone = None if row[_ZONE] is None else _zone_of(row[_ZONE])
    return at.replace(tzinfo=zone, fold=int(row[_FOLD] or 0))
