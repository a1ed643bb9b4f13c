"""What batches of rows and of columns have in common: each verb, against a list of records with times and kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.records import types as t
from millstream.core.records.batches import Batch, ChangedRecordError, ColumnBatch, RowBatch, joined, may_join
from millstream.core.records.batches.columns import kinds_column
from millstream.core.records.conversion import rows_to_record_batch
from millstream.core.row import Row, RowKind, kind_of

PAIR = t.TupleType((t.LONG, t.STRING))
ROW = t.RowType((t.LONG, t.STRING), ("id", "name"))


class Item(NamedTuple):
    """A record, its timestamp and its kind."""

    record: tuple[int, str]
    time: int
    kind: int


ITEMS = st.lists(
    st.builds(Item, st.tuples(st.integers(-9, 9), st.text("ab", max_size=2)), st.integers(0, 99), st.integers(0, 3)),
    max_size=30,
)


def rows(items: list[Item], timed: bool, changed: bool) -> RowBatch:
    return RowBatch(
        [item.record for item in items],
        [item.time for item in items] if timed else None,
        kinds=bytes(item.kind for item in items) if changed else None,
    )


def columns(items: list[Item], timed: bool, changed: bool) -> ColumnBatch:
    times = pa.array([item.time for item in items], pa.int64()) if timed else None
    kinds = pa.array([item.kind for item in items], pa.int8()) if changed else None
    return ColumnBatch(rows_to_record_batch([item.record for item in items], PAIR), times, kinds)


MAKERS = pytest.mark.parametrize("make", [rows, columns])
Make = Callable[[list[Item], bool, bool], Batch]


def read(batch: Batch, timed: bool, changed: bool) -> list[Item]:
    """The batch as items; what it does not have is zero."""
    in_rows = batch.to_rows(PAIR)
    assert batch.is_timed == timed
    assert changed or batch.kinds is None
    times = in_rows.timestamps if timed else [0] * len(batch)
    kinds = in_rows.kinds or bytes(len(batch))
    return [Item(*parts) for parts in zip(in_rows.rows, times, kinds, strict=True)]  # type: ignore[arg-type]  # as checked


def known(items: list[Item], timed: bool, changed: bool) -> list[Item]:
    return [Item(item.record, item.time * timed, item.kind * changed) for item in items]


@MAKERS
@given(ITEMS, st.booleans(), st.booleans(), st.data())
def test_selections_keep_times_and_kinds(
    make: Make, items: list[Item], timed: bool, changed: bool, data: st.DataObject
) -> None:
    batch, expected = make(items, timed, changed), known(items, timed, changed)
    assert read(batch, timed, changed) == expected
    mask = data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
    for form in (mask, bytes(mask), np.array(mask, np.bool_)):
        assert read(batch.filter(form), timed, changed) == [i for i, keep in zip(expected, mask, strict=True) if keep]
    if items:
        indices = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=40))
        for taken in (batch.take(indices), batch.take(np.array(indices, np.int64))):
            assert read(taken, timed, changed) == [expected[i] for i in indices]
    start = data.draw(st.integers(0, len(items)))
    end = data.draw(st.integers(start, len(items)))
    step = data.draw(st.integers(1, 4))
    assert read(batch.slice(start, end), timed, changed) == expected[start:end]
    assert read(batch.slice(start), timed, changed) == expected[start:]
    assert read(batch.slice(start, None, step), timed, changed) == expected[start::step]
    assert read(batch.without_timestamps(), False, changed) == known(expected, False, changed)
    assert read(batch.with_timestamps(range(len(items))), True, changed) == [
        i._replace(time=number) for number, i in enumerate(expected)
    ]


@MAKERS
@pytest.mark.parametrize("parts", [1, 2, 8, 9, 300])
@given(ITEMS, st.booleans(), st.booleans(), st.data())
def test_a_batch_is_divided_into_parts(
    make: Make, parts: int, items: list[Item], timed: bool, changed: bool, data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(0, parts - 1), min_size=len(items), max_size=len(items)))
    found = dict(make(items, timed, changed).split(places, parts))
    expected = known(items, timed, changed)
    assert {part: read(batch, timed, changed) for part, batch in found.items()} == {
        part: [i for i, place in zip(expected, places, strict=True) if place == part] for part in set(places)
    }


@MAKERS
@given(ITEMS, ITEMS, st.booleans(), st.booleans(), st.booleans())
def test_batches_are_joined(
    make: Make, first: list[Item], second: list[Item], timed: bool, changed: bool, other_changed: bool
) -> None:
    batches = [make(first, timed, changed), make(second, timed, other_changed)]
    assert may_join(*batches)
    assert not may_join(batches[0], make(second, not timed, changed))
    assert not may_join(batches[0], (columns if make is rows else rows)(second, timed, changed))
    expected = known(first, timed, changed) + known(second, timed, other_changed)
    any_kinds = changed or other_changed
    assert read(joined(batches), timed, any_kinds) == expected
    if make is rows:
        grown = batches[0]
        assert isinstance(grown, RowBatch)
        assert isinstance(batches[1], RowBatch)
        grown.extend(batches[1])
        assert read(grown, timed, any_kinds) == expected


@given(ITEMS, st.booleans(), st.booleans())
def test_rows_and_columns_are_converted_into_each_other(items: list[Item], timed: bool, changed: bool) -> None:
    expected = known(items, timed, changed)
    assert read(rows(items, timed, changed).to_columns(PAIR), timed, changed) == expected
    assert read(columns(items, timed, changed).to_rows(PAIR), timed, changed) == expected


@given(ITEMS)
def test_rows_have_their_own_kinds(items: list[Item]) -> None:
    own = [Row.of_kind(RowKind(item.kind), id=item.record[0], name=item.record[1]) for item in items]
    batch = RowBatch(list(own), [item.time for item in items])
    as_columns = batch.to_columns(ROW)
    kinds = [item.kind for item in items]
    if any(kinds):
        assert as_columns.kinds.to_pylist() == kinds
    else:
        assert as_columns.kinds is None
    assert batch.rows == own  # their kinds too: nothing was taken from the records
    for type in (ROW, t.PICKLED):
        back = as_columns.to_rows(type)
        assert back.kinds is None
        assert back.rows == own
        assert as_columns.records(type) == own
        assert list(map(kind_of, back.rows)) == list(map(kind_of, own))


@MAKERS
def test_changes_are_refused_where_they_would_be_lost(make: Make) -> None:
    batch = make([Item((1, "a"), 0, 0), Item((2, "b"), 0, 3)], False, True)
    with pytest.raises(ChangedRecordError, match=r"row 1 is of the kind -D, which .*\(2, 'b'\); declare a row type"):
        batch.records(PAIR)
    with pytest.raises(ChangedRecordError, match="row 1 is of the kind -D"):
        batch.columns(PAIR)
    only_insertions = make([Item((1, "a"), 0, 0)], False, True)
    assert only_insertions.records(PAIR) == [(1, "a")]
    assert only_insertions.columns(PAIR).num_rows == 1


def test_columns_without_any_column_keep_their_count() -> None:
    data = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    batch = ColumnBatch(data, pa.array([1, 2, 3]), kinds_column(bytes(3)))
    assert len(batch.slice(1)) == len(batch.filter([True, False, True])) == len(batch.take([2, 0])) == 2
