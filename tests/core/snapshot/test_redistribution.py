"""Which files a restored subtask reads: nothing is lost or duplicated, under every change of parallelism."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from millstream.core.keys.key_groups import key_group_range
from millstream.core.snapshot import StateFile, StateKind, StateSnapshot
from millstream.core.snapshot.tables.redistribution import dealt, files_for, is_dealt, takes_over

MAX = 128
CHECKSUM = f"sha256:{'0' * 64}"

parallelisms = st.integers(1, 12)


def state(kind: StateKind, parallelism: int, name: str = "state") -> StateSnapshot:
    files = []
    for subtask in range(parallelism):
        groups = key_group_range(subtask, MAX, parallelism)
        start, end = (groups.start, groups.stop) if kind.keyed else (None, None)
        files.append(StateFile(f"op/{name}/part-{subtask}-0.arrow", subtask, start, end, 1, 1, CHECKSUM))
    return StateSnapshot(name, kind, files=tuple(files))


@given(before=parallelisms, after=parallelisms)
def test_keyed_state_reaches_the_owners_of_its_key_groups(before: int, after: int) -> None:
    kept = state(StateKind.MAP, before)
    for subtask in range(after):
        owned = key_group_range(subtask, MAX, after)
        chosen = files_for(kept, before, after, MAX, subtask)
        ranges = [f.key_groups or range(0) for f in chosen]
        assert set(owned) <= {group for groups in ranges for group in groups}
        assert all(set(groups) & set(owned) for groups in ranges)


@pytest.mark.parametrize("kind", [StateKind.OPERATOR_LIST, StateKind.SPLITS, StateKind.SINK_TRANSACTIONS])
@given(before=parallelisms, after=parallelisms)
def test_lists_are_kept_or_redistributed(kind: StateKind, before: int, after: int) -> None:
    kept = state(kind, before)
    chosen = [files_for(kept, before, after, MAX, subtask) for subtask in range(after)]
    assert is_dealt(kind, before, after) == (before != after)
    assert chosen == ([kept.files] * after if before != after else [(f,) for f in kept.files])


@given(st.lists(st.integers()), parallelisms)
def test_redistributed_elements_are_spread_evenly_and_each_reaches_one_subtask(
    elements: list[int], parallelism: int
) -> None:
    shares = [dealt(elements, subtask, parallelism) for subtask in range(parallelism)]
    assert Counter(element for share in shares for element in share) == Counter(elements)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(before=parallelisms, after=parallelisms)
def test_union_lists_go_to_all_and_broadcast_state_as_one_copy(before: int, after: int) -> None:
    union, broadcast = state(StateKind.OPERATOR_UNION, before), state(StateKind.BROADCAST, before)
    read: Counter[int] = Counter()
    for subtask in range(after):
        assert files_for(union, before, after, MAX, subtask) == union.files
        (copy,) = files_for(broadcast, before, after, MAX, subtask)
        read[copy.subtask] += 1
    assert len(read) == min(before, after)
    assert max(read.values()) - min(read.values()) <= 1
    assert files_for(replace(broadcast, files=()), before, after, MAX, 0) == ()


@given(before=parallelisms, after=parallelisms)
def test_records_in_flight_follow_their_producer(before: int, after: int) -> None:
    queued = state(StateKind.IN_FLIGHT, before, "in-flight-0-queued")
    received = state(StateKind.IN_FLIGHT, before, "in-flight-0-received")
    for subtask in range(after):
        chosen = files_for(queued, before, after, MAX, subtask)
        assert [f.subtask for f in chosen] == [p for p in range(before) if takes_over(p, after) == subtask]
        assert files_for(received, before, after, MAX, subtask) == received.files
