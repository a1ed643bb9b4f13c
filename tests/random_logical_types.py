"""Random logical types and schemas for Hypothesis: of every kind, nested, with and without NULL."""

from __future__ import annotations

from hypothesis import strategies as st

from millstream.core.records import schema as s

_LENGTHS = st.integers(1, 2**31 - 1) | st.integers(1, 4)
_FRACTIONS = st.integers(0, 9)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
NAMES = st.one_of(
    st.sampled_from(["a", "b", "f0", "INT", "not null", "it's", "b`", "``", "a.b", "<", "ß", "\x85", "\xa0"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6),
).filter(lambda name: not all(c.isspace() for c in name) or name in "\x85\xa0")


def _decimals(nullable: bool) -> st.SearchStrategy[s.LogicalType]:
    return st.integers(1, 38).flatmap(
        lambda p: st.integers(0, p).map(lambda scale: s.DecimalType(p, scale, nullable=nullable))
    )


def _day_time(resolution: s.DayTimeResolution, nullable: bool) -> st.SearchStrategy[s.LogicalType]:
    days = st.integers(1, 6) if "DAY" in resolution.value else st.just(2)
    fraction = _FRACTIONS if "SECOND" in resolution.value else st.just(6)
    return st.builds(s.DayTimeIntervalType, st.just(resolution), days, fraction, nullable=st.just(nullable))


def _year_month(resolution: s.YearMonthResolution, nullable: bool) -> st.SearchStrategy[s.LogicalType]:
    years = st.integers(1, 4) if "YEAR" in resolution.value else st.just(2)
    return st.builds(s.YearMonthIntervalType, st.just(resolution), years, nullable=st.just(nullable))


def _atomic(nullable: bool) -> st.SearchStrategy[s.LogicalType]:
    known = st.just(nullable)
    simple = (
        s.BooleanType, s.TinyIntType, s.SmallIntType, s.IntType, s.BigIntType, s.FloatType, s.DoubleType, s.DateType,
    )  # fmt: skip
    return st.one_of(
        *(st.builds(kind, nullable=known) for kind in simple),
        *(
            st.builds(kind, _LENGTHS, nullable=known)
            for kind in (s.CharType, s.VarCharType, s.BinaryType, s.VarBinaryType)
        ),
        *(
            st.builds(kind, _FRACTIONS, nullable=known)
            for kind in (s.TimeType, s.TimestampType, s.ZonedTimestampType, s.LocalZonedTimestampType)
        ),
        st.just(s.NullType()),
        st.sampled_from([s.STRING.with_nullable(nullable), s.BYTES.with_nullable(nullable)]),
        _decimals(nullable),
        st.sampled_from(s.DayTimeResolution).flatmap(lambda r: _day_time(r, nullable)),
        st.sampled_from(s.YearMonthResolution).flatmap(lambda r: _year_month(r, nullable)),
        st.builds(s.RawType, TEXTS.filter(bool), TEXTS, nullable=known),
    )


def _fields(types: st.SearchStrategy[s.LogicalType], least: int) -> st.SearchStrategy[tuple[s.Field, ...]]:
    field = st.builds(s.Field, NAMES, types, description=st.none() | TEXTS)
    return st.lists(field, min_size=least, max_size=4, unique_by=lambda f: f.name).map(tuple)


def _nested(types: st.SearchStrategy[s.LogicalType]) -> st.SearchStrategy[s.LogicalType]:
    known = st.booleans()
    keys = types.filter(lambda type: not isinstance(type, s.NullType))  # no column of Arrow has such keys
    return st.one_of(
        st.builds(s.ArrayOf, types, nullable=known),
        st.builds(s.MultisetOf, keys, nullable=known),
        st.builds(s.MapOf, keys, types, nullable=known),
        st.builds(s.RowOf, _fields(types, 0), nullable=known),
    )


ATOMIC_TYPES: st.SearchStrategy[s.LogicalType] = st.booleans().flatmap(_atomic)
LOGICAL_TYPES: st.SearchStrategy[s.LogicalType] = st.recursive(ATOMIC_TYPES, _nested, max_leaves=6)
SCHEMAS: st.SearchStrategy[s.Schema] = _fields(LOGICAL_TYPES, 0).map(s.Schema)
