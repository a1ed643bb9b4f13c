from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.taskmanager.worker.checkpointing.layout import Chunk, cut, is_touched, slice_of
from millstream.taskmanager.worker.state.capturing.arrow_tables import in_order


@settings(max_examples=cases(100))
@given(st.lists(st.integers(10, 19), max_size=200), st.integers(0, 3))
def test_chunks_cover_all_key_groups_once_and_contain_their_rows(groups: list[int], scale: int) -> None:
    owned = range(10, 20)
    table = pa.table({"key_group": pa.array([g for g in sorted(groups) for _ in range(10**scale)], pa.int32())})
    chunks = list(cut(table, owned, table.num_rows))
    assert [group for key_groups, _ in chunks for group in key_groups] == list(owned)
    assert sum(part.num_rows for _, part in chunks) == table.num_rows
    for key_groups, part in chunks:
        assert set(part["key_group"].to_pylist()) <= set(key_groups)
        assert part.equals(slice_of(table, key_groups))
    assert len(chunks) <= 1 + table.num_rows // 4096


def test_a_chunk_is_written_again_when_one_of_its_key_groups_was_modified() -> None:
    chunk = Chunk(range(4, 8), ())
    assert is_touched(chunk, {7})
    assert not is_touched(chunk, {3, 8})


@settings(max_examples=cases(100))
@given(st.lists(st.lists(st.integers(0, 5), max_size=20), min_size=1, max_size=5))
def test_large_tables_are_sorted_like_small_ones(parts: list[list[int]]) -> None:
    tables = [
        pa.table({"key_group": pa.array(sorted(groups), pa.int32()), "row": [f"{n}-{i}" for i in range(len(groups))]})
        for n, groups in enumerate(parts)
    ]
    tables = [table.cast(pa.schema([("key_group", pa.int32()), ("row", pa.string())])) for table in tables]
    expected = sorted((row for table in tables for row in table.to_pylist()), key=lambda row: row["key_group"])
    assert in_order(tables).to_pylist() == expected
    assert in_order(tables, at_once=0).to_pylist() == expected
