"""Expressions over columns compared with the same functions of Python, called row by row.

Random expressions over fields of all types of numbers, text, truth values and decimals, with None and NaN; batches of
rows, tuples and columns, with timestamps and kinds of change. A model has a rule for None, which Python does not, and
says for which row there is no value: then the operator fails with that row.
"""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import Row, Types
from millstream.core.expressions import EvaluationError
from millstream.core.jobs.plan.calc_plan import CalcSpec
from millstream.core.records.batches import Batch, ColumnBatch, RowBatch
from millstream.core.records.batches.columns import kinds_column
from millstream.core.records.conversion import rows_to_record_batch
from millstream.core.records.types import TupleType, from_hint
from millstream.core.row import RowKind
from millstream.datastream.adapters.calculations import filter_of, map_of
from millstream.datastream.expressions import Expression, coalesce, col, if_then_else, lit, row
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

NAMES = ("tiny", "short", "int", "long", "single", "double", "flag", "text", "amount")
KINDS = (
    Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.BOOLEAN(),
    Types.STRING(), Types.BIG_DEC(),
)  # fmt: skip
ROWS = Types.ROW_NAMED(list(NAMES), list(KINDS))
TUPLES = TupleType(KINDS, NAMES)
DAY = datetime.timedelta(days=1)
Values = tuple[Any, ...]


class NoValueError(Exception):
    """An expression has no value for a row."""


@dataclass(frozen=True)
class Pair:
    """An expression, and the same as a function of the values of a row."""

    expression: Expression
    of: Callable[[Values], Any]


def column(name: str) -> Pair:
    place = NAMES.index(name)
    return Pair(col(name), lambda values: values[place])


def constant(value: Any) -> Pair:
    return Pair(lit(value), lambda values: value)


def strict(expression: Expression, function: Callable[..., Any], *arguments: Pair) -> Pair:
    """None if an argument is None."""

    def of(values: Values) -> Any:
        given = [argument.of(values) for argument in arguments]
        return None if None in [g if g is None else 0 for g in given] else function(*given)

    return Pair(expression, of)


def in_64_bits(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise NoValueError
    return value


def of_integers(function: Callable[..., int]) -> Callable[..., int]:
    def checked(*values: int) -> int:
        try:
            return in_64_bits(function(*values))
        except ZeroDivisionError:
            raise NoValueError from None

    return checked


def of_floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """Integers beside floats are floats first."""

    def checked(*values: float) -> Any:
        try:
            return function(*map(float, values))
        except ZeroDivisionError:
            raise NoValueError from None

    return checked


def of_decimals(function: Callable[..., Decimal]) -> Callable[..., Decimal]:
    def rounded(*values: Decimal) -> Decimal:
        with localcontext(prec=90):
            exact = function(*map(Decimal, values)).quantize(Decimal(1).scaleb(-18), ROUND_HALF_EVEN)
        if abs(exact) >= Decimal(10) ** 20:
            raise NoValueError
        return exact

    return rounded


def truncated(value: float) -> int:
    if value != value or value in (float("inf"), float("-inf")):
        raise NoValueError
    return in_64_bits(int(value))


INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1.5, float("nan")])
DECIMALS = st.decimals(-(10**6), 10**6, places=3)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=3) | st.sampled_from(["", "a", "ab", "ß", "ǆ"])
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def two(
    functions: Any, first: st.SearchStrategy[Pair], second: st.SearchStrategy[Pair], model: Callable[..., Any]
) -> st.SearchStrategy[Pair]:
    """A function of two operands, of which one may be a plain constant."""
    return st.builds(
        lambda function, a, b: strict(function(a.expression, b.expression), model(function), a, b),
        st.sampled_from(functions), first, second,
    )  # fmt: skip


def choices(pairs: st.SearchStrategy[Pair], conditions: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    chosen = st.builds(
        lambda c, a, b: Pair(
            if_then_else(c.expression, a.expression, b.expression),
            lambda values: a.of(values) if c.of(values) else b.of(values),
        ),
        conditions, pairs, pairs,
    )  # fmt: skip
    first = st.builds(
        lambda a, b: Pair(
            coalesce(a.expression, b.expression),
            lambda values: b.of(values) if (found := a.of(values)) is None else found,
        ),
        pairs, pairs,
    )  # fmt: skip
    return chosen | first


def both(a: Pair, b: Pair) -> Pair:
    def of(values: Values) -> Any:
        first = a.of(values)
        if first is False:
            return False
        second = b.of(values)
        return False if second is False else None if None in (first, second) else True

    return Pair(a.expression & b.expression, of)


def either(a: Pair, b: Pair) -> Pair:
    def of(values: Values) -> Any:
        first = a.of(values)
        if first is True:
            return True
        second = b.of(values)
        return True if second is True else None if None in (first, second) else False

    return Pair(a.expression | b.expression, of)


def one_of(a: Pair, members: list[Any]) -> Pair:
    def of(values: Values) -> Any:
        value = a.of(values)
        if value is None:
            return None
        return True if any(value == m for m in members if m is not None) else None if None in members else False

    return Pair(a.expression.in_(*members), of)


conditions: st.SearchStrategy[Pair] = st.deferred(lambda: _conditions)
integers: st.SearchStrategy[Pair] = st.deferred(lambda: _integers)
floats: st.SearchStrategy[Pair] = st.deferred(lambda: _floats)
decimals: st.SearchStrategy[Pair] = st.deferred(lambda: _decimals)
texts: st.SearchStrategy[Pair] = st.deferred(lambda: _texts)
whole_columns = st.sampled_from(["tiny", "short", "int", "long"]).map(column)
small = st.sampled_from(["tiny", "short", "int"]).map(column)  # which floats hold exactly

_integers = st.one_of(
    whole_columns,
    INTEGERS.map(constant),
    two(
        [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod],
        whole_columns | integers, integers, of_integers,
    ),
    integers.map(lambda a: strict(-a.expression, of_integers(operator.neg), a)),
    integers.map(lambda a: strict(abs(a.expression), of_integers(abs), a)),
    floats.map(lambda a: strict(a.expression.cast(int), truncated, a)),
    texts.map(lambda a: strict(a.expression.char_length, len, a)),
    choices(integers, conditions),
)  # fmt: skip
_floats = st.one_of(
    st.sampled_from(["double", "single"]).map(lambda name: strict(col(name).cast(float), float, column(name))),
    FLOATS.map(constant),
    two([*ARITHMETIC.values(), operator.truediv], floats | integers, floats, of_floats),
    two([operator.truediv], integers, integers, of_floats),
    floats.map(lambda a: strict(-a.expression, operator.neg, a)),
    floats.map(lambda a: strict(a.expression.abs, abs, a)),
    integers.map(lambda a: strict(a.expression.cast(float), float, a)),
    choices(floats, conditions),
)  # fmt: skip
_decimals = st.one_of(
    st.just(column("amount")),
    DECIMALS.map(constant),
    two(list(ARITHMETIC.values()), decimals, decimals | small, of_decimals),
    decimals.map(lambda a: strict(-a.expression, operator.neg, a)),
    choices(decimals, conditions),
)
_texts = st.one_of(
    st.just(column("text")),
    TEXTS.map(constant),
    two([operator.add], texts, texts, lambda function: function),
    texts.map(lambda a: strict(a.expression.upper_case, str.upper, a)),
    texts.map(lambda a: strict(a.expression.lower_case, str.lower, a)),
    integers.map(lambda a: strict(a.expression.cast(str), str, a)),
    choices(texts, conditions),
)
_conditions = st.one_of(
    st.just(column("flag")),
    st.booleans().map(constant),
    two(COMPARISONS, integers, integers, lambda function: function),
    two(COMPARISONS, floats | integers, floats, of_floats),
    two(COMPARISONS, texts, texts, lambda function: function),
    two(COMPARISONS, decimals, decimals | small, lambda function: function),
    two(COMPARISONS, conditions, conditions, lambda function: function),
    st.builds(both, conditions, conditions),
    st.builds(either, conditions, conditions),
    conditions.map(lambda a: strict(~a.expression, operator.not_, a)),
    st.builds(one_of, whole_columns, st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=3)),
    st.builds(one_of, floats, st.lists(FLOATS, min_size=1, max_size=3)),
    st.builds(one_of, texts, st.lists(st.none() | TEXTS, min_size=1, max_size=3)),
    st.builds(
        lambda a, b: strict(a.expression.starts_with(b), lambda value: value.startswith(b), a), texts, TEXTS
    ),
    st.builds(lambda a, b: strict(a.expression.ends_with(b), lambda value: value.endswith(b), a), texts, TEXTS),
    st.builds(lambda a, b: strict(a.expression.contains(b), lambda value: b in value, a), texts, TEXTS),
    st.one_of(integers, floats, texts).map(lambda a: Pair(a.expression.is_null, lambda values: a.of(values) is None)),
    st.one_of(integers, texts).map(lambda a: Pair(a.expression.is_not_null, lambda values: a.of(values) is not None)),
)

RECORDS = st.tuples(
    *(
        st.none() | values
        for values in (
            st.integers(-128, 127), st.integers(-(1 << 15), (1 << 15) - 1), st.integers(-(1 << 31), (1 << 31) - 1),
            INTEGERS, st.floats(width=32), FLOATS, st.booleans(), TEXTS, DECIMALS,
        )
    )
)  # fmt: skip
BATCHES = st.lists(RECORDS, min_size=1, max_size=6)


def plain(values: Any) -> list[Any]:
    """Values that are equal only if they are the same, also NaN and zeros of both signs."""
    return [repr(v) if v.__class__ is float else (v.__class__, v) for v in values]


def batch_of(form: str, records: list[Values], times: list[int] | None, kinds: list[RowKind] | None) -> Batch:
    rowed = [Row.of_names(NAMES, record) for record in records]
    beside = None if kinds is None else bytes([kind.value for kind in kinds])
    if form == "columns":
        data = rows_to_record_batch(records, TUPLES)
        return ColumnBatch(data, None if times is None else pa.array(times), kinds_column(beside))
    if form == "tuples":
        return RowBatch(records, times, kinds=beside)
    for record, kind in zip(rowed, kinds or [], strict=False):
        record.set_row_kind(kind)
    return RowBatch(rowed, times)


def changes_in(batches: list[Any]) -> list[tuple[Values, int | None, int]]:
    """The values of each record, its timestamp and its kind of change."""
    found: list[tuple[Values, int | None, int]] = []
    for batch in batches:
        beside = batch.to_rows(Types.PICKLED_BYTE_ARRAY()) if isinstance(batch, ColumnBatch) else batch
        for number, record in enumerate(beside.rows):
            is_row = isinstance(record, Row)
            kind = record.get_row_kind().value if is_row else (beside.kinds or bytes(len(beside)))[number]
            time = None if beside.timestamps is None else beside.timestamps[number]
            found.append((tuple(record), time, kind))
    return found


def harness_of(spec: CalcSpec, form: str) -> OperatorHarness:
    return OperatorHarness(spec, TUPLES if form == "tuples" else ROWS).open()


KINDS_OF_CHANGE = st.sampled_from(RowKind)
FORMS = st.sampled_from(["rows", "tuples", "columns"])
BESIDE = st.tuples(st.booleans(), st.booleans())


@given(st.one_of(conditions, integers, floats, decimals, texts), BATCHES, FORMS, BESIDE, st.data())
def test_a_map_has_the_values_of_the_function(
    pair: Pair, records: list[Values], form: str, beside: tuple[bool, bool], data: st.DataObject
) -> None:
    times = list(range(len(records))) if beside[0] else None
    kinds = data.draw(st.lists(KINDS_OF_CHANGE, min_size=len(records), max_size=len(records))) if beside[1] else None
    spec, kind = map_of(row(pair.expression.alias("value"), col("long")), TUPLES)
    assert isinstance(kind, type(ROWS))
    harness = harness_of(spec, form)
    expected, failing = [], None
    for number, record in enumerate(records):
        try:
            expected.append(pair.of(record))
        except NoValueError:
            failing = number
            break
    if failing is not None:
        with pytest.raises(OperatorError) as error:
            harness.process(batch_of(form, records, times, kinds))
        assert plain(tuple(error.value.record)) == plain(records[failing])
        return
    harness.process(batch_of(form, records, times, kinds))
    (batch,) = harness.out.batches
    assert batch.data.schema.types == [kind.fields[0].arrow_type(), pa.int64()]
    found = changes_in([batch])
    assert plain(values[0] for values, _, _ in found) == plain(expected)
    assert [values[1] for values, _, _ in found] == [record[3] for record in records]
    assert [time for _, time, _ in found] == (times or [None] * len(records))
    assert [k for _, _, k in found] == [k.value for k in kinds or [RowKind.INSERT] * len(records)]


@given(conditions, BATCHES, FORMS, BESIDE, st.data())
def test_a_filter_keeps_the_records_whose_condition_is_true(
    pair: Pair, records: list[Values], form: str, beside: tuple[bool, bool], data: st.DataObject
) -> None:
    times = list(range(len(records))) if beside[0] else None
    kinds = data.draw(st.lists(KINDS_OF_CHANGE, min_size=len(records), max_size=len(records))) if beside[1] else None
    harness = harness_of(filter_of(pair.expression, TUPLES), form)
    try:
        kept = [number for number, record in enumerate(records) if pair.of(record)]
    except NoValueError:
        with pytest.raises(OperatorError):
            harness.process(batch_of(form, records, times, kinds))
        return
    harness.process(batch_of(form, records, times, kinds))
    found = changes_in(harness.out.batches)
    assert [plain(values) for values, _, _ in found] == [plain(records[n]) for n in kept]
    assert [time for _, time, _ in found] == [None if times is None else times[n] for n in kept]
    assert [k for _, _, k in found] == [(kinds[n] if kinds else RowKind.INSERT).value for n in kept]
    assert all(isinstance(b, ColumnBatch) == (form == "columns") for b in harness.out.batches)


HUGE = constant(2.0**63)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ((col("long") != 0) & (100 // col("long") > 5), [False, True, None]),
        ((col("long") == 0) | (100 // col("long") > 5), [True, True, None]),
        (coalesce(col("long"), HUGE.expression.cast(int)), [0, 7, EvaluationError]),
        (if_then_else(col("long").is_null, 0, 100 // (col("long") + 1)), [100, 12, 0]),
        (if_then_else(col("long") == 0, 0, HUGE.expression.cast(int)), [0, EvaluationError]),
        (coalesce(1.5, HUGE.expression.cast(int) / col("long")), [1.5, 1.5, 1.5]),
    ],
)
@pytest.mark.parametrize("form", ["rows", "columns"])
def test_what_may_fail_is_evaluated_where_it_is_needed(form: str, expression: Expression, values: list[Any]) -> None:
    spec, _ = map_of(expression, TUPLES)
    harness = harness_of(spec, form)
    records = [(None, None, None, long, None, None, None, None, None) for long in (0, 7, None)]
    for _ in range(2):  # before and after the first failure
        if EvaluationError in values:
            with pytest.raises(OperatorError, match=r"cast\(BIGINT\): Float value 9223372036854775808") as error:
                harness.process(batch_of(form, records, None, None))
            assert tuple(error.value.record) == records[values.index(EvaluationError)]
        else:
            harness.process(batch_of(form, records, None, None))
            assert harness.out.batches[-1].data.column(0).to_pylist() == values


def test_columns_of_other_arrow_types_are_those_that_the_stream_declares() -> None:
    spec, _ = map_of(col("long") + col("tiny"), TUPLES)
    harness = harness_of(spec, "columns")
    data = pa.record_batch([pa.array([1, 2], pa.int16()), pa.array([3, None], pa.uint8())], names=["long", "tiny"])
    harness.process(ColumnBatch(data))
    assert harness.out.batches[0].data.to_pylist() == [{"value": 4}, {"value": None}]


@dataclass
class Visit:
    user: str
    begin: datetime.datetime
    end: datetime.datetime
    pages: list[str]


def test_dataclasses_keep_their_class_and_times_are_added_and_subtracted() -> None:
    noon, kind = datetime.datetime(2020, 2, 28, 12), from_hint(Visit)
    stays = {"ann": DAY, "bob": DAY / 2, "eve": DAY * 0}
    visits = [Visit(user, noon, noon + stay, [user]) for user, stay in stays.items()]
    long_ones = OperatorHarness(filter_of(col("end") - col("begin") >= DAY / 2, kind), kind).open()
    assert long_ones.process(RowBatch(visits)) == visits[:2]
    spec, of_rows = map_of(row(col("pages"), (col("begin") + DAY * 2).alias("later")), kind)
    harness = OperatorHarness(spec, kind).open()
    harness.process(RowBatch(visits))
    found = harness.out.batches[0].to_rows(of_rows).rows
    assert found == [Row(pages=visit.pages, later=noon + DAY * 2) for visit in visits]
