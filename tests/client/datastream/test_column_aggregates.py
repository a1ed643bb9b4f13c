"""Aggregates over columns: what they make of the stream's type, and what is refused while the program is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from millstream.common import Types
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.column_windows import ColumnWindowSpec
from millstream.datastream import DataStream, StreamExecutionEnvironment
from millstream.datastream.aggregates import avg, count, count_distinct, first, last, max, min, sum
from millstream.datastream.functions import OutputTag
from millstream.datastream.window import (
    CountEvictor,
    CountTrigger,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

PURCHASE = Types.ROW_NAMED(
    ["user", "amount", "price", "seen", "tags", "extra"],
    [Types.STRING(), Types.LONG(), Types.FLOAT(), Types.SQL_TIMESTAMP(), Types.LIST(Types.STRING()),
     Types.PICKLED_BYTE_ARRAY()],
)  # fmt: skip
SECONDS = TumblingEventTimeWindows.of(1000)


@dataclass
class Reading:
    sensor: str
    value: float


def purchases(kind: Any = PURCHASE) -> DataStream:
    env = StreamExecutionEnvironment.get_execution_environment()
    return env.from_sequence(1, 10).map(lambda x: x, output_type=kind)


def columns(stream: DataStream) -> list[tuple[str, str]]:
    kind: Any = stream.get_type()
    return [(name, field.describe()) for name, field in zip(kind.field_names(), kind.fields, strict=True)]


def test_the_result_has_the_key_the_aggregates_and_the_window() -> None:
    found = purchases().key_by("user").window(SECONDS).aggregate(
        count(), sum("amount").alias("total"), min("price"), max("seen"), avg("amount"), first("tags"), last("user"),
        count_distinct("price"),
    )  # fmt: skip
    assert columns(found) == [
        ("user", "String"), ("count", "Long"), ("total", "Long"), ("min_price", "Float"), ("max_seen", "Timestamp"),
        ("avg_amount", "Double"), ("first_tags", "List<String>"), ("last_user", "String"),
        ("count_distinct_price", "Long"), ("window_start", "Long"), ("window_end", "Long"),
    ]  # fmt: skip


def test_keys_are_columns_of_rows_tuples_and_dataclasses() -> None:
    assert columns(purchases().key_by(["user", "amount"]).window(SECONDS).aggregate(sum("price")))[:3] == [
        ("user", "String"), ("amount", "Long"), ("sum_price", "Double"),
    ]  # fmt: skip
    assert columns(purchases(tuple[str, int]).key_by(0).window(SECONDS).aggregate(sum("f1")))[0] == ("f0", "String")
    assert columns(purchases(Reading).key_by("sensor").window(SECONDS).aggregate(count("value")))[0][0] == "sensor"


def test_all_records_are_one_group_without_a_key() -> None:
    found = purchases().window_all(SECONDS).aggregate(count())
    assert columns(found)[0] == ("count", "Long")
    assert found.transformation.parallelism == 1  # type: ignore[attr-defined]  # of an operator


def test_settings_of_windows_reach_the_operator() -> None:
    late = OutputTag("late", PURCHASE)
    windows = purchases().key_by("user").window(SECONDS).allowed_lateness(500).side_output_late_data(late)
    found = windows.aggregate(count())
    spec = found.transformation.spec  # type: ignore[attr-defined]  # of an operator
    assert isinstance(spec, ColumnWindowSpec)
    assert (spec.allowed_lateness, spec.late_tag) == (500, "late")
    assert found.get_side_output(late).get_type() == PURCHASE


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (sum("amonut"), "sum: there is no column 'amonut'; the stream has the columns user (String), amount (Long)"),
        (sum("user"), "sum: column 'user' is of type String, and it takes numbers"),
        (avg("seen"), "avg: column 'seen' is of type Timestamp, and it takes numbers"),
        (max("tags"), "max: column 'tags' is of type List<String>, and it takes single values that have an order"),
        (count_distinct("tags"), "count_distinct: column 'tags' is of type List<String>, and it takes single values"),
        (count("extra"), "count: column 'extra' has the type PickledByteArray, of which there are no columns"),
        (count().alias("user"), "the result would have two columns named 'user'; give an aggregate another name"),
        (sum("amount").alias("window_end"), "two columns named 'window_end'"),
    ],
)
def test_unsupported_aggregates_are_refused_with_the_supported_ones(aggregate: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError) as error:
        purchases().key_by("user").window(SECONDS).aggregate(aggregate)
    assert message in str(error.value)


def test_a_stream_without_columns_is_refused_with_what_to_declare() -> None:
    untyped = purchases(Types.PICKLED_BYTE_ARRAY())
    for windows in (untyped.key_by("user").window(SECONDS), untyped.window_all(SECONDS)):
        with pytest.raises(InvalidProgramError, match=r"output_type=Types.ROW_NAMED"):
            windows.aggregate(count())


def test_a_key_that_is_a_function_is_refused_with_the_columns() -> None:
    windows = purchases().key_by(lambda row: row.user).window(SECONDS)
    with pytest.raises(InvalidProgramError, match=r"key_by\('user'\).*and not a function; .*amount \(Long\)"):
        windows.aggregate(count())


def test_windows_that_fire_in_other_ways_are_refused() -> None:
    keyed = purchases().key_by("user")
    with pytest.raises(InvalidProgramError, match="windows of GlobalWindows cannot be aggregated by columns"):
        keyed.window(GlobalWindows.create()).aggregate(count())
    with pytest.raises(InvalidProgramError, match="fire at their end, and not by a CountTrigger"):
        keyed.window(SECONDS).trigger(CountTrigger.of(2)).aggregate(count())
    with pytest.raises(InvalidProgramError, match="keep no records for an evictor"):
        keyed.window(SlidingEventTimeWindows.of(10, 5)).evictor(CountEvictor.of(2)).aggregate(count())


def test_only_aggregates_can_stand_beside_aggregates() -> None:
    with pytest.raises(InvalidProgramError, match="expected aggregates over columns, such as"):
        purchases().key_by("user").window(SECONDS).aggregate(count(), lambda window: 1)
    with pytest.raises(InvalidProgramError, match="sum: expected the name of a column, got 3"):
        sum(3)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InvalidProgramError, match="alias: expected the name of a column"):
        count().alias("")
