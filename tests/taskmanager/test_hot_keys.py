"""The most frequent keys: what the sketch guarantees, and which records it samples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.common import Types
from millstream.core.jobs.plan import plan
from millstream.core.records.batches import ColumnBatch, RowBatch
from millstream.core.records.types import PICKLED
from millstream.datastream.functions import KeySelector
from millstream.taskmanager.worker.tasks.hot_keys import PLACES, STRIDE, KeySketch, SpaceSaving, sketch_of


@given(st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=20), st.integers(2, 12))
def test_counts_are_never_too_low_and_no_frequent_item_is_missed(batches: list[list[int]], places: int) -> None:
    sketch, true = SpaceSaving(places), Counter[int]()
    for batch in batches:
        sketch.add(batch)
        true.update(batch)
    assert sketch.total == true.total() == sum(sketch.counts.values())
    assert len(sketch.counts) <= places
    for item, count in sketch.counts.items():
        assert true[item] <= count
    for item, count in true.items():
        assert count <= true.total() / places or item in sketch.counts


def test_recent_records_weigh_most() -> None:
    sketch = SpaceSaving()
    sketch.add(["old"] * 10)
    for _ in range(4):
        sketch.fade()
    sketch.add(["new"] * 2)
    assert sketch.top(1) == [("new", 2)]
    assert sketch.total == 10 / 16 + 2


class Clock:
    """The clock of a stream with so many records a second."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.records = 0

    def __call__(self) -> float:
        return self.records / self._rate


@pytest.mark.parametrize("size", [7, 2048])
@pytest.mark.parametrize(("rate", "fewest", "most"), [(1000, 50, 70), (100_000, 250, 1100), (2_000_000, 250, 1100)])
def test_the_number_of_sampled_records_per_second_is_bounded(
    size: int, rate: int, fewest: int, most: int
) -> None:
    looked: list[int] = []

    def key_of(record: int) -> int:
        looked.append(record)
        return record % 3

    clock = Clock(rate)
    sketch = KeySketch(key_of, PICKLED, clock)
    for start in range(0, 1_000_000, size):
        clock.records = start + size
        sketch.look(RowBatch(list(range(start, start + size))))
    late = [record for record in looked if record > 600_000]  # after the stride was adjusted
    assert fewest <= len(late) * rate / 400_000 <= most
    assert set(sketch.top()) == {"0", "1", "2"}


def test_alternating_keys_are_all_seen() -> None:
    """Every 16th, 32nd, ... record would always be the same one of 16 keys."""
    clock = Clock(1_000_000)
    sketch = KeySketch(lambda record: record % 16, PICKLED, clock)
    for start in range(0, 3_000_000, 1000):
        clock.records = start
        sketch.look(RowBatch(list(range(start, start + 1000))))
    assert max(sketch.top().values()) < sketch.sampled / 8


def test_columns_are_sampled_too() -> None:
    row = Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.LONG()])
    sketch = KeySketch(lambda record: record["word"], row)
    data = pa.RecordBatch.from_pydict({"word": ["a"] * 20_000, "n": list(range(20_000))})
    for _ in range(4):
        sketch.look(ColumnBatch(data))
    assert sketch.top() == {"'a'": sketch.sampled}
    assert 1 <= sketch.sampled <= 5


def test_a_selector_that_fails_is_not_called_again(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[Any] = []

    def key_of(record: Any) -> Any:
        calls.append(record)
        raise ValueError("no key")

    sketch = KeySketch(key_of, PICKLED)
    with caplog.at_level("INFO"):
        for _ in range(5):
            sketch.look(RowBatch([1] * STRIDE * 2))
    assert len(calls) == 1
    assert caplog.text.count("disabled the detection of hot keys: ValueError: no key") == 1


def test_keys_of_any_kind_are_shown_as_text() -> None:
    sketch = KeySketch(lambda record: record, PICKLED)
    for key in ([1, 2], "x" * 500, ("a", 1)):
        sketch.look(RowBatch([key] * STRIDE * 2))
    assert {"'[1, 2]'", "('a', 1)"} <= set(sketch.top())
    assert all(len(key) < 200 for key in sketch.top())
    for number in range(1000):
        sketch.look(RowBatch([number] * STRIDE * 2))
    assert len(sketch.top()) <= PLACES


class Opened(KeySelector):
    """Has to be opened."""

    def open(self, runtime_context: Any) -> None: ...

    def get_key(self, value: Any) -> Any:
        return value


def test_only_keyed_inputs_are_sampled() -> None:
    assert sketch_of(plan.RebalancePartitioner(), PICKLED) is None
    assert sketch_of(plan.HashPartitioner(plan.KeySelector(function=Opened())), PICKLED) is None
    assert sketch_of(plan.HashPartitioner(plan.KeySelector(function=lambda record: record)), PICKLED) is not None
