"""Nothing is lost, nothing is doubled, whatever the parallelism."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.key_groups import key_group_range
from millstream.taskmanager.state.redistribution import (
    broadcast_sources,
    split_key_groups,
    split_list,
    union_list,
)

STATES = st.lists(st.lists(st.integers()), max_size=8)
PARALLELISM = st.integers(1, 9)


@given(STATES, PARALLELISM)
def test_lists_are_split_evenly(states: list[list[int]], parallelism: int) -> None:
    result = split_list(states, parallelism)
    assert len(result) == parallelism
    assert Counter(chain(*result)) == Counter(chain(*states))
    if len(states) == parallelism:
        assert result == states
    else:
        sizes = list(map(len, result))
        assert max(sizes) - min(sizes) <= 1


@given(STATES, PARALLELISM)
def test_unions_go_to_all(states: list[list[int]], parallelism: int) -> None:
    everything = list(chain(*states))
    result = union_list(states, parallelism)
    assert result == [everything] * parallelism
    result[0].append(1)
    assert all(part == everything for part in result[1:])


@given(st.integers(0, 5), PARALLELISM)
def test_broadcast_state_is_read_from_one_copy(copies: int, parallelism: int) -> None:
    sources = broadcast_sources(copies, parallelism)
    assert len(sources) == parallelism
    if copies:
        used = Counter(sources)
        assert set(used) <= set(range(copies))
        assert max(used.values()) - min(used[c] for c in range(copies)) <= 1 or parallelism < copies
    else:
        assert set(sources) == {None}


@given(st.data(), PARALLELISM, PARALLELISM)
def test_key_groups_go_to_their_owners(data: Any, before: int, after: int) -> None:
    groups = data.draw(st.integers(max(before, after), 64))
    parts = [key_group_range(subtask, groups, before) for subtask in range(before)]
    result = split_key_groups(parts, groups, after)
    for subtask, taken in enumerate(result):
        owned = key_group_range(subtask, groups, after)
        assert [group for part in taken for group in part.key_groups] == list(owned)
        assert all(part.key_groups.start >= parts[part.part].start for part in taken)
        assert all(part.key_groups.stop <= parts[part.part].stop for part in taken)
        assert all(part.key_groups for part in taken)
