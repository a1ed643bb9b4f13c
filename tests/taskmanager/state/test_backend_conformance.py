"""What every state backend does: the kinds of state, keys, and what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from state_rig import REDUCING, Average, Keyed, contents, fresh, state_of, ttl

from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateKind
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateAccessError,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.taskmanager.worker.state.table import MISSING


def value(keyed: Keyed, name: str = "v", kind: Any = int) -> Any:
    return keyed.backend.state(ValueStateDescriptor(name, kind))


def test_updating_to_none_removes(keyed: Keyed) -> None:
    state = value(keyed.at(1))
    state.update(0)
    assert state.value() == 0
    state.update(None)
    assert state.value() is None


def test_lists(keyed: Keyed) -> None:
    state = keyed.backend.state(ListStateDescriptor("l", int))
    keyed.at("a")
    assert list(state) == []
    state.add(1)
    state.add_all([2, 3])
    assert state.get() == [1, 2, 3]
    keyed.at("b")
    state.update(iter([7, 8]))
    assert state.get() == [7, 8]
    state.update([])
    assert state.get() == []
    state.add_all([])
    assert state.get() == []
    keyed.at("a")
    for element in state:
        state.add(element * 10)
    assert state.get() == [1, 2, 3, 10, 20, 30]
    state.get().append(99)
    assert state.get() == [1, 2, 3, 10, 20, 30]
    state.clear()
    assert state.get() == []


def test_lists_keep_none(keyed: Keyed) -> None:
    state = keyed.at(1).backend.state(ListStateDescriptor("l", t.PICKLED))
    state.add(None)
    state.add_all([1, None])
    assert state.get() == [None, 1, None]


def test_an_update_does_not_keep_the_callers_list(keyed: Keyed) -> None:
    state = keyed.at(1).backend.state(ListStateDescriptor("l", int))
    mine = [1, 2]
    state.update(mine)
    mine.append(3)
    assert state.get() == [1, 2]


@pytest.mark.parametrize("expires", [False, True])
def test_either_all_elements_are_added_or_none(keyed: Keyed, expires: bool) -> None:
    def failing() -> Iterator[int]:
        yield 7
        raise ZeroDivisionError

    state: Any = keyed.at(1).backend.state(fresh(ListStateDescriptor("s", int), expires))
    for before in ([], [1, 2]):
        state.update(before)
        for change in (state.add_all, state.update):
            with pytest.raises(ZeroDivisionError):
                change(failing())
            assert state.get() == before


@pytest.mark.parametrize("value_type", [int, t.FLOAT])
@pytest.mark.parametrize("expires", [False, True])
def test_maps_take_pairs_as_pyflinks_do(keyed: Keyed, value_type: Any, expires: bool) -> None:
    descriptor = MapStateDescriptor("m", str, value_type)
    if expires:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(timedelta(hours=1)).build())
    state = keyed.at("a").backend.state(descriptor)
    state.put_all({"x": 1, "y": 2}.items())
    state.put_all((key, 3) for key in "yz")
    assert dict(state.items()) == {"x": 1, "y": 3, "z": 3}


def test_maps(keyed: Keyed) -> None:
    state = keyed.backend.state(MapStateDescriptor("m", str, int))
    keyed.at("a")
    assert state.is_empty()
    assert state.get("x") is None
    assert state["x"] is None
    assert "x" not in state
    state.put("x", 1)
    state["y"] = 2
    state.put_all({"z": 3, "x": 4})
    assert dict(state.items()) == {"x": 4, "y": 2, "z": 3}
    assert set(state) == set(state.keys()) == {"x", "y", "z"}
    assert sorted(state.values()) == [2, 3, 4]
    assert state.contains("y")
    del state["y"]
    state.remove("nothing")
    assert not state.contains("y")
    keyed.at("b")
    assert state.is_empty()
    state.remove("x")
    state.put_all({})
    state.put_all({}.items())
    assert state.is_empty()
    keyed.at("a")
    for key in state.keys():  # noqa: SIM118  # the state's own method is meant
        state.put(key + "!", 0)
        state.remove(key)
    assert dict(state.items()) == {"x!": 0, "z!": 0}
    for key, _ in state.items():
        state.remove(key)
    assert state.is_empty()
    state["k"] = 1
    state.clear()
    assert state.is_empty()


def test_maps_keep_none(keyed: Keyed) -> None:
    state = keyed.at(1).backend.state(MapStateDescriptor("m", t.PICKLED, t.PICKLED))
    state.put(None, None)
    assert state.contains(None)
    assert list(state.items()) == [(None, None)]


def test_all_nan_keys_are_one_key(keyed: Keyed) -> None:
    captures = []  # with captures, tables have to copy
    state = value(keyed)
    table = keyed.backend.table("sum", t.PICKLED)
    ttl_table = keyed.backend.table("short sum", t.LONG, ttl=ttl().build())
    for number in range(3):
        captures.append(keyed.backend.capture(number))
        keyed.at(float("nan"))
        state.update((state.value() or 0) + 1)
        for sums in (table, ttl_table):
            sums.fold([float("nan"), "a", float("nan")], iter([1, 1, 1]), lambda a, b: a + b)
    assert state.value() == 3
    for sums in (table, ttl_table):
        assert sums.get_all([float("nan"), "a"]) == [6, 3]
        sums.put_all([float("nan"), 1.5], [10, 1])
        assert sums.get_all([float("nan"), 1.5]) == [10, 1]


def test_closing(keyed: Keyed) -> None:
    state = value(keyed.at(1))
    state.update(5)
    capture = keyed.backend.capture(1)
    keyed.backend.close()
    with pytest.raises(StateAccessError):
        state.value()
    assert contents(state_of(capture, "v")) == {1: 5}
    capture.release()
    keyed.backend.close()
    keyed.again().backend.close()


def test_state_with_namespaces_requires_a_namespace(keyed: Keyed) -> None:
    state: Any = keyed.at("a").backend.state(REDUCING.descriptor(), t.TupleType((t.LONG, t.LONG)))
    with pytest.raises(StateAccessError, match="namespace"):
        state.get()


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "use"),
    [
        (ValueStateDescriptor("s", int), lambda s: s.value()),
        (ValueStateDescriptor("s", int), lambda s: s.update(1)),
        (ValueStateDescriptor("s", int), lambda s: s.update(None)),
        (ValueStateDescriptor("s", int), lambda s: s.clear()),
        (ListStateDescriptor("s", int), lambda s: s.get()),
        (ListStateDescriptor("s", int), lambda s: s.add(1)),
        (MapStateDescriptor("s", int, int), lambda s: s.get(1)),
        (MapStateDescriptor("s", int, int), lambda s: s.put(1, 1)),
        (MapStateDescriptor("s", int, int), lambda s: s.is_empty()),
        (ReducingStateDescriptor("s", max, int), lambda s: s.add(1)),
        (AggregatingStateDescriptor("s", Average(), list[float]), lambda s: s.get()),
    ],
)
def test_keyed_state_requires_a_key(keyed: Keyed, descriptor: Any, use: Any, expires: bool) -> None:
    state = keyed.backend.state(fresh(descriptor, expires))
    with pytest.raises(StateAccessError, match="without a key"):
        use(state)
    keyed.at(1)
    use(state)
    keyed.backend.clear_current_key()
    with pytest.raises(StateAccessError, match="without a key"):
        use(state)
    with pytest.raises(StateAccessError, match="without a key"):
        keyed.backend.get_current_key()


@pytest.mark.parametrize(
    "other",
    [ListStateDescriptor("s", int), ValueStateDescriptor("s", str), MapStateDescriptor("s", int, int)],
)
def test_a_name_belongs_to_one_state(keyed: Keyed, other: Any) -> None:
    keyed.backend.state(ValueStateDescriptor("s", int))
    keyed.backend.state(ValueStateDescriptor("s", t.LONG))
    with pytest.raises(StateAccessError, match="state 's' is declared twice, as value state of Long and as"):
        keyed.backend.state(other)


def test_the_difference_between_two_declarations_is_reported(keyed: Keyed) -> None:
    described = [ValueStateDescriptor("s", int) for _ in range(2)]
    described[0].enable_time_to_live(ttl().build())
    described[1].enable_time_to_live(ttl().update_ttl_on_read_and_write().build())
    keyed.backend.state(described[0])
    with pytest.raises(StateAccessError, match=r"\(on-create-and-write, .*\(on-read-and-write, never-return-expired\)"):
        keyed.backend.state(described[1])
    keyed.backend.state(ValueStateDescriptor("w", int), t.LONG)
    with pytest.raises(StateAccessError, match="as value state of Long for each Long and as value state of Long: give"):
        keyed.backend.state(ValueStateDescriptor("w", int))


def test_undeclared_types_are_warned_of_once(keyed: Keyed, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            keyed.backend.state(ValueStateDescriptor("loose"))
            keyed.backend.state(ValueStateDescriptor("strict", int))
            keyed.backend.state(ValueStateDescriptor("partly", tuple[int, Any]))
            keyed.backend.state(ValueStateDescriptor("on purpose", t.PICKLED))
    assert [record.getMessage().split(" has ")[0] for record in caplog.records] == [
        "counter: state 'loose'",
        "counter: state 'partly'",
    ]


# Tables


def test_folding(keyed: Keyed) -> None:
    table = keyed.backend.table("sum", t.LONG)
    assert table.fold(["a", "b", "a"], iter([1, 2, 3]), lambda a, b: a + b) == [1, 2, 4]
    assert table.fold(["a"], iter([10]), lambda a, b: a + b) == [14]
    assert keyed.backend.table("sum", t.LONG).fold(["b"], iter([1]), max) == [2]


def test_folding_keeps_none(keyed: Keyed) -> None:
    table = keyed.backend.table("last", t.PICKLED)
    assert table.fold([1, 1, None], iter([None, None, None]), lambda a, b: (a, b)) == [None, (None, None), None]


def test_a_fold_that_fails_has_taken_the_failing_record_last(keyed: Keyed) -> None:
    table = keyed.backend.table("sum", t.LONG)
    records = iter([1, 2, 0, 4])
    with pytest.raises(ZeroDivisionError):
        table.fold([1, 1, 1, 1], records, lambda a, b: a // b)
    assert next(records) == 4


def test_many_values_at_once(keyed: Keyed) -> None:
    table = keyed.backend.table("last", t.PICKLED, StateKind.VALUE)
    assert table.get_all([]) == []
    table.put_all([1, "a", 1.0, None], ["x", [1], None, "n"])
    assert table.get_all([1, "b", "a", None, True]) == [None, MISSING, [1], "n", None]
    table.put_all(["a", "b", "a", "c"], [MISSING, 1, 2, MISSING])
    table.put_all([1, "b"], iter([5, MISSING]))
    assert table.get_all((1, "a", "b", "c")) == [5, 2, MISSING, MISSING]
    state: Any = keyed.at("a").backend.state(ValueStateDescriptor("last", t.PICKLED))
    assert state.value() == 2
    assert table.take_all(["a", "b", 1]) == [2, MISSING, 5]
    assert table.get_all(["a", 1, None]) == [MISSING, MISSING, "n"]


def test_batches_require_namespaces_exactly_if_they_were_declared(keyed: Keyed) -> None:
    windows, plain = keyed.backend.table("windows", t.LONG, namespace_type=t.LONG), keyed.backend.table("plain", t.LONG)
    for use in (
        lambda table, **given: table.fold(["a"], iter([1]), max, **given),
        lambda table, **given: table.get_all(["a"], **given),
        lambda table, **given: table.put_all(["a"], [1], **given),
        lambda table, **given: table.take_all(["a"], **given),
    ):
        with pytest.raises(StateAccessError, match="state 'windows' has namespaces, and none were given"):
            use(windows)
        with pytest.raises(StateAccessError, match="state 'plain' has no namespaces, and some were given"):
            use(plain, namespaces=[1])
    with pytest.raises(StateAccessError, match="state 'timers' has namespaces, and none were given"):
        keyed.backend.timers("timers", t.LONG).event.register_all([1], ["a"])


class Sums(Average):
    def get_result(self, accumulator: list[float]) -> float:
        return accumulator[0]


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [
        (ListStateDescriptor("s", int), [1, 2, 3, 4]),
        (ReducingStateDescriptor("s", lambda a, b: a * 10 + b, int), 12 * 10 + 34),
        (AggregatingStateDescriptor("s", Sums(), list[float]), 10),
    ],
)
def test_namespaces_merge(keyed: Keyed, descriptor: Any, expected: Any, expires: bool) -> None:
    state: Any = keyed.backend.state(fresh(descriptor, expires), t.LONG)

    def at(key: str, namespace: int) -> Any:
        keyed.at(key)
        state.set_namespace(namespace)
        return state

    for namespace, number in ((10, 1), (10, 2), (30, 3), (20, 4)):
        at("a", namespace).add(number)
        at("b", namespace).add(number)
    before = contents(state_of(keyed.backend.capture(1), "s"))
    at("a", 99).merge_namespaces(10, [30, 50, 20])
    assert not state.get(), "the namespace at hand is as it was"
    assert at("a", 10).get() == expected
    assert [at("a", namespace).get() or None for namespace in (20, 30, 50)] == [None] * 3
    after = contents(state_of(keyed.backend.capture(2), "s"))
    assert {owner: value for owner, value in after.items() if owner[0] == "b"} == {
        owner: value for owner, value in before.items() if owner[0] == "b"
    }
    state.merge_namespaces(70, [60])
    assert not at("a", 70).get()
    state.merge_namespaces(70, [10])
    assert at("a", 70).get() == expected


def test_a_time_to_live_is_a_duration() -> None:
    assert StateTtlConfig.new_builder(timedelta(seconds=1.5)).build().ttl_ms == 1500


def test_all_keys_of_a_state_can_be_listed_and_removed(keyed: Keyed) -> None:
    single, listed = value(keyed, "v", str), keyed.backend.state(ListStateDescriptor("l", int))
    mapped = keyed.backend.state(MapStateDescriptor("m", str, int))
    windowed: Any = keyed.backend.state(ListStateDescriptor("w", int), t.LONG)
    for number, key in enumerate(["a", ("b", 2), 3, "gone"]):
        keyed.at(key)
        single.update("x")
        listed.add_all(range(number))
        mapped.put_all({str(n): n for n in range(number)})
        for window in range(number):
            windowed.set_namespace(window)
            windowed.add(window)
    for state in (single, listed, mapped):
        state.clear()
    assert set(keyed.backend.entries("v")) == {"a", ("b", 2), 3}
    assert set(keyed.backend.entries("l")) == set(keyed.backend.entries("m")) == {("b", 2), 3}
    expected = {(("b", 2), 0), (3, 0), (3, 1), *(("gone", window) for window in range(3))}
    assert sorted(map(repr, keyed.backend.entries("w"))) == sorted(map(repr, expected))
    keyed.backend.forget_all()
    assert [keyed.backend.entries(name) for name in "vlmw"] == [[], [], [], []]


def test_entries_are_counted_for_metrics(keyed: Keyed) -> None:
    first, lists = value(keyed), keyed.backend.state(ListStateDescriptor("l", int))
    timers = keyed.backend.timers("t")
    for key in range(5):
        keyed.at(key)
        first.update(key)
        if key < 2:
            lists.add_all([1, 2, 3])
        timers.event.register(key // 2)
        timers.processing.register(7)
    assert keyed.backend.entry_counts() == {"v": 5, "l": 2, "t": 10}
    first.update(None)
    assert keyed.backend.entry_counts()["v"] == 4
