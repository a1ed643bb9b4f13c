"""Joins of two streams compared with models that keep all records and examine all of them each time.

Random records, watermarks, lateness, windows and bounds; with a snapshot at any point, from which the operator
continues at another parallelism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from test_windows_against_a_model import EVENTS, GROUPS, KINDS, RECORD, Kind, Model, Record
from window_kinds import advanced, snapshot_of

from millstream.common import Watermark
from millstream.core.jobs.plan.join_plan import IntervalJoinSpec
from millstream.core.jobs.plan.plan import KeySelector, OperatorSpec, TwoInputKeys
from millstream.core.jobs.plan.window_plan import CoGroupSpec, Tagged
from millstream.core.keys.key_groups import key_group_of, subtask_of
from millstream.core.records.batches import MIN_TIMESTAMP, RowBatch
from millstream.core.records.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.functions import CoGroupFunction, JoinFunction, ProcessJoinFunction
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.testing.operator_harness import DEPLOYMENT

KEY = KeySelector(fields=(0,))
LATE = ("late left", "late right")
END = Watermark(2**62)


def side_of(record: Record) -> int:
    """Records with odd values belong to the second stream."""
    return record[2] % 2


class Subtasks:
    """A join at some parallelism."""

    def __init__(self, spec: OperatorSpec, kind: TypeInformation, parallelism: int = 1, restored: Any = None) -> None:
        self._parallelism = parallelism
        self.harnesses = [
            OperatorHarness(
                spec,
                kind,
                kind,
                tags=LATE,
                deployment=replace(DEPLOYMENT, subtask=subtask, parallelism=parallelism, max_parallelism=GROUPS),
                restored=restored,
            ).open()
            for subtask in range(parallelism)
        ]

    def take(self, record: Record) -> list[Any]:
        harness = self.harnesses[subtask_of(key_group_of(record[0], GROUPS), GROUPS, self._parallelism)]
        return harness.process(RowBatch([record], [record[1]]), input_index=side_of(record))

    def advance(self, watermark: Watermark) -> list[Any]:
        return advanced(self.harnesses, watermark)

    def side(self, tag: str) -> list[Any]:
        return [row for harness in self.harnesses for row in harness.side[tag].rows]


class Together(CoGroupFunction):
    def co_group(self, first: Any, second: Any) -> Iterator[Any]:
        yield sorted(first), sorted(second)


class Pair(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first, second


def grouped(fired: list[Any]) -> list[Any]:
    return [([r for r in content if not side_of(r)], [r for r in content if side_of(r)]) for *_, content in fired]


def paired(fired: list[Any]) -> list[Any]:
    return [(one, two) for first, second in grouped(fired) for one in first for two in second]


@pytest.mark.parametrize(("function", "expected"), [(Together(), grouped), (Pair(), paired)], ids=["groups", "pairs"])
@pytest.mark.parametrize("kept", [RECORD, PICKLED], ids=["typed", "pickled"])
@given(kind=KINDS, lateness=st.sampled_from([0, 5, 30]), events=EVENTS, cut=st.integers(0, 40), data=st.data())
def test_windows_of_two_streams_match_the_model(
    function: Any, expected: Any, kept: Any, kind: Kind, lateness: int, events: list[Any], cut: int, data: Any
) -> None:
    assigner = kind.assigner()
    spec = CoGroupSpec(
        assigner, assigner.get_default_trigger(None), Tagged(kept, kept), function, KEY, from_hint(str),
        allowed_lateness=lateness, second_selector=KEY,
    )  # fmt: skip
    model, subtasks = Model(kind, lateness), Subtasks(spec, kept, data.draw(st.sampled_from([1, 2, 3])))

    def check(fired: list[Any], found: list[Any]) -> None:
        assert Counter(map(repr, expected(fired))) == Counter(map(repr, found))

    for position, event in enumerate(events):
        if position == cut:
            snapshot = snapshot_of(subtasks.harnesses)
            subtasks = Subtasks(spec, kept, data.draw(st.sampled_from([1, 2, 3])), snapshot)
            subtasks.advance(Watermark(model.watermark))
        if not isinstance(event, Watermark):
            check(model.take(event), subtasks.take(event))
        elif event.timestamp > model.watermark:
            check(model.advance(event.timestamp), subtasks.advance(event))
    check(model.advance(END.timestamp), subtasks.advance(END))


class ShowPair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterator[Any]:
        assert (ctx.get_left_timestamp(), ctx.get_right_timestamp()) == (left[1], right[1])
        yield left, right, ctx.get_timestamp()


@dataclass
class IntervalModel:
    """Every record that is not late joins all records of the other stream in its interval."""

    lower: int
    upper: int
    watermark: int = MIN_TIMESTAMP
    seen: list[Record] = field(default_factory=list)
    late: list[Record] = field(default_factory=list)

    def take(self, record: Record) -> list[Any]:
        if record[1] < self.watermark:
            self.late.append(record)
            return []
        self.seen.append(record)
        others = [other for other in self.seen if side_of(other) != side_of(record) and other[0] == record[0]]
        pairs = [(other, record) if side_of(record) else (record, other) for other in others]
        met = [pair for pair in pairs if self.lower <= pair[1][1] - pair[0][1] <= self.upper]
        return [(left, right, max(left[1], right[1])) for left, right in met]


def interval_spec(lower: int, upper: int, tags: tuple[str | None, str | None] = LATE) -> IntervalJoinSpec:
    return IntervalJoinSpec(ShowPair(), TwoInputKeys(KEY, KEY, from_hint(str)), lower, upper, tags)


DENSE = st.lists(
    st.one_of(
        *[st.tuples(st.sampled_from("ab"), st.integers(-20, 60), st.integers(0, 9)) for _ in range(4)],
        st.integers(-25, 70).map(Watermark),
    ),
    min_size=10,
    max_size=60,
)


def scaled(event: Any, scale: int) -> Any:
    """The same at another scale of time, which determines what is removed together."""
    if isinstance(event, Watermark):
        return Watermark(event.timestamp * scale)
    return event[0], event[1] * scale, event[2]


@pytest.mark.parametrize("kept", [RECORD, PICKLED], ids=["typed", "pickled"])
@given(
    bounds=st.tuples(st.integers(-15, 15), st.integers(-1, 20)),
    scale=st.sampled_from([1, 100]),
    events=DENSE,
    cut=st.integers(0, 60),
    data=st.data(),
)
def test_an_interval_join_emits_the_pairs_of_the_model(
    kept: Any, bounds: tuple[int, int], scale: int, events: list[Any], cut: int, data: Any
) -> None:
    lower, upper = bounds[0] * scale, sum(bounds) * scale
    events = [scaled(event, scale) for event in events]
    spec = interval_spec(lower, upper)
    model, subtasks = IntervalModel(lower, upper), Subtasks(spec, kept, data.draw(st.sampled_from([1, 2, 3])))
    late: Counter[Record] = Counter()
    for position, event in enumerate(events):
        if position == cut:
            late.update(subtasks.side(LATE[0]) + subtasks.side(LATE[1]))
            snapshot = snapshot_of(subtasks.harnesses)
            subtasks = Subtasks(spec, kept, data.draw(st.sampled_from([1, 2, 3])), snapshot)
            subtasks.advance(Watermark(model.watermark))
        if not isinstance(event, Watermark):
            assert Counter(model.take(event)) == Counter(subtasks.take(event))
        elif event.timestamp > model.watermark:
            model.watermark = event.timestamp
            assert subtasks.advance(event) == []
    late.update(subtasks.side(LATE[0]) + subtasks.side(LATE[1]))
    assert late == Counter(model.late)


@given(events=DENSE)
def test_a_batch_of_an_interval_join_gives_the_same_results_as_single_records(events: list[Any]) -> None:
    """A batch with several records of one key, out of order, and late ones."""
    model, subtasks = IntervalModel(-7, 3), Subtasks(interval_spec(-7, 3), RECORD)
    (harness,) = subtasks.harnesses
    for watermark in (-10, 5, 30):
        subtasks.advance(Watermark(watermark))
        model.watermark = watermark
        for side in (0, 1):
            records = [e for e in events if not isinstance(e, Watermark) and side_of(e) == side]
            expected = [pair for record in records for pair in model.take(record)]
            if records:
                batch = RowBatch(records, [record[1] for record in records])
                assert Counter(expected) == Counter(harness.process(batch, input_index=side))


@given(kind=KINDS, lateness=st.sampled_from([0, 5]), events=DENSE)
def test_a_batch_of_a_window_join_gives_the_same_results_as_single_records(
    kind: Kind, lateness: int, events: list[Any]
) -> None:
    assigner = kind.assigner()
    spec = CoGroupSpec(
        assigner, assigner.get_default_trigger(None), Tagged(RECORD, RECORD), Together(), KEY, from_hint(str),
        allowed_lateness=lateness, second_selector=KEY,
    )  # fmt: skip
    model, subtasks = Model(kind, lateness), Subtasks(spec, RECORD)
    (harness,) = subtasks.harnesses
    for watermark in (-10, 5, 30, END.timestamp):
        assert Counter(map(repr, grouped(model.advance(watermark)))) == Counter(
            map(repr, subtasks.advance(Watermark(watermark)))
        )
        for side in (0, 1):
            records = [e for e in events if not isinstance(e, Watermark) and side_of(e) == side]
            expected = [fired for record in records for fired in model.take(record)]
            if records:
                found = harness.process(RowBatch(records, [record[1] for record in records]), input_index=side)
                assert Counter(map(repr, grouped(expected))) == Counter(map(repr, found))
