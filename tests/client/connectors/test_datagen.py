"""Generated records: endless splits, rates, and generators that lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from source_harness import FakeReaderContext, rows_of

from millstream.core.clock import ManualClock
from millstream.core.errors import InvalidProgramError
from millstream.core.records.batches import RowBatch
from millstream.core.records.types import LONG, STRING
from millstream.datastream.connectors.base import Boundedness, PollStatus
from millstream.datastream.connectors.datagen import ColumnDataGeneratorSource, DataGeneratorSource
from millstream.datastream.connectors.datagen.rate_limiter import RateLimiter
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.index_split import IndexSplit, cut_range, lanes_of
from millstream.datastream.connectors.number_sequence import NumberSequenceSource


@given(start=st.integers(-50, 50), size=st.integers(0, 40), parts=st.integers(1, 7))
def test_parts_of_a_range_cover_it_once_and_are_even(start: int, size: int, parts: int) -> None:
    splits = cut_range(start, start + size, parts)
    taken = [split.take(1000)[0] for split in splits]
    assert [i for indices in taken for i in indices] == list(range(start, start + size))
    assert all(len(indices) >= size // parts for indices in taken)


@given(parts=st.integers(1, 5), block=st.integers(1, 6), counts=st.lists(st.integers(1, 9), min_size=40, max_size=40))
def test_endless_lanes_share_every_index(parts: int, block: int, counts: list[int]) -> None:
    seen: list[int] = []
    reached: list[int] = []
    for lane in lanes_of(parts, block):
        split, mine = lane, []
        for count in counts:
            indices, split = split.take(count)
            assert 0 < len(indices) <= count
            mine.extend(indices)
        assert mine == sorted(set(mine))
        seen.extend(mine)
        reached.append(split.position)
    assert len(seen) == len(set(seen))
    assert set(range(min(reached))) <= set(seen)


def test_endless_lanes_of_one_reader_take_turns() -> None:
    reader, _ = _reader(DataGeneratorSource(int))
    reader.add_splits([split for _, split in (lane.take(100) for lane in lanes_of(3))])  # restored with fewer subtasks
    seen: list[int] = []
    for _ in range(9):
        seen += reader.poll_next(10).rows
    assert sorted(seen) == list(range(300, 390))
    assert sorted(split.position for split in reader.snapshot_state(1)) == [390, 391, 392]


@example(rate=1.5, steps=[0.875, 0.125, 0.125, 0.125, 0.75, 0.0])  # two records come due within a second
@given(rate=st.floats(0.1, 1e6), steps=st.lists(st.floats(0, 0.9), min_size=1, max_size=50))
def test_a_rate_is_kept(rate: float, steps: list[float]) -> None:
    limiter, now, taken = RateLimiter(rate), 100.0, 0
    for step in steps:
        due = limiter.due(now)
        limiter.take(due)
        taken += due
        assert taken == int((now - 100.0) * rate) + 1
        assert (limiter.wait(now) - 1 / rate) <= 1e-6
        now += step


def test_a_stall_is_not_followed_by_a_flood() -> None:
    limiter = RateLimiter(10)
    limiter.take(limiter.due(0.0))
    assert limiter.due(3600.0) == 10


def _reader(source: Any, parallelism: int = 1) -> tuple[Any, FakeReaderContext]:
    context = FakeReaderContext(0, parallelism)
    reader = source.create_reader(context)
    reader.start()
    return reader, context


def test_the_rate_is_shared_by_the_subtasks_and_waits_are_requested() -> None:
    clock = ManualClock()
    source = DataGeneratorSource(str, rate_per_second=100, type_info=STRING, clock=clock)
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.get_produced_type() == STRING
    reader, context = _reader(source, parallelism=2)
    reader.add_splits([lanes_of(2)[0]])
    emitted: list[str] = []
    for _ in range(1000):
        result = reader.poll_next(1000)
        if isinstance(result, RowBatch):
            emitted.extend(result.rows)
        else:
            assert result is PollStatus.NOTHING_AVAILABLE
            clock.advance(context.waits[-1])
        if clock.monotonic() >= 2.0:
            break
    assert len(emitted) == pytest.approx(100, abs=2)
    assert emitted[:3] == ["0", "2", "4"]
    assert max(context.waits) == pytest.approx(0.02)


def test_a_rate_begins_with_the_first_split() -> None:
    clock = ManualClock()
    reader, _ = _reader(DataGeneratorSource(int, rate_per_second=1000, clock=clock))
    assert reader.poll_next(1000) is PollStatus.NOTHING_AVAILABLE
    clock.advance(5.0)
    reader.add_splits(lanes_of(1))
    assert reader.poll_next(1000).rows == [0]


def test_a_high_rate_comes_in_small_batches() -> None:
    clock = ManualClock()
    source = ColumnDataGeneratorSource(lambda start, n: {"i": range(start, start + n)}, None, 20_000, clock=clock)
    reader, context = _reader(source)
    reader.add_splits(lanes_of(1, 65536))
    sizes = []
    for _ in range(50):
        result = reader.poll_next(65536)
        if isinstance(result, PollStatus):
            clock.advance(context.waits[-1])
        else:
            sizes.append(len(result))
    assert set(sizes[1:]) <= {19, 20, 21}


def test_a_failed_generator_keeps_its_position() -> None:
    failing = True

    def generate(index: int) -> int:
        if index == 3 and failing:
            raise ValueError("bad luck")
        return index

    reader, _ = _reader(DataGeneratorSource(generate, 5))
    reader.add_splits([IndexSplit("0", 0, 5)])
    with pytest.raises(ValueError, match="bad luck"):
        reader.poll_next(10)
    assert reader.snapshot_state(1) == [IndexSplit("0", 0, 5)]
    failing = False
    assert rows_of(reader.poll_next(10)) == [0, 1, 2, 3, 4]


def test_a_column_generator_must_return_the_requested_rows() -> None:
    reader, _ = _reader(ColumnDataGeneratorSource(lambda start, n: {"i": [0]}, 10))
    reader.add_splits([IndexSplit("0", 4, 10)])
    with pytest.raises(ConnectorError, match=r"returned 1 rows for \(4, 6\); it must return exactly 6"):
        reader.poll_next(100)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataGeneratorSource(str, -1), "must not be negative"),
        (lambda: DataGeneratorSource(str, 1, 0), "above 0"),
        (lambda: DataGeneratorSource(str, 1, float("nan")), "above 0"),
        (lambda: ColumnDataGeneratorSource(lambda s, n: {}, 1, rows_per_batch=0), "at least 1"),
        (lambda: NumberSequenceSource(5, 1), "from 5 down to 1"),
    ],
)
def test_bad_options_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        make()


def test_numbers_are_longs() -> None:
    assert NumberSequenceSource(1, 2).get_produced_type() == LONG
