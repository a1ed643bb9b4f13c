"""Batches of rows: the timestamps of records that are replaced, selected, split and joined."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records.batches import RowBatch, joined, may_join

TIMES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


def chosen_of(batch: RowBatch, mask: list[bool], as_bytes: bool) -> RowBatch:
    rows = [row for row, is_chosen in zip(batch.rows, mask, strict=True) if is_chosen]
    return batch.chosen(rows, bytes(mask) if as_bytes else mask)


@given(TIMES, st.data())
def test_selected_records_keep_their_timestamps_however_often_they_are_selected(
    times: list[int], data: st.DataObject
) -> None:
    batch = RowBatch(list(times), times)  # each record is its own timestamp
    for _ in range(data.draw(st.integers(0, 3))):
        size = len(batch)
        mask = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        batch = chosen_of(batch, mask, data.draw(st.booleans()))
        if data.draw(st.booleans()):
            batch = batch.with_rows(list(batch.rows), plain=True)
        if data.draw(st.booleans()):
            assert list(batch.timestamps or []) == batch.rows
    assert batch.is_timed
    assert list(batch.timestamps or []) == batch.rows
    half = len(batch) // 2
    assert list(batch.slice(0, half).timestamps or []) == batch.rows[:half]


def test_a_batch_without_timestamps_has_none_after_any_selection() -> None:
    batch = RowBatch(["a", "b"]).chosen(["b"], [False, True]).with_rows(["c"])
    assert not batch.is_timed
    assert batch.timestamps is None


def test_selected_records_are_joined_and_encoded_with_their_timestamps() -> None:
    first = RowBatch(["a", "b"], [1, 2]).chosen(["b"], [False, True])
    second = RowBatch(["c"], [3])
    assert may_join(first, second)
    assert not may_join(first, RowBatch(["d"]))
    both = joined([first, second])
    assert isinstance(both, RowBatch)
    assert (both.rows, list(both.timestamps or [])) == (["b", "c"], [2, 3])
    assert list(pickle.loads(pickle.dumps(first)).timestamps) == [2]


def test_timestamps_appended_to_those_of_selected_records_are_kept() -> None:
    origin = RowBatch(["a", "b"], [1, 2])
    part = origin.chosen(["a"], [True, False])
    assert part.timestamps is not None
    part.timestamps.append(7)
    assert list(part.timestamps) == [1, 7]
    assert list(origin.timestamps or []) == [1, 2]
