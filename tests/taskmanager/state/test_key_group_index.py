"""Key groups of a column equal those of each key; modified key groups are never forgotten."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millstream.core.keys.key_groups import key_group_of
from millstream.taskmanager.worker.state.capturing.dirty import DirtyKeyGroups
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

PLAIN: Any = st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.floats(), st.binary(max_size=4))
COLUMNS: Any = st.one_of(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1)),
    st.lists(st.text()),
    st.lists(st.tuples(st.integers(0, 99), st.text())),
    st.lists(st.tuples(st.integers(), st.tuples(PLAIN))),
    st.lists(st.one_of(PLAIN, st.tuples(PLAIN), st.tuples(PLAIN, PLAIN), st.just(()))),
)


@given(COLUMNS, st.sampled_from([1, 128, 4096]))
def test_columns_and_single_keys_agree(keys: list[Any], groups: int) -> None:
    index = KeyGroupIndex(groups)
    expected = [key_group_of(key, groups) for key in keys]
    assert index.column(keys).tolist() == expected
    assert [index.of(key) for key in keys] == expected
    assert [index.of(key) for key in keys] == expected


def test_the_cache_is_bounded() -> None:
    index = KeyGroupIndex(16)
    for key in range(200_000):
        index.of(key)
    assert len(index._known) <= 1 << 16
    assert index.of(5) == key_group_of(5, 16)


@given(st.lists(st.lists(st.integers(0, 20_000), max_size=50)), st.booleans())
def test_modified_groups_are_known(batches: list[list[int]], single: bool) -> None:
    index = KeyGroupIndex(512)
    dirty = DirtyKeyGroups(index)
    dirty.close_interval(0)
    dirty.confirm(0)
    for batch in batches:
        if single:
            for key in batch:
                dirty.add(key)
        else:
            dirty.add_all(batch)
    expected = {key_group_of(key, 512) for batch in batches for key in batch}
    assert dirty.close_interval(1) == (0, expected)


def test_tracking_stops_when_all_are_modified() -> None:
    index = KeyGroupIndex(64)
    dirty = DirtyKeyGroups(index)
    dirty.close_interval(0)
    dirty.confirm(0)
    dirty.add_all(range(20_000))
    for key in range(20_000, 60_000):
        dirty.add(key)
    assert not dirty._entries
    assert dirty.close_interval(1) == (0, frozenset(range(64)))
    dirty.add(5)
    assert dirty.close_interval(2) == (0, frozenset(range(64)))
    dirty.confirm(1)
    assert dirty.close_interval(3) == (1, {key_group_of(5, 64)})


def test_checkpoints_that_never_complete_do_not_accumulate() -> None:
    index = KeyGroupIndex(1000)
    dirty = DirtyKeyGroups(index)
    dirty.close_interval(1)
    dirty.confirm(1)
    for number in range(2, 502):
        dirty.add(number)
        base, touched = dirty.close_interval(number)
        assert (base, touched) == (1, {index.of(key) for key in range(2, number + 1)})
    assert len(dirty._intervals) < 100
    dirty.confirm(300)
    assert dirty.close_interval(502)[0] == 1, "too long ago to be built upon"
    dirty.confirm(500)
    assert dirty.close_interval(503) == (500, {index.of(501)})
