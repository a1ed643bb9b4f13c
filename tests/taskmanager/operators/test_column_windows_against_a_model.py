"""Windows over columns compared with a model that keeps all records and examines all of them each time.

Random records with nulls, watermarks, lateness and kinds of windows, in batches of rows or columns; with a snapshot at
any point, from which the operator continues at another parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from window_kinds import Kind, snapshot_of

from millstream.common import Watermark
from millstream.core.jobs.plan.column_windows import ColumnWindowSpec
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.jobs.plan.window_plan import Aggregated, WindowSpec
from millstream.core.keys.key_groups import key_group_of, subtask_of
from millstream.core.records.batches import MIN_TIMESTAMP, ColumnBatch, RowBatch
from millstream.core.records.types import DOUBLE, LONG, PICKLED, STRING, TupleType
from millstream.datastream.adapters.column_windows import planned
from millstream.datastream.aggregates import avg, count, count_distinct, first, last, max, min, sum
from millstream.datastream.functions import AggregateFunction, ProcessWindowFunction
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.testing.operator_harness import DEPLOYMENT, Snapshot

Record = tuple[str | None, int, int | None, float | None, str | None]  # key, timestamp, amount, price, word
RECORD = TupleType((STRING, LONG, LONG, DOUBLE, STRING), ("key", "time", "amount", "price", "word"))
GROUPS = 128
AGGREGATES = (
    count(), count("amount"), sum("amount"), min("amount"), max("word"), avg("amount"), sum("price"), first("word"),
    last("word"), last("amount"), count_distinct("word"), count_distinct("price"),
)  # fmt: skip


@dataclass
class Model:
    """Records by key and window, in order of arrival."""

    kind: Kind
    lateness: int
    watermark: int = MIN_TIMESTAMP
    held: dict[tuple[str | None, tuple[int, int]], list[tuple[int, Record]]] = field(default_factory=dict)
    late: list[Record] = field(default_factory=list)
    taken: int = 0

    def gone(self, window: tuple[int, int]) -> bool:
        return window[1] - 1 + self.lateness <= self.watermark

    def take(self, records: list[Record]) -> Counter[Any]:
        """What fires immediately: each window that has ended, once per batch."""
        fired: set[Any] = set()
        for record in records:
            key, timestamp = record[:2]
            self.taken += 1
            is_late = True
            for window in self.kind.windows(timestamp):
                content: list[tuple[int, Record]] = []
                if self.kind.gap is not None:
                    held = [w for k, w in self.held if k == key]
                    touching = [w for w in held if w[0] <= window[1] and window[0] <= w[1]]
                    merged = (
                        sorted([window, *touching])[0][0],
                        sorted(w[1] for w in [window, *touching])[-1],
                    )
                    if self.gone(merged):
                        continue
                    for w in touching:
                        content += self.held.pop((key, w))
                        fired.discard((key, w))
                    window = merged
                elif self.gone(window):
                    continue
                is_late = False
                self.held[key, window] = [*self.held.get((key, window), []), *content, (self.taken, record)]
                if window[1] - 1 <= self.watermark:
                    fired.add((key, window))
            if is_late and timestamp + self.lateness <= self.watermark:
                self.late.append(record)
        return Counter(self.shown(*entry) for entry in fired)

    def advance(self, watermark: int) -> Counter[Any]:
        due = [e for e in self.held if self.watermark < e[1][1] - 1 <= watermark]
        self.watermark = watermark
        fired = Counter(self.shown(*entry) for entry in due)
        self.held = {e: content for e, content in self.held.items() if not self.gone(e[1])}
        return fired

    def shown(self, key: str | None, window: tuple[int, int]) -> tuple[Any, ...]:
        records = [record for _, record in sorted(self.held[key, window], key=lambda pair: pair[0])]
        amounts, prices, words = ([r[i] for r in records if r[i] is not None] for i in (2, 3, 4))
        return (
            key, len(records), len(amounts), total(amounts), sorted(amounts)[0] if amounts else None,
            sorted(words)[-1] if words else None, total(amounts) / len(amounts) if amounts else None, total(prices),
            words[0] if words else None, words[-1] if words else None, amounts[-1] if amounts else None,
            len(set(words)), len({0.0 if p == 0 else p for p in prices}), *window,
        )  # fmt: skip


def total(values: list[Any]) -> Any:
    added = None
    for value in values:
        added = value if added is None else added + value
    return added


class Subtasks:
    """The operator at some parallelism."""

    def __init__(self, spec: ColumnWindowSpec, parallelism: int, restored: Any = None) -> None:
        self.parallelism = parallelism
        self.harnesses = [
            OperatorHarness(
                spec,
                RECORD,
                tags=["late"],
                deployment=replace(DEPLOYMENT, subtask=subtask, parallelism=parallelism, max_parallelism=GROUPS),
                restored=restored,
            ).open()
            for subtask in range(parallelism)
        ]

    def take(self, records: list[Record], as_columns: bool) -> Counter[Any]:
        before = self._counts()
        for subtask, harness in enumerate(self.harnesses):
            mine = [r for r in records if subtask_of(key_group_of(r[0], GROUPS), GROUPS, self.parallelism) == subtask]
            if mine and as_columns:
                columns = [
                    pa.array(c, t.arrow_type()) for c, t in zip(zip(*mine, strict=True), RECORD.fields, strict=True)
                ]
                data = pa.RecordBatch.from_arrays(columns, names=RECORD.field_names())
                harness.process(ColumnBatch(data, pa.array([r[1] for r in mine], pa.int64())))
            elif mine:
                harness.process(RowBatch(mine, [r[1] for r in mine]))
        return self._since(before)

    def advance(self, watermark: int) -> Counter[Any]:
        before = self._counts()
        for harness in self.harnesses:
            harness.signal(Watermark(watermark))
        return self._since(before)

    def snapshot(self) -> Snapshot:
        return snapshot_of(self.harnesses)

    def late(self) -> list[Any]:
        found: list[Any] = []
        for harness in self.harnesses:
            for batch in harness.side["late"].batches:
                rows = (
                    batch.rows if isinstance(batch, RowBatch) else [tuple(r.values()) for r in batch.data.to_pylist()]
                )
                found += rows
        return found

    def _counts(self) -> list[int]:
        return [len(harness.out.batches) for harness in self.harnesses]

    def _since(self, before: list[int]) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for harness, count_before in zip(self.harnesses, before, strict=True):
            for batch in harness.out.batches[count_before:]:
                assert batch.timestamps.to_pylist() == [end - 1 for end in batch.data.column("window_end").to_pylist()]
                found.update(tuple(row.values()) for row in batch.data.to_pylist())
        return found


def spec_of(kind: Kind, lateness: int) -> ColumnWindowSpec:
    aggregates = planned(AGGREGATES, RECORD)
    return ColumnWindowSpec(kind.assigner(), aggregates, KeySelector(fields=(0,)), STRING, ("key",), lateness, "late")


KINDS = st.one_of(
    st.builds(Kind, st.integers(1, 12), offset=st.integers(0, 0)),
    st.just(Kind(10, offset=-3)),
    st.builds(lambda slide, times: Kind(slide * times, slide), st.integers(1, 5), st.integers(1, 8)),
    st.sampled_from([Kind(7, 3), Kind(7, 3, offset=2), Kind(3, 7), Kind(5, 6, offset=-1)]),
    st.builds(lambda gap: Kind(gap=gap), st.integers(1, 8)),
)
RECORDS = st.tuples(
    st.sampled_from(["a", "b", "c", None]),
    st.integers(-20, 60),
    st.none() | st.integers(0, 9),
    st.none() | st.sampled_from([0.0, -0.0, 0.5, 2.0]),
    st.none() | st.sampled_from(["x", "y", "zz"]),
)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.lists(RECORDS, min_size=1, max_size=5), st.booleans()),
        st.integers(-25, 70),
    ),
    max_size=25,
)


@settings(deadline=None)
@given(kind=KINDS, lateness=st.sampled_from([0, 0, 5, 30]), events=EVENTS, cut=st.integers(0, 25), data=st.data())
def test_windows_match_the_model(kind: Kind, lateness: int, events: list[Any], cut: int, data: st.DataObject) -> None:
    spec, model = spec_of(kind, lateness), Model(kind, lateness)
    subtasks = Subtasks(spec, data.draw(st.sampled_from([1, 2, 3])))
    for position, event in enumerate(events):
        if position == cut:
            late = subtasks.late()
            assert Counter(late) == Counter(model.late)
            model.late = []
            subtasks = Subtasks(spec, data.draw(st.sampled_from([1, 2, 3])), subtasks.snapshot())
            # Until the watermark has reached the same time again, nothing fires a second time.
            if model.watermark > MIN_TIMESTAMP:
                for step in (model.watermark - 7, model.watermark):
                    assert not subtasks.advance(step)
        if isinstance(event, int):
            if event > model.watermark:
                assert subtasks.advance(event) == model.advance(event)
        else:
            records, as_columns = event
            assert subtasks.take(records, as_columns) == model.take(records)
    assert subtasks.advance(2**62) == model.advance(2**62)
    assert Counter(subtasks.late()) == Counter(model.late)


class Total(AggregateFunction):
    """The number of records and the sum of what they have, as the columns have it."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Record, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + (value[2] or 0)

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc1: tuple[int, int], acc2: tuple[int, int]) -> tuple[int, int]:
        return acc1[0] + acc2[0], acc1[1] + acc2[1]


class Show(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, *next(iter(elements)), context.window().start, context.window().end

    def clear(self, context: Any) -> None:
        pass


@settings(deadline=None)
@given(kind=KINDS, lateness=st.sampled_from([0, 5]), events=EVENTS)
def test_rows_and_columns_give_the_same_windows(kind: Kind, lateness: int, events: list[Any]) -> None:
    """One record at a time: late records of a batch fire once together over columns, and one by one over rows."""
    assigner = kind.assigner()
    selector = KeySelector(fields=(0,))
    by_rows = WindowSpec(
        assigner, assigner.get_default_trigger(None), Aggregated(Total(), PICKLED), Show(), selector, STRING,
        allowed_lateness=lateness,
    )  # fmt: skip
    aggregates = planned((count(), sum("amount")), RECORD)
    by_columns = ColumnWindowSpec(assigner, aggregates, selector, STRING, ("key",), lateness)
    rows, columns = OperatorHarness(by_rows, RECORD).open(), OperatorHarness(by_columns, RECORD).open()
    watermark = MIN_TIMESTAMP
    for event in [*events, 2**62]:
        if isinstance(event, int):
            if event <= watermark:
                continue
            watermark = event
        before = len(rows.out.rows), len(columns.out.batches)
        for harness in (rows, columns):
            if isinstance(event, int):
                harness.signal(Watermark(event))
            else:
                for record in event[0]:
                    harness.process(RowBatch([record], [record[1]]))
        found = [row for batch in columns.out.batches[before[1] :] for row in batch.data.to_pylist()]
        shown = Counter((r["key"], r["count"], r["sum_amount"] or 0, r["window_start"], r["window_end"]) for r in found)
        assert shown == Counter(rows.out.rows[before[0] :])
