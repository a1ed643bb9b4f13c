"""Aggregates as columns: what they keep, records that are taken back, aggregates of a program, and the registry."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.common import Types, Watermark
from millstream.core.aggregates import (
    Aggregate,
    PlannedAggregate,
    RetractionError,
    StateColumn,
    aggregate_named,
    register,
    registry,
)
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.column_windows import ColumnWindowSpec
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.overriding import override
from millstream.core.records.batches import RowBatch
from millstream.core.records.conversion import rows_to_record_batch
from millstream.core.records.types import BIG_DEC, DOUBLE, LONG, STRING, TupleType, TypeInformation
from millstream.datastream.adapters.column_windows import planned
from millstream.datastream.aggregates import (
    avg,
    call,
    count,
    count_distinct,
    first,
    last,
    max,
    min,
    sum,
)
from millstream.datastream.window import TumblingEventTimeWindows
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.columns.partials import Partials, SumOverflowError

RECORD = TupleType((STRING, LONG, DOUBLE, BIG_DEC), ("key", "n", "x", "d"))
RETRACTABLE = (count(), count("n"), sum("n"), avg("n"), sum("x"), avg("x"), sum("d"), avg("d"))
NUMBERS = st.none() | st.integers(-100, 100)
RECORDS = st.tuples(st.sampled_from("ab"), NUMBERS, NUMBERS, NUMBERS).map(
    lambda r: (r[0], r[1], None if r[2] is None else r[2] / 4, None if r[3] is None else Decimal(r[3]))
)


class SumOfSquares(Aggregate):
    """An aggregate of a program."""

    name = "sum_of_squares"
    takes = "it takes whole numbers"

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        return LONG if kind == LONG else None

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        import pyarrow.compute as pc

        column = str(planned.column)
        return (
            StateColumn(
                f"squares:{column}", LONG, "sum", lambda records: pc.power(records.values(column, LONG), 2),
                lambda records: pc.negate(pc.power(records.values(column, LONG), 2)),
            ),
        )  # fmt: skip

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        return state[f"squares:{planned.column}"].combine_chunks()


def partials_of(*aggregates: Any, retracting: bool = False) -> Partials:
    chosen = [replace(aggregate, retracting=retracting) for aggregate in planned(aggregates, RECORD)]
    return Partials([("key", STRING)], chosen)


def data_of(records: list[Any]) -> pa.RecordBatch:
    return rows_to_record_batch(records, RECORD)


def total(values: list[Any]) -> Any:
    return None if not values else functools.reduce(operator.add, values)


def mean(values: list[Any]) -> Any:
    return None if not values else total(values) / len(values)


@given(st.lists(st.tuples(RECORDS, st.booleans()), max_size=12), st.randoms(use_true_random=False))
def test_records_that_are_taken_back_have_never_been(steps: list[tuple[Any, bool]], chance: Any) -> None:
    partials, groups = partials_of(*RETRACTABLE, retracting=True), ["key:0"]
    tables, present, seen = [partials.of_records(data_of([]), 0, {})[0]], [], set()
    for record, adds in steps:
        if adds or record not in present:
            present.append(record)
            tables.append(partials.of_records(data_of([record]), 0, {})[0])
        else:
            present.remove(record)
            tables.append(partials.of_retracted(data_of([record]), {}))
        seen.add(record[0])
        if chance.random() < 0.3:
            tables = [partials.combined(tables, groups)]
        chance.shuffle(tables)
    result = partials.combined(tables, groups)
    columns = [column.to_pylist() for column in partials.results(result)]
    found = dict(zip(result.column(groups[0]).to_pylist(), zip(*columns, strict=True), strict=True))
    expected = {}
    for key in seen:
        mine = [record for record in present if record[0] == key]
        numbers, floats, decimals = ([r[place] for r in mine if r[place] is not None] for place in (1, 2, 3))
        expected[key] = (
            len(mine), len(numbers), total(numbers), mean(numbers), total(floats), mean(floats), total(decimals),
            None if not decimals else mean(decimals).quantize(Decimal(1).scaleb(-18)),
        )  # fmt: skip
    assert found == expected


@pytest.mark.parametrize("aggregate", [min("n"), max("x"), first("n"), last("d"), count_distinct("n")])
def test_what_cannot_take_records_back_says_so(aggregate: Any) -> None:
    with pytest.raises(RetractionError, match=f"{aggregate.name}: {aggregate.aggregate.name} cannot take a value back"):
        partials_of(aggregate, retracting=True)


def test_an_overflow_is_found_while_records_are_taken_back() -> None:
    partials = partials_of(sum("n"), retracting=True)
    tables = [partials.of_retracted(data_of([("a", (1 << 63) - 1, None, None)]), {})] * 2
    with pytest.raises(SumOverflowError, match="column 'n'"):
        partials.combined(tables, ["key:0"])


def test_the_state_of_snapshots_keeps_its_columns() -> None:
    """Savepoints name them: they may not change."""
    partials = partials_of(
        count(), count("n"), sum("n"), avg("x"), avg("n"), min("x"), max("d"), first("key"), last("n"),
        count_distinct("n"),
    )  # fmt: skip
    assert [(column.name, column.type.describe()) for column in partials.columns] == [
        ("rows", "Long"), ("count:n", "Long"), ("sum:n", "Long"), ("sum:x", "Double"), ("count:x", "Long"),
        ("min:x", "Double"), ("max:d", "BigDecimal"), ("first_at:key", "Long"), ("first:key", "String"),
        ("last_at:n", "Long"), ("last:n", "Long"),
    ]  # fmt: skip
    assert [distinct.name for distinct in partials.distinct] == ["distinct:n"]


def test_an_aggregate_of_the_program_is_part_of_windows_and_their_snapshots() -> None:
    aggregates = planned((count(), call(SumOfSquares(), "n").alias("squares"), sum("n")), RECORD)
    selector = KeySelector(fields=("key",))
    spec = ColumnWindowSpec(TumblingEventTimeWindows.of(10), aggregates, selector, STRING, ("key",))
    harness = OperatorHarness(spec, RECORD).open()
    harness.process(RowBatch([("a", 3, None, None), ("b", 2, None, None)], [1, 2]))
    harness = OperatorHarness(spec, RECORD, restored=harness.snapshot(is_savepoint=True)).open()
    harness.process(RowBatch([("a", 4, None, None)], [3]))
    harness.signal(Watermark(100))
    rows = [tuple(row.values())[:4] for batch in harness.out.batches for row in batch.data.to_pylist()]
    assert sorted(rows) == [("a", 2, 25, 7), ("b", 1, 4, 2)]


def test_aggregates_are_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_AGGREGATES", dict(registry._AGGREGATES))  # restored behind the test
    made = register(SumOfSquares())
    assert call("sum_of_squares", "n").aggregate is made
    assert call("sum_of_squares", "n").name == "sum_of_squares_n"

    class Other(SumOfSquares):
        pass

    with pytest.raises(InvalidProgramError, match="there is an aggregate 'sum_of_squares' already"):
        register(Other())
    with pytest.raises(InvalidProgramError, match=r"no aggregate 'median'; there are avg, count, .*sum_of_squares"):
        aggregate_named("median")


def test_what_is_no_aggregate_of_a_column_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="call: expected an aggregate or the name of one, got 3"):
        call(3, "n")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="sum_of_squares: expected the name of a column, got None"):
        call(SumOfSquares())
    with pytest.raises(InvalidProgramError, match="sum_of_squares: column 'x' is of type Double, and it takes whole"):
        planned((call(SumOfSquares(), "x"),), RECORD)
    assert Types.LONG() == planned((call("count"),), RECORD)[0].result
