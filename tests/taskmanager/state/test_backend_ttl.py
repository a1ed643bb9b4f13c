"""Time-to-live, for every backend and every kind of state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from state_rig import AGGREGATING, LIST, MAP, REDUCING, VALUE, Average, Keyed, Kind, contents, state_of, ttl

from millstream.core.records import types as t
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.taskmanager.worker.state.table import MISSING


def made(keyed: Keyed, descriptor: StateDescriptor, config: Any = None) -> Any:
    descriptor.enable_time_to_live(ttl().build() if config is None else config.build())
    return keyed.at("k").backend.state(descriptor)


def lazily() -> StateTtlConfig.Builder:
    """Without cleanup, so that only reads remove values."""
    return ttl().disable_cleanup_in_background()


KINDS = [
    VALUE, LIST, MAP, REDUCING, AGGREGATING,
    replace(MAP, read=lambda s: s.get(1)), replace(MAP, read=lambda s: s.contains(1)),
    replace(MAP, read=lambda s: s.is_empty()),
]  # fmt: skip


class Written:
    """State of a kind with a time-to-live, to which a number was written."""

    def __init__(self, keyed: Keyed, kind: Kind, config: StateTtlConfig.Builder | None = None) -> None:
        self.clock = keyed.clock
        self.state = made(keyed, kind.descriptor(), config)
        self._kind = kind
        self.gone = self.read()
        self.write()
        self.there = self.read()
        assert self.there != self.gone

    def write(self) -> None:
        self._kind.write(self.state, 1)

    def read(self) -> Any:
        return self._kind.read(self.state)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


def test_written_values_expire(keyed: Keyed, kind: Kind) -> None:
    written = Written(keyed, kind)
    written.clock.advance(9.999)
    assert written.read() == written.there
    written.clock.advance(0.001)
    assert written.read() == written.gone
    written.write()
    assert written.read() == written.there


def test_reading_extends_the_lifetime_only_if_configured(keyed: Keyed, kind: Kind) -> None:
    written = Written(keyed, kind, ttl().update_ttl_on_read_and_write())
    for _ in range(5):
        written.clock.advance(8)
        assert written.read() == written.there
    written.clock.advance(10)
    assert written.read() == written.gone


def test_an_expired_value_may_be_returned_once(keyed: Keyed, kind: Kind) -> None:
    written = Written(keyed, kind, lazily().return_expired_if_not_cleaned_up())
    written.clock.advance(100)
    assert written.read() == written.there
    assert written.read() == written.gone


def test_disabled_values_never_expire(keyed: Keyed, kind: Kind) -> None:
    written = Written(keyed, kind, ttl().set_update_type(StateTtlConfig.UpdateType.Disabled))
    written.clock.advance(10**6)
    assert written.read() == written.there


def test_clearing(keyed: Keyed, kind: Kind) -> None:
    written = Written(keyed, kind, lazily())
    for _ in range(2):
        written.state.clear()
        assert written.read() == written.gone


def test_adding_to_an_expired_value_starts_over(keyed: Keyed) -> None:
    reducing = made(keyed, ReducingStateDescriptor("r", lambda a, b: a + b, int))
    aggregating = made(keyed, AggregatingStateDescriptor("a", Average(), list[float]))
    for _ in range(2):
        keyed.clock.advance(20)
        for number in (1, 3):
            reducing.add(number)
            aggregating.add(number)
        assert (reducing.get(), aggregating.get()) == (4, 2)


def test_writing_extends_the_lifetime(keyed: Keyed) -> None:
    value = made(keyed, ValueStateDescriptor("v", int))
    reducing = made(keyed, ReducingStateDescriptor("r", lambda a, b: a + b, int))
    for _ in range(4):
        value.update(1)
        reducing.add(1)
        keyed.clock.advance(8)
    assert (value.value(), reducing.get()) == (1, 4)
    value.update(None)
    assert value.value() is None


def test_elements_and_entries_expire_independently(keyed: Keyed) -> None:
    listed = made(keyed, ListStateDescriptor("l", int))
    mapped = made(keyed, MapStateDescriptor("m", str, int))
    listed.update([1, 2])
    mapped.put_all({"a": 1, "b": 2})
    keyed.clock.advance(6)
    listed.add_all([3])
    mapped.put("b", 3)
    mapped.put("c", 4)
    keyed.clock.advance(6)
    assert listed.get() == [3]
    assert dict(mapped.items()) == {"b": 3, "c": 4}
    assert mapped.keys() == ["b", "c"]
    assert mapped.values() == [3, 4]
    mapped.remove("b")
    mapped.remove("b")
    mapped.remove("c")
    assert mapped.is_empty()
    listed.update([])
    assert listed.get() == []
    keyed.clock.advance(6)
    assert listed.get() == []


def test_a_map_whose_last_entry_expired_can_be_filled_again(keyed: Keyed) -> None:
    state = made(keyed, MapStateDescriptor("m", str, int), lazily())
    state.put("a", 1)
    keyed.clock.advance(11)
    assert state.get("a") is None
    state.put("a", 2)
    state.put_all({})
    assert state.get("a") == 2


@pytest.mark.parametrize("filtered", [False, True])
def test_expired_entries_in_snapshots(keyed: Keyed, filtered: bool) -> None:
    config = lazily().cleanup_full_snapshot() if filtered else lazily()
    value = made(keyed, ValueStateDescriptor("v", int), config)
    listed = made(keyed, ListStateDescriptor("l", int), config)
    mapped = made(keyed, MapStateDescriptor("m", int, int), config)
    for key in "ab":
        keyed.at(key)
        value.update(1)
        listed.add(1)
        mapped.put(1, 1)
        keyed.clock.advance(6)
    keyed.at("b")
    listed.add(2)
    mapped.put(2, 2)
    keyed.clock.advance(3)
    capture = keyed.backend.capture(1)
    found = [contents(state_of(capture, name)) for name in "vlm"]
    assert found[0] == ({"b": 1} if filtered else {"a": 1, "b": 1})
    assert found[1] == ({"b": [1, 2]} if filtered else {"a": [1], "b": [1, 2]})
    assert found[2] == ({"b": {1: 1, 2: 2}} if filtered else {"a": {1: 1}, "b": {1: 1, 2: 2}})
    keyed.clock.advance(5)
    later = state_of(keyed.backend.capture(2), "l")
    if filtered:
        assert contents(later) == {"b": [2]}


def test_tables_with_a_time_to_live(keyed: Keyed) -> None:
    table = keyed.backend.table("r", t.LONG, ttl=ttl().update_ttl_on_read_and_write().build())
    add = lambda a, b: a + b  # noqa: E731
    assert table.fold([1, 2, 1], iter([1, 2, 3]), add) == [1, 2, 4]
    keyed.clock.advance(6)
    assert table.get_all([1, 3]) == [4, MISSING]
    table.put_all([5, 6], [50, MISSING])
    keyed.clock.advance(6)
    assert table.get_all([1, 2, 5, 6]) == [4, MISSING, 50, MISSING]
    assert table.fold([2], iter([7]), add) == [7]
    assert table.fold([2], iter([7]), add) == [14]
    keyed.clock.advance(60)
    assert table.fold([2, 2], iter([1, 1]), add, first=lambda number: number + 100) == [101, 102]
