from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import cases

from millstream.taskmanager.worker.checkpointing.layout import Chunk, cut, is_touched


@settings(max_examples=cases(100))
@given(st.lists(st.integers(0, 3), min_size=10, max_size=10), st.integers(0, 3))
def test_chunks_cover_all_key_groups_once_and_have_their_entries(groups: list[int], scale: int) -> None:
    owned = range(10, 20)
    counts = {group: count * 10**scale for group, count in zip(owned, groups, strict=True)}
    total = sum(counts.values())
    chunks = list(cut(owned, lambda some: sum(counts[group] for group in some), total))
    assert [group for key_groups, _ in chunks for group in key_groups] == list(owned)
    for key_groups, count in chunks:
        assert count == sum(counts[group] for group in key_groups)
    assert len(chunks) <= 1 + total // 4096


def test_a_chunk_is_written_again_when_one_of_its_key_groups_was_modified() -> None:
    chunk = Chunk(range(4, 8), ())
    assert is_touched(chunk, {7})
    assert not is_touched(chunk, {3, 8})
