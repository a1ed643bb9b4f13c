"""Declared types, each with its values: for tests that draw both."""

from __future__ import annotations

import datetime
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from millstream.core.records import types as t
from millstream.core.row import Row

BERLIN = ZoneInfo("Europe/Berlin")
TIMES = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
ZONED = st.builds(lambda at, zone: at.replace(tzinfo=zone), TIMES, st.sampled_from([None, datetime.UTC, BERLIN]))
BASIC: dict[Any, Any] = {
    t.STRING: st.text(max_size=5), t.BOOLEAN: st.booleans(), t.BYTE: st.integers(-128, 127),
    t.SHORT: st.integers(-(2**15), 2**15 - 1), t.INT: st.integers(-(2**31), 2**31 - 1),
    t.LONG: st.integers(-(2**63), 2**63 - 1), t.FLOAT: st.floats(width=32), t.DOUBLE: st.floats(),
    t.BIG_INT: st.integers(), t.BIG_DEC: st.decimals(allow_nan=False), t.BYTES: st.binary(max_size=5),
    t.DATE: st.dates(datetime.date(1900, 1, 1)), t.TIMESTAMP: ZONED,
    t.TIME: st.times().map(lambda at: at.replace(fold=0)),
    t.INSTANT: TIMES.map(lambda at: at.replace(tzinfo=datetime.UTC)),
}  # fmt: skip


def typed_values() -> st.SearchStrategy[tuple[t.TypeInformation, st.SearchStrategy[Any]]]:
    """A type, and its values: all of them can be None when they are nested in others."""
    basic = st.sampled_from(list(BASIC)).map(lambda kind: (kind, BASIC[kind]))
    return st.recursive(basic, _nested, max_leaves=4)


def _nested(inner: Any) -> Any:
    names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True)
    lists = inner.map(lambda of: (t.ListType(of[0]), st.lists(st.none() | of[1], max_size=3)))
    keys = st.sampled_from([t.STRING, t.LONG, t.DATE])
    maps = st.builds(
        lambda key, of: (t.MapType(key, of[0]), st.dictionaries(BASIC[key], st.none() | of[1], max_size=3)), keys, inner
    )
    tuples = st.lists(inner, min_size=1, max_size=3).map(
        lambda of: (t.TupleType(tuple(k for k, _ in of)), st.tuples(*(st.none() | v for _, v in of)))
    )
    rows = names.flatmap(lambda n: st.lists(inner, min_size=len(n), max_size=len(n)).map(lambda of: _rows(n, of)))
    return st.one_of(lists, maps, tuples, rows)


def _rows(names: list[str], of: list[Any]) -> Any:
    kind = t.RowType(tuple(k for k, _ in of), tuple(names))
    values = st.tuples(*(st.none() | v for _, v in of))
    return kind, values.map(lambda items: Row(**dict(zip(names, items, strict=True))))
