"""Windows over columns: types of keys and values, processing time, large tables, and what is refused."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from millstream.common import Row, Types, Watermark
from millstream.core.jobs.plan.column_windows import ColumnWindowSpec
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.keys.key_groups import key_group_of
from millstream.core.records.batches import ColumnBatch, RowBatch
from millstream.core.records.types import LONG, TupleType, TypeInformation
from millstream.core.snapshot.errors import IncompatibleStateError
from millstream.datastream.adapters.column_windows import key_type_of, planned
from millstream.datastream.aggregates import avg, count, count_distinct, first, last, max, min, sum
from millstream.datastream.window import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.testing.operator_harness import DEPLOYMENT
from millstream.taskmanager.worker.operators.base import OperatorError

END = Watermark(2**62)
NAN = float("nan")


def spec_of(
    assigner: Any, kind: TypeInformation, keys: Sequence[str], *aggregates: Any, lateness: int = 0
) -> ColumnWindowSpec:
    selector = KeySelector(fields=tuple(keys)) if keys else KeySelector(function=lambda record: 0)
    return ColumnWindowSpec(
        assigner, planned(aggregates, kind), selector, key_type_of(keys, kind), tuple(keys), lateness
    )


def rows_of(harness: OperatorHarness) -> list[tuple[Any, ...]]:
    """All results, without their windows."""
    return [tuple(row.values())[:-2] for batch in harness.out.batches for row in batch.data.to_pylist()]


@pytest.mark.parametrize(
    ("kind", "keys", "groups"),
    [
        (Types.DOUBLE(), [0.0, -0.0, NAN, -NAN, None, 1.5, None, NAN], 4),
        (Types.FLOAT(), [0.0, -0.0, NAN, None, 0.5], 4),
        (Types.BOOLEAN(), [True, False, None, True], 3),
        (Types.BYTE(), [1, -1, None, 1], 3),
        (Types.BIG_DEC(), [Decimal("1.5"), Decimal("1.50"), None, Decimal(-3)], 3),
        (Types.SQL_DATE(), [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 1)], 2),
        (Types.SQL_TIME(), [datetime.time(1, 2), None, datetime.time(1, 2)], 2),
        (Types.SQL_TIMESTAMP(), [datetime.datetime(2020, 1, 1, 1), None, datetime.datetime(2020, 1, 1, 1)], 2),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"a", b"", None, b"a"], 3),
        (Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.DOUBLE()]),
         [Row(a="x", b=0.0), Row(a="x", b=-0.0), Row(a=None, b=1.0), None, Row(a="x", b=NAN), Row(a="x", b=NAN)], 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("assigner", [TumblingEventTimeWindows.of(10), EventTimeSessionWindows.with_gap(100)])
def test_equal_keys_are_one_group_for_any_type(assigner: Any, kind: Any, keys: list[Any], groups: int) -> None:
    record = TupleType((kind, LONG), ("key", "number"))
    spec = spec_of(assigner, record, ["key"], count(), sum("number"))
    harness = OperatorHarness(spec, record).open()
    half = len(keys) // 2
    harness.process(RowBatch([(key, n) for n, key in enumerate(keys[:half])], list(range(half))))
    harness = OperatorHarness(spec, record, restored=harness.snapshot(is_savepoint=True)).open()
    harness.process(RowBatch([(key, n) for n, key in enumerate(keys[half:], half)], list(range(len(keys) - half))))
    harness.signal(END)
    found = rows_of(harness)
    assert len(found) == groups
    assert [int(np.sum([row[n] for row in found])) for n in (1, 2)] == [len(keys), int(np.arange(len(keys)).sum())]


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(1000),
        TumblingProcessingTimeWindows.of(1000),
        ProcessingTimeSessionWindows.with_gap(700),
    ],
)
def test_in_batch_mode_windows_fire_after_all_records(assigner: Any) -> None:
    record = TupleType((Types.STRING(), LONG), ("key", "number"))
    harness = OperatorHarness(spec_of(assigner, record, ["key"], sum("number")), record, batch=True).open()
    harness.process(RowBatch([("a", 1), ("b", 2), ("a", 3)], [5, 6, 7]))
    assert (harness.advance(10.0), harness.out.elements) == (None, [])
    harness.end_input()
    assert sorted(rows_of(harness)) == [("a", 4), ("b", 2)]


def test_several_columns_make_a_key_whose_state_is_in_its_key_group() -> None:
    record = TupleType((Types.STRING(), LONG, LONG), ("name", "day", "amount"))
    spec = spec_of(TumblingEventTimeWindows.of(10), record, ["name", "day"], sum("amount"))
    rows = [("a", 1, 1), ("a", 2, 2), (None, 1, 3), ("a", 1, 4), ("b", None, 5)]
    harness = OperatorHarness(spec, record).open()
    harness.process(RowBatch(rows, [0] * len(rows)))
    snapshot = harness.snapshot()
    found = []
    for subtask in range(3):
        deployment = replace(DEPLOYMENT, subtask=subtask, parallelism=3)
        restored = OperatorHarness(spec, record, restored=snapshot, deployment=deployment).open()
        restored.signal(END)
        mine = rows_of(restored)
        assert all(key_group_of(row[:2], 128) * 3 // 128 == subtask for row in mine)
        found += mine
    assert sorted(found, key=repr) == sorted([("a", 1, 5), ("a", 2, 2), (None, 1, 3), ("b", None, 5)], key=repr)


def test_values_of_any_type_are_aggregated_and_survive_a_snapshot() -> None:
    names = ("k", "dec", "time", "day", "text", "flag", "single", "tags", "data")
    record = TupleType(
        (LONG, Types.BIG_DEC(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.STRING(), Types.BOOLEAN(),
         Types.FLOAT(), Types.LIST(Types.LONG()), Types.PRIMITIVE_ARRAY(Types.BYTE())), names,
    )  # fmt: skip
    rows = [
        (1, Decimal("1.5"), datetime.datetime(2020, 1, 2), datetime.date(2020, 1, 2), "b", True, 0.5, [1], b"x"),
        (1, Decimal("2.25"), datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 1), "a", False, 1.5, [2, 3], b"y"),
        (1, None, None, None, None, None, None, None, None),
    ]
    aggregates = (
        sum("dec"), avg("dec"), first("dec"), min("time"), last("time"), max("day"), min("text"), max("flag"),
        sum("single"), min("single"), first("tags"), last("tags"), max("data"), count("tags"), count_distinct("day"),
        count_distinct("dec"),
    )  # fmt: skip
    spec = spec_of(SlidingEventTimeWindows.of(10, 5), record, ["k"], *aggregates)
    harness = OperatorHarness(spec, record).open()
    harness.process(RowBatch(rows[:1], [7]))
    harness = OperatorHarness(spec, record, restored=harness.snapshot()).open()
    harness.process(RowBatch(rows[1:], [7, 7]))
    harness.signal(END)
    expected = (
        1, Decimal("3.75"), Decimal("1.875"), Decimal("1.5"), datetime.datetime(2020, 1, 1),
        datetime.datetime(2020, 1, 1), datetime.date(2020, 1, 2), "a", True, 2.0, 0.5, [1], [2, 3], b"y", 2, 2, 2,
    )  # fmt: skip
    assert rows_of(harness) == [expected, expected]


def test_columns_are_cast_to_their_declared_type_if_the_cast_is_lossless() -> None:
    record = TupleType((Types.STRING(), LONG), ("k", "v"))
    spec = spec_of(TumblingEventTimeWindows.of(10), record, ["k"], sum("v"))
    harness = OperatorHarness(spec, record).open()
    data = pa.record_batch(
        {"v": pa.array([1, 2], pa.int16()), "k": pa.array(["a", "a"]).dictionary_encode(), "x": [1, 2]}
    )
    harness.process(ColumnBatch(data, pa.array([1, 2])))
    harness.signal(END)
    assert rows_of(harness) == [("a", 3)]
    with pytest.raises(OperatorError, match="column 'v' of double does not fit int64"):
        harness.process(ColumnBatch(pa.record_batch({"k": ["a"], "v": [1.5]}), pa.array([2**62])))
    with pytest.raises(OperatorError, match="does not have exactly one column 'v'"):
        harness.process(ColumnBatch(pa.record_batch({"k": ["a"]}), pa.array([2**62])))


def test_records_without_a_timestamp_are_refused() -> None:
    record = TupleType((LONG, LONG), ("k", "v"))
    harness = OperatorHarness(spec_of(TumblingEventTimeWindows.of(10), record, ["k"], count()), record).open()
    with pytest.raises(OperatorError, match="timestamp"):
        harness.process(RowBatch([(1, 1)]))


def test_an_overflowing_sum_is_an_error() -> None:
    record = TupleType((LONG, LONG), ("k", "v"))
    spec = spec_of(TumblingEventTimeWindows.of(10), record, ["k"], sum("v"))
    harness = OperatorHarness(spec, record).open()
    harness.process(RowBatch([(1, 2**62), (2, 2**62), (2, -(2**62)), (2, 2**62)], [1] * 4))
    harness.signal(Watermark(9))
    assert sorted(rows_of(harness)) == [(1, 2**62), (2, 2**62)]
    harness.process(RowBatch([(1, 2**62), (1, 2**62)], [11, 11]))
    with pytest.raises(OperatorError, match="the sum of column 'v' does not fit 64 bits"):
        harness.signal(Watermark(19))


def test_open_windows_are_not_restored_with_other_aggregates() -> None:
    record = TupleType((LONG, LONG), ("k", "v"))
    windows = TumblingEventTimeWindows.of(10)
    harness = OperatorHarness(spec_of(windows, record, ["k"], sum("v")), record).open()
    harness.process(RowBatch([(1, 1)], [3]))
    snapshot = harness.snapshot()
    renamed = OperatorHarness(spec_of(windows, record, ["k"], sum("v").alias("t")), record, restored=snapshot).open()
    renamed.signal(END)
    assert rows_of(renamed) == [(1, 1)]
    with pytest.raises(IncompatibleStateError, match=r"holds sum:v, and the program aggregates rows: .*another uid"):
        OperatorHarness(spec_of(windows, record, ["k"], count()), record, restored=snapshot)
    more = spec_of(windows, record, ["k"], sum("v"), count_distinct("v"))
    with pytest.raises(IncompatibleStateError, match="cannot be restored"):
        OperatorHarness(more, record, restored=snapshot)


def test_late_records_without_a_side_output_are_counted() -> None:
    record = TupleType((LONG, LONG), ("k", "v"))
    spec = spec_of(TumblingEventTimeWindows.of(10), record, ["k"], count(), lateness=5)
    harness = OperatorHarness(spec, record).open()
    harness.signal(Watermark(14))
    harness.process(RowBatch([(1, 1), (2, 1), (1, 1)], [3, 12, 4]))
    assert harness.operator.context.get_metrics_group().counter("numLateRecordsDropped").get_count() == 2


@pytest.mark.parametrize("as_columns", [True, False])
def test_without_a_key_all_records_are_one_group(as_columns: bool) -> None:
    record = TupleType((LONG, LONG), ("k", "v"))
    spec = spec_of(TumblingEventTimeWindows.of(10), record, [], count())
    harness = OperatorHarness(spec, record).open()
    batch: Any = RowBatch([(1, 1), (2, 1)], [1, 11])
    if as_columns:
        batch = ColumnBatch(pa.record_batch({"k": [1, 2], "v": [1, 1]}), pa.array([1, 11]))
    harness.process(batch)
    harness = OperatorHarness(spec, record, restored=harness.snapshot(is_savepoint=True)).open()
    harness.process(batch)
    harness.signal(END)
    assert [tuple(row.values()) for b in harness.out.batches for row in b.data.to_pylist()] == [(2, 0, 10), (2, 10, 20)]


@pytest.mark.parametrize(
    ("assigner", "expected"),
    [
        (TumblingProcessingTimeWindows.of(1000), [(2, 0, 1000), (1, 2000, 3000)]),
        (SlidingProcessingTimeWindows.of(2000, 1000),
         [(2, -1000, 1000), (2, 0, 2000), (1, 1000, 3000), (1, 2000, 4000)]),
        (ProcessingTimeSessionWindows.with_gap(700), [(2, 100, 1300), (1, 2100, 2800)]),
    ],
)  # fmt: skip
def test_windows_in_processing_time_fire_by_its_clock(assigner: Any, expected: list[Any]) -> None:
    record = TupleType((LONG, LONG), ("k", "v"))
    spec = spec_of(assigner, record, ["k"], count())
    harness = OperatorHarness(spec, record).open()
    origin = harness.clock.now_ms() // 1000 * 1000 + 1000
    harness.advance((origin + 100 - harness.clock.now_ms()) / 1000)
    harness.process(RowBatch([(1, 1)]))
    assert harness.advance(0.5) is not None
    harness.process(RowBatch([(1, 1)]))
    snapshot = harness.snapshot()
    moment = harness.clock.now_ms()
    restored = OperatorHarness(spec, record, restored=snapshot).open()
    restored.clock.advance((moment + 1500 - restored.clock.now_ms()) / 1000)
    restored.advance()
    restored.process(RowBatch([(1, 1)]))
    for _ in range(30):
        restored.advance(0.1)
    found = [
        (row["count"], row["window_start"] - origin, row["window_end"] - origin)
        for batch in restored.out.batches
        for row in batch.data.to_pylist()
    ]
    assert found == expected
    assert restored.advance() is None


@pytest.mark.parametrize(
    ("keys", "size", "slide"),
    [(50, 1000, 1000), (50, 1000, 50), (3_000, 1000, 100), (3_000, 700, 300), (10**9, 1000, 1000), (10**9, 1000, 200)],
)
def test_large_windows_match_a_straightforward_computation(keys: int, size: int, slide: int) -> None:
    """Enough rows for tables to be grouped again, and for panes of sliding windows to be combined ahead."""
    random = np.random.default_rng(5)
    rows, batch = 150_000, 7_000
    times = np.sort(random.integers(0, 3_000, rows)) - random.integers(0, 60, rows)
    owners = random.integers(0, keys, rows)
    values = random.integers(-100, 100, rows)
    record = TupleType((LONG, LONG), ("k", "v"))
    spec = spec_of(SlidingEventTimeWindows.of(size, slide), record, ["k"], sum("v"), count(), last("v"))
    harness = OperatorHarness(spec, record).open()
    for start in range(0, rows, batch):
        part = slice(start, start + batch)
        harness.process(ColumnBatch(pa.record_batch({"k": owners[part], "v": values[part]}), pa.array(times[part])))
        harness.signal(Watermark(int(times[part].max()) - 62))
    harness.signal(END)
    found = pa.concat_tables(pa.Table.from_batches([b.data]) for b in harness.out.batches)
    expected = []
    for start in range(-2 * size, 4_000, slide):
        first_start = start - start % slide
        inside = (times >= first_start) & (times < first_start + size)
        if inside.any():
            window = pa.table({"k": owners[inside], "v": values[inside]})
            grouped = window.group_by("k", use_threads=False).aggregate([("v", "sum"), ("v", "count"), ("v", "last")])
            grouped = grouped.append_column("window_start", pa.repeat(first_start, grouped.num_rows))
            expected.append(grouped.append_column("window_end", pa.repeat(first_start + size, grouped.num_rows)))
    wanted = pa.concat_tables(expected).rename_columns(found.column_names)
    order = [("window_start", "ascending"), ("k", "ascending")]
    assert found.sort_by(order).equals(wanted.sort_by(order))
