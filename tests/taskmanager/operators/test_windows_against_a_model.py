"""Event-time windows compared with a model that keeps all records and examines all of them each time.

Random records, watermarks, lateness and kinds of windows; with a snapshot at any point, from which the operator
continues at another parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from window_kinds import Kind, advanced, snapshot_of

from millstream.common import Watermark
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.jobs.plan.window_plan import Aggregated, Buffered, Contents, Reduced, WindowSpec
from millstream.core.keys.key_groups import key_group_of, subtask_of
from millstream.core.records.batches import MIN_TIMESTAMP, RowBatch
from millstream.core.records.types import PICKLED, from_hint
from millstream.datastream.functions import AggregateFunction, ProcessWindowFunction
from millstream.datastream.window import (
    TimeWindow,
)
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.testing.operator_harness import DEPLOYMENT

Record = tuple[str, int, int]  # key, timestamp, value
RECORD = from_hint(tuple[str, int, int])
GROUPS = 128


class Total(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Record, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, acc1: tuple[int, int], acc2: tuple[int, int]) -> tuple[int, int]:
        return acc1[0] + acc2[0], acc1[1] + acc2[1]


class Show(ProcessWindowFunction):
    """`(key, start, end, what the window holds)`."""

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        window = context.window()
        yield key, window.start, window.end, sorted(elements)

    def clear(self, context: Any) -> None:
        pass


def added(first: Record, second: Record) -> Record:
    return first[0], max(first[1], second[1]), first[2] + second[2]


@dataclass
class Model:
    kind: Kind
    lateness: int
    watermark: int = MIN_TIMESTAMP
    held: dict[tuple[str, tuple[int, int]], list[Record]] = field(default_factory=dict)
    late: list[Record] = field(default_factory=list)

    def gone(self, window: tuple[int, int]) -> bool:
        return window[1] - 1 + self.lateness <= self.watermark

    def take(self, record: Record) -> list[Any]:
        key, timestamp, _ = record
        fired: list[Any] = []
        late = True
        for window in self.kind.windows(timestamp):
            content: list[Record] = []
            if self.kind.gap is not None:
                touching = [w for k, w in self.held if k == key and w[0] <= window[1] and window[0] <= w[1]]
                merged = min([window, *touching])[0], max(w[1] for w in [window, *touching])
                if self.gone(merged):
                    continue
                for w in touching:
                    content += self.held.pop((key, w))
                window = merged
            elif self.gone(window):
                continue
            late = False
            self.held[key, window] = [*self.held.get((key, window), []), *content, record]
            if window[1] - 1 <= self.watermark:
                fired.append((key, *window, sorted(self.held[key, window])))
        if late and timestamp + self.lateness <= self.watermark:
            self.late.append(record)
        return fired

    def advance(self, watermark: int) -> list[Any]:
        if watermark <= self.watermark:
            return []
        due = [e for e in self.held if self.watermark < e[1][1] - 1 <= watermark]
        self.watermark = watermark
        fired = [(key, *window, sorted(self.held[key, window])) for key, window in due]
        self.held = {e: content for e, content in self.held.items() if not self.gone(e[1])}
        return fired


KINDS = st.one_of(
    st.builds(Kind, st.integers(1, 12), offset=st.sampled_from([0])),
    st.builds(lambda slide, times: Kind(slide * times, slide), st.integers(1, 5), st.integers(1, 4)),
    st.sampled_from([Kind(7, 3), Kind(7, 3, offset=2), Kind(3, 7), Kind(10, offset=-3)]),
    st.builds(lambda gap: Kind(0, gap=gap), st.integers(1, 8)),
)
RECORDS = st.tuples(st.sampled_from("abc"), st.integers(-20, 60), st.integers(0, 9))
WATERMARKS = st.integers(-25, 70).map(Watermark)
EVENTS = st.lists(st.one_of(RECORDS, WATERMARKS), max_size=40)
BATCHES = st.lists(st.one_of(st.lists(RECORDS, min_size=1, max_size=4), WATERMARKS), max_size=25)


class Subtasks:
    """The operator at some parallelism."""

    def __init__(self, spec: WindowSpec, parallelism: int, restored: Any = None) -> None:
        self.parallelism = parallelism
        self.harnesses = [
            OperatorHarness(
                spec,
                RECORD,
                deployment=replace(DEPLOYMENT, subtask=subtask, parallelism=parallelism, max_parallelism=GROUPS),
                restored=restored,
                tags=["late"],
            ).open()
            for subtask in range(parallelism)
        ]

    def take(self, records: list[Record]) -> list[Any]:
        out: list[Any] = []
        for subtask, harness in enumerate(self.harnesses):
            mine = [r for r in records if subtask_of(key_group_of(r[0], GROUPS), GROUPS, self.parallelism) == subtask]
            if mine:
                out += harness.process(RowBatch(mine, [r[1] for r in mine]))
        return out

    def advance(self, watermark: Watermark) -> list[Any]:
        return advanced(self.harnesses, watermark)

    def late(self) -> Counter[Any]:
        return Counter(row for harness in self.harnesses for row in harness.side["late"].rows)


def shown(contents: Contents, model: list[Any]) -> Counter[Any]:
    """What the operator emits for the windows that the model has fired."""
    match contents:
        case Reduced():
            results = [(k, s, e, [(k, max(r[1] for r in c), sum(r[2] for r in c))]) for k, s, e, c in model]
        case Aggregated():
            results = [(k, s, e, [(sum(r[2] for r in c), len(c))]) for k, s, e, c in model]
        case Buffered():
            results = model
    return Counter(map(repr, results))


@pytest.mark.parametrize(
    "contents",
    [Buffered(RECORD), Reduced(added, RECORD), Aggregated(Total(), PICKLED)],
    ids=["records", "reduce", "aggregate"],
)
@settings(deadline=None)
@given(kind=KINDS, lateness=st.sampled_from([0, 0, 5, 30]), events=BATCHES, cut=st.integers(0, 25), data=st.data())
def test_windows_match_the_model(
    contents: Contents, kind: Kind, lateness: int, events: list[Any], cut: int, data: st.DataObject
) -> None:
    assigner = kind.assigner()
    selector = KeySelector(fields=(0,))
    spec = WindowSpec(
        assigner, assigner.get_default_trigger(None), contents, Show(), selector, from_hint(str),
        allowed_lateness=lateness, late_tag="late",
    )  # fmt: skip
    model = Model(kind, lateness)
    subtasks = Subtasks(spec, data.draw(st.sampled_from([1, 2, 3])))
    for position, event in enumerate(events):
        if position == cut:
            assert subtasks.late() == Counter(model.late)
            model.late = []
            snapshot = snapshot_of(subtasks.harnesses)
            subtasks = Subtasks(spec, data.draw(st.sampled_from([1, 2, 3])), snapshot)
            assert subtasks.advance(Watermark(model.watermark)) == [], "nothing is fired a second time"
        if isinstance(event, Watermark):
            if event.timestamp > model.watermark:
                assert shown(contents, model.advance(event.timestamp)) == Counter(map(repr, subtasks.advance(event)))
        else:
            expected = [fired for record in event for fired in model.take(record)]
            assert shown(contents, expected) == Counter(map(repr, subtasks.take(event)))
    assert subtasks.late() == Counter(model.late)
    assert shown(contents, model.advance(2**62)) == Counter(map(repr, subtasks.advance(Watermark(2**62))))


def test_a_batch_gives_the_same_results_as_single_records() -> None:
    """A batch with late records and several records of one key and window."""
    kind = Kind(10)
    assigner = kind.assigner()
    contents = Reduced(added, RECORD)
    spec = WindowSpec(
        assigner, assigner.get_default_trigger(None), contents, Show(), KeySelector(fields=(0,)), from_hint(str),
        allowed_lateness=5,
    )  # fmt: skip
    records = [("a", 3, 1), ("b", 12, 1), ("a", 7, 2), ("a", 13, 3), ("b", 2, 4), ("a", 25, 5)]
    model, subtasks = Model(kind, 5), Subtasks(spec, 1)
    for watermark in (MIN_TIMESTAMP + 1, 9, 13, 20, 60):
        expected = model.advance(watermark)
        assert shown(contents, expected) == Counter(map(repr, subtasks.advance(Watermark(watermark))))
        expected = [fired for record in records for fired in model.take(record)]
        assert shown(contents, expected) == Counter(map(repr, subtasks.take(records)))
    assert TimeWindow(0, 10).max_timestamp() == 9
