"""What the heap does in addition to every backend: values by reference, dirty key groups, cleanup during accesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from state_rig import BACKENDS, GROUPS, Keyed, changes_do_not_show, contents, fresh, state_of, ttl

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


@dataclass
class Basket:
    items: list[str]
    total: float = 0.0


@pytest.fixture(params=["hashmap", "hashmap, incremental"])
def keyed(request: pytest.FixtureRequest) -> Keyed:
    return Keyed(BACKENDS[request.param])


def changes_in_place() -> list[Any]:
    return [
        (ValueStateDescriptor("s", t.PICKLED), lambda s: s.update({"a": [1]}), lambda s: s.value()["a"].append(2)),
        (ValueStateDescriptor("s", Basket), lambda s: s.update(Basket(["x"])), lambda s: s.value().items.append("y")),
        (ValueStateDescriptor("s", t.PICKLED), lambda s: s.update(([1], 2)), lambda s: s.value()[0].append(2)),
        (ListStateDescriptor("s", list[int]), lambda s: s.update([[1], [2]]), lambda s: s.get()[0].append(3)),
        (ListStateDescriptor("s", list[int]), lambda s: s.update([[1]]), lambda s: (s.add([2]), s.get()[0].append(3))),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: s.get(1).append(2)),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: s.items()[0][1].append(2)),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: s.values()[0].append(2)),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: (s.put(2, []), s[1].append(2))),
        (ReducingStateDescriptor("s", max, list[int]), lambda s: s.add([1]), lambda s: s.get().append(2)),
    ]


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize(("descriptor", "write", "change"), changes_in_place())
def test_changes_in_place_do_not_affect_captures(
    keyed: Keyed, descriptor: Any, write: Any, change: Any, expires: bool
) -> None:
    changes_do_not_show(keyed, fresh(descriptor, expires), write, change)


def test_a_value_is_copied_once(keyed: Keyed) -> None:
    state: Any = keyed.at("k").backend.state(ValueStateDescriptor("s", list[int]))
    mine = [1]
    state.update(mine)
    assert state.value() is mine
    capture = keyed.backend.capture(1)
    copied = state.value()
    assert copied is not mine
    assert state.value() is copied
    state.update(mine)
    assert state.value() is not mine
    capture.release()
    keyed.backend.clear_current_key()
    keyed.at("k")
    kept = state.value()
    assert state.value() is kept


# Incremental


def incremental() -> Keyed:
    return Keyed(BACKENDS["hashmap, incremental"], t.LONG)


def test_only_modified_key_groups_are_written() -> None:
    keyed = incremental()
    state: Any = keyed.backend.state(ValueStateDescriptor("s", int))
    for key in range(500):
        keyed.at(key)
        state.update(0)

    def taken(checkpoint_id: int) -> tuple[int | None, set[int] | None, dict[Any, Any]]:
        capture = keyed.backend.capture(checkpoint_id, incremental=True)
        table = capture.states[0]
        groups = None if table.dirty_groups is None else set(table.dirty_groups)
        result = (table.base, groups, contents(table))
        capture.release()
        return result

    def touch(*keys: int) -> set[int]:
        for key in keys:
            keyed.at(key)
            state.update(1)
        return {key_group_of(key, GROUPS) for key in keys}

    base, groups, entries = taken(1)
    assert (base, groups, len(entries)) == (None, None, 500)
    first = touch(3)
    assert taken(2)[:2] == (None, None)
    keyed.backend.confirm(2)
    first = touch(4, 9)
    base, groups, entries = taken(3)
    assert (base, groups) == (2, first)
    assert set(entries) == {key for key in range(500) if key_group_of(key, GROUPS) in first}
    second = touch(11)
    assert taken(4)[:2] == (2, first | second)
    keyed.backend.confirm(3)
    keyed.backend.confirm(3)
    keyed.backend.confirm(77)
    assert taken(5)[:2] == (3, second)
    keyed.backend.confirm(5)
    assert taken(6) == (5, set(), {})
    keyed.backend.confirm(6)
    keyed.at(20)
    state.clear()
    assert taken(7)[1] == {key_group_of(20, GROUPS)}
    full = keyed.backend.capture(8)
    assert (full.states[0].base, len(contents(full.states[0]))) == (None, 499)
    keyed.backend.confirm(8)
    assert taken(9)[0] == 6


def test_a_mutable_value_counts_as_modified_when_read() -> None:
    keyed = incremental()
    state: Any = keyed.backend.state(ValueStateDescriptor("s", list[int]))
    keyed.at(1)
    state.update([1])
    keyed.backend.capture(1, incremental=True).release()
    keyed.backend.confirm(1)
    state.value().append(2)
    table = keyed.backend.capture(2, incremental=True).states[0]
    assert contents(table) == {1: [1, 2]}


# Cleaning up


def keys_of(keyed: Keyed, name: str = "s") -> set[Any]:
    capture = keyed.backend.capture(1)
    try:
        return set(contents(state_of(capture, name)))
    finally:
        capture.release()


@pytest.mark.parametrize("kind", [ValueStateDescriptor("s", int), ListStateDescriptor("s", int)])
def test_incremental_cleanup_visits_all_entries(keyed: Keyed, kind: Any) -> None:
    descriptor = type(kind)("s", int)
    descriptor.enable_time_to_live(ttl().cleanup_incrementally(5, False).build())
    state: Any = keyed.backend.state(descriptor)
    for key in range(20):
        keyed.at(key)
        state.update(1) if isinstance(kind, ValueStateDescriptor) else state.add(1)
    keyed.clock.advance(11)
    keyed.at("fresh")
    reads = 0
    while keys_of(keyed):
        before = len(keys_of(keyed))
        state.value() if isinstance(kind, ValueStateDescriptor) else state.get()
        reads += 1
        assert before - len(keys_of(keyed)) <= 5
        assert reads < 20
    assert reads >= 4


def test_cleanup_with_every_record(keyed: Keyed) -> None:
    descriptor = MapStateDescriptor("s", int, int)
    descriptor.enable_time_to_live(ttl().cleanup_incrementally(2, True).build())
    state: Any = keyed.backend.state(descriptor)
    for key in range(10):
        keyed.at(key)
        state.put(1, 1)
        keyed.clock.advance(0.5)
        state.put(2, 2)
    keyed.clock.advance(9.75)
    for _ in range(30):
        keyed.at("no state is used for this key")
    assert keys_of(keyed) == {9}
    keyed.at(9)
    assert state.items() == [(2, 2)]
