"""Captures: consistent whatever happens to the live state afterwards, and restored to the same state."""

from __future__ import annotations

import threading
from dataclasses import dataclass, make_dataclass, replace
from typing import Any

import pytest
from state_rig import BACKENDS, GROUPS, Average, DecodedState, Keyed, captured, contents, decoded, state_of, ttl
from waiting import DEADLINE

from millstream.core import types as t
from millstream.core.key_groups import key_group_of
from millstream.core.row import Row
from millstream.core.snapshot.model import StateKind, TtlSettings
from millstream.core.snapshot.restore import Rows, check_table
from millstream.core.snapshot.table import StateTypes
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateAccessError,
    StateDescriptor,
    ValueStateDescriptor,
)
from millstream.taskmanager.checkpointing.restoring import ReadFile, StoredState
from millstream.taskmanager.state.arrow_tables import keyed_table
from millstream.taskmanager.state.captured import StateDeclaration


@dataclass
class Basket:
    items: list[str]
    total: float = 0.0


@dataclass
class Point:
    x: int
    y: int = 7


OldPoint = make_dataclass("Point", [("x", int)])

KINDS: list[Any] = [
    (ValueStateDescriptor("s", int), lambda s, n: s.update(n)),
    (ValueStateDescriptor("s", t.PICKLED), lambda s, n: s.update([n])),
    (ValueStateDescriptor("s", Basket), lambda s, n: s.update(Basket([str(n)], n))),
    (ListStateDescriptor("s", tuple[int, str]), lambda s, n: s.add((n, "x"))),
    (MapStateDescriptor("s", str, int), lambda s, n: s.put(str(n), n)),
    (ReducingStateDescriptor("s", lambda a, b: a + b, int), lambda s, n: s.add(n)),
    (AggregatingStateDescriptor("s", Average(), list[float]), lambda s, n: s.add(n)),
]


def fresh(descriptor: StateDescriptor, expires: bool) -> StateDescriptor:
    match descriptor:
        case ReducingStateDescriptor():
            made: StateDescriptor = ReducingStateDescriptor("s", descriptor.reduce_function, *descriptor.types)
        case AggregatingStateDescriptor():
            made = AggregatingStateDescriptor("s", descriptor.agg_function, *descriptor.types)
        case _:
            made = type(descriptor)("s", *descriptor.types)
    if expires:
        made.enable_time_to_live(ttl(1000).build())
    return made


def answer(state: Any) -> Any:
    for method in ("value", "items", "get"):
        if hasattr(state, method):
            return getattr(state, method)()
    raise AssertionError


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize(("descriptor", "write"), KINDS)
def test_there_and_back_at_another_parallelism(keyed: Keyed, descriptor: Any, write: Any, expires: bool) -> None:
    keyed = Keyed(keyed.make, t.TupleType((t.STRING, t.LONG)))
    state = keyed.backend.state(fresh(descriptor, expires))
    keys = [(f"k{n % 5}", n) for n in range(40)]
    for key in keys:
        for n in (key[1], key[1] + 1):
            keyed.at(key)
            write(state, n)
    before = {key: answer(state) for key in keys if keyed.at(key)}
    part = decoded(captured(keyed.backend, "s"))
    for ranges in ([range(GROUPS)], [range(5), range(5, GROUPS)]):
        found: dict[Any, Any] = {}
        for owned in ranges:
            other = keyed.again(owned)
            other.backend.restore([part])
            again = other.backend.state(fresh(descriptor, expires))
            for key in keys:
                if key_group_of(key, GROUPS) in owned:
                    found[key] = answer(again) if other.at(key) else None
                elif other.at(key):
                    assert not answer(again)
        assert found == before


def test_a_restored_list_keeps_its_order_and_deadlines(keyed: Keyed) -> None:
    def described() -> ListStateDescriptor:
        made = ListStateDescriptor("s", int)
        made.enable_time_to_live(ttl(10).build())
        return made

    state: Any = keyed.backend.state(described())
    for n in (3, 1, 2):
        keyed.at("k")
        state.add(n)
        keyed.clock.advance(4)
    other = keyed.again()
    part = decoded(captured(keyed.backend, "s"))
    shuffled = [2, 0, 1]
    rows = part.decoded
    other.backend.restore(
        [
            DecodedState(
                part.declaration,
                Rows(
                    *[[column[i] for i in shuffled] for column in (rows.content, rows.keys)],
                    [], [rows.detail[i] for i in shuffled], [(rows.expires_at or [])[i] for i in shuffled],
                    [rows.key_groups[i] for i in shuffled],
                ),
            )
        ]
    )  # fmt: skip
    again: Any = other.at("k").backend.state(described())
    assert again.get() == [1, 2]


def test_state_that_gets_or_loses_a_time_to_live(keyed: Keyed) -> None:
    plain: Any = keyed.at(1).backend.state(ValueStateDescriptor("s", int))
    plain.update(5)
    part = decoded(captured(keyed.backend, "s"))
    other = keyed.again()
    other.backend.restore([part])
    limited = ValueStateDescriptor("s", int)
    limited.enable_time_to_live(ttl(10).build())
    state: Any = other.at(1).backend.state(limited)
    assert state.value() == 5
    third = keyed.again()
    third.backend.restore([decoded(captured(other.backend, "s"))])
    keyed.clock.advance(11)
    assert state.value() is None
    lasting: Any = third.at(1).backend.state(ValueStateDescriptor("s", int))
    assert lasting.value() == 5


@pytest.mark.parametrize(("seconds", "alive_after"), [(4, 0), (30, 25)])
@pytest.mark.parametrize(
    ("describe", "write", "answer"),
    [
        (lambda: ValueStateDescriptor("s", int), lambda s: s.update(1), lambda s: s.value()),
        (lambda: ListStateDescriptor("s", int), lambda s: s.add(1), lambda s: s.get()),
        (lambda: MapStateDescriptor("s", int, int), lambda s: s.put(1, 1), lambda s: s.get(1)),
    ],
)
def test_a_changed_time_to_live_holds_for_what_was_stored(
    keyed: Keyed, describe: Any, write: Any, answer: Any, seconds: int, alive_after: int
) -> None:
    def described(lives: int) -> Any:
        made = describe()
        made.enable_time_to_live(ttl(lives).build())
        return made

    write(keyed.at(1).backend.state(described(10)))
    part = decoded(captured(keyed.backend, "s"))
    keyed.clock.advance(4)
    other = keyed.again()
    other.backend.restore([part])
    state = other.at(1).backend.state(described(seconds))
    keyed.clock.advance(alive_after)
    assert bool(answer(state)) == bool(alive_after)
    keyed.clock.advance(1)
    assert not answer(state)


def test_state_that_nobody_asks_for_is_kept(keyed: Keyed) -> None:
    old: Any = keyed.at("a").backend.state(MapStateDescriptor("old", str, int))
    old.put("x", 1)
    other = keyed.again()
    asked: list[StateTypes | None] = []

    class Part(DecodedState):
        def rows(self, declared: StateTypes | None) -> Rows:
            asked.append(declared)
            return super().rows(declared)

    part = decoded(captured(keyed.backend, "old"))
    other.backend.restore([Part(part.declaration, part.decoded)])
    other.backend.state(ValueStateDescriptor("new", int))
    assert asked == []
    kept = captured(other.backend, "old")
    assert asked == [None]
    assert contents(kept) == {"a": {"x": 1}}
    assert kept.declaration == part.declaration


def test_state_that_is_asked_for_after_a_capture(keyed: Keyed) -> None:
    """It was kept as it had been stored; the program's type is another, and has a new field."""
    state: Any = keyed.at("a").backend.state(ValueStateDescriptor("s", OldPoint))
    state.update(OldPoint(1))
    table = captured(keyed.backend, "s")
    described = table.declaration.types.snapshot("s", StateKind.VALUE)
    arrow = keyed_table(table.declaration, table.rows(), GROUPS)
    other = keyed.again()
    other.backend.restore([StoredState(described, (ReadFile("file", arrow),))])
    for number in (2, 3):
        kept = captured(other.backend, "s", number)
        assert contents(kept) == {"a": Row(x=1)}
        kept.release()
    late: Any = other.at("a").backend.state(ValueStateDescriptor("s", Point))
    assert late.value() == Point(1, 7)
    late.update(Point(2, 3))
    assert contents(captured(other.backend, "s", 4)) == {"a": Point(2, 3)}
@dataclass
class Account:
    balance: int
    level: int = 5


@pytest.mark.parametrize("lasting", [True, False])
def test_state_that_is_asked_for_after_it_was_kept(keyed: Keyed, lasting: bool) -> None:
    """Captured before a record came whose function asks for it: its class is only known then."""
    descriptor = ValueStateDescriptor("old", Account)
    if not lasting:
        descriptor.enable_time_to_live(ttl().cleanup_incrementally(5, True).build())
    state: Any = keyed.at("a").backend.state(descriptor)
    state.update(Account(3))
    table = captured(keyed.backend, "old")
    declaration = table.declaration
    stored = replace(declaration.types.snapshot("old", StateKind.VALUE), ttl=declaration.ttl)
    file = ReadFile("file", check_table(keyed_table(declaration, table.rows(), GROUPS), stored, "file"))
    other = keyed.again()
    other.backend.restore([StoredState(stored, (file,))])
    captured(other.backend, "old").release()
    again: Any = other.at("a").backend.state(descriptor)
    assert again.value() == Account(3)
    again.update(Account(4))
    assert contents(captured(other.backend, "old")) == {"a": Account(4)}
    assert captured(other.backend, "old").declaration == declaration


def test_a_state_of_another_kind_is_refused(keyed: Keyed) -> None:
    stored = StateDeclaration("s", StateKind.LIST, StateTypes(t.LONG, t.LONG))
    keyed.backend.restore([DecodedState(stored, Rows([]))])
    with pytest.raises(StateAccessError, match="was stored as list state of Long, and the program declares"):
        keyed.backend.state(ValueStateDescriptor("s", int))


def test_declarations_tell_everything(keyed: Keyed) -> None:
    descriptor = MapStateDescriptor("m", str, tuple[int, float])
    descriptor.enable_time_to_live(ttl(3).build())
    keyed.backend.state(descriptor, t.LONG)
    declared = captured(keyed.backend, "m").declaration
    pair = t.TupleType((t.LONG, t.DOUBLE))
    assert declared == StateDeclaration(
        "m", StateKind.MAP, StateTypes(t.PICKLED, pair, t.LONG, t.STRING), TtlSettings(3000)
    )


def test_namespaces_are_columns(keyed: Keyed) -> None:
    state: Any = keyed.backend.state(ValueStateDescriptor("s", int), t.LONG)
    for key, namespace in ((1, 10), (1, 20), (2, 10)):
        keyed.at(key)
        state.set_namespace(namespace)
        state.update(key * namespace)
    table = captured(keyed.backend, "s")
    rows = table.rows()
    assert (rows.keys, rows.namespaces, rows.values) == ([1, 1, 2], [10, 20, 10], [10, 20, 20])
    assert rows.key_groups.tolist() == [key_group_of(key, GROUPS) for key in (1, 1, 2)]
    other = keyed.again()
    other.backend.restore([decoded(table)])
    again: Any = other.at(1).backend.state(ValueStateDescriptor("s", int), t.LONG)
    again.set_namespace(20)
    assert again.value() == 20


# Consistency


def mutations() -> list[Any]:
    return [
        (ValueStateDescriptor("s", t.PICKLED), lambda s: s.update({"a": [1]}), lambda s: s.value()["a"].append(2)),
        (ValueStateDescriptor("s", Basket), lambda s: s.update(Basket(["x"])), lambda s: s.value().items.append("y")),
        (ValueStateDescriptor("s", t.PICKLED), lambda s: s.update(([1], 2)), lambda s: s.value()[0].append(2)),
        (ValueStateDescriptor("s", int), lambda s: s.update(1), lambda s: s.update(2)),
        (ValueStateDescriptor("s", int), lambda s: s.update(1), lambda s: s.clear()),
        (ListStateDescriptor("s", int), lambda s: s.update([1, 2]), lambda s: s.add(3)),
        (ListStateDescriptor("s", int), lambda s: s.update([1, 2]), lambda s: s.add_all([3])),
        (ListStateDescriptor("s", list[int]), lambda s: s.update([[1], [2]]), lambda s: s.get()[0].append(3)),
        (ListStateDescriptor("s", list[int]), lambda s: s.update([[1]]), lambda s: (s.add([2]), s.get()[0].append(3))),
        (MapStateDescriptor("s", int, int), lambda s: s.put(1, 1), lambda s: s.put(1, 2)),
        (MapStateDescriptor("s", int, int), lambda s: s.put_all({1: 1, 2: 2}), lambda s: s.remove(2)),
        (MapStateDescriptor("s", int, int), lambda s: s.put_all({1: 1, 2: 2}), lambda s: s.put_all({3: 3})),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: s.get(1).append(2)),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: s.items()[0][1].append(2)),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: s.values()[0].append(2)),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), lambda s: (s.put(2, []), s[1].append(2))),
        (AggregatingStateDescriptor("s", Average(), list[float]), lambda s: s.add(1), lambda s: s.add(5)),
        (
            ReducingStateDescriptor("s", lambda a, b: a.extend(b) or a, list[int]),
            lambda s: s.add([1]),
            lambda s: s.add([5]),
        ),
        (ReducingStateDescriptor("s", max, list[int]), lambda s: s.add([1]), lambda s: s.get().append(2)),
    ]


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize(("descriptor", "write", "change"), mutations())
def test_later_changes_do_not_show(keyed: Keyed, descriptor: Any, write: Any, change: Any, expires: bool) -> None:
    state = keyed.at("k").backend.state(fresh(descriptor, expires))
    write(state)
    first = keyed.backend.capture(1)
    before = repr(contents(state_of(first, "s")))
    change(state)
    second = keyed.backend.capture(2)
    between = repr(contents(state_of(second, "s")))
    assert between != before
    change(state)
    assert repr(contents(state_of(first, "s"))) == before
    assert repr(contents(state_of(second, "s"))) == between
    first.release()
    change(state)
    assert repr(contents(state_of(second, "s"))) == between
    second.release()
    second.release()
    assert contents(state_of(second, "s")) == {}
    keyed.backend.clear_current_key()
    keyed.at("k")
    change(state)


def test_deadlines_do_not_change_in_a_capture(keyed: Keyed) -> None:
    listed, mapped = ListStateDescriptor("l", t.PICKLED), MapStateDescriptor("m", int, t.PICKLED)
    for descriptor in (listed, mapped):
        descriptor.enable_time_to_live(ttl(10).update_ttl_on_read_and_write().build())
    lists, maps = keyed.at(1).backend.state(listed), keyed.backend.state(mapped)
    lists.update([[1]])  # type: ignore[attr-defined]  # a list state
    maps.put_all({1: [1], 2: [2]})  # type: ignore[attr-defined]  # a map state
    capture = keyed.backend.capture(1)
    before = [state.rows().expires_at for state in capture.states]
    keyed.clock.advance(5)
    lists.get()  # type: ignore[attr-defined]
    lists.add([2])  # type: ignore[attr-defined]
    maps.get(1)  # type: ignore[attr-defined]
    maps.put(3, [3])  # type: ignore[attr-defined]
    maps.remove(2)  # type: ignore[attr-defined]
    assert [state.rows().expires_at for state in capture.states] == before
    assert [len(entry) for state in capture.states for entry in state.rows().values] == [1, 2]


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


def test_folding_does_not_show(keyed: Keyed) -> None:
    def add(a: Any, b: Any) -> Any:
        a[0] += b[0]
        return a

    table = keyed.backend.reducing_table("r", t.PICKLED)
    table.fold([1, 2], iter([[1], [2]]), add)
    capture = keyed.backend.capture(1)
    assert table.fold([1, 2, 1], iter([[10], [20], [30]]), add)[-1] == [41]
    assert contents(state_of(capture, "r")) == {1: [1], 2: [2]}
    capture.release()
    assert table.fold([1], iter([[1]]), add) == [[42]]


@pytest.mark.parametrize("expires", [False, True])
def test_folding_that_shares_nothing(keyed: Keyed, expires: bool) -> None:
    def add(a: Any, b: Any) -> Any:
        a.extend(b)
        return a

    table = keyed.backend.reducing_table("r", t.PICKLED, ttl(10).build() if expires else None)
    first = table.fold([1, 1], iter([[1], [2]]), add, shared=False)
    assert first == [[1], [1, 2]]
    capture = keyed.backend.capture(1)
    first[1].append("changed by a consumer")
    second = table.fold([1, 1], iter([[3], [4]]), add, shared=False)
    assert second == [[1, 2, 3], [1, 2, 3, 4]]
    second[1].clear()
    assert contents(state_of(capture, "r")) == {1: [1, 2]}
    capture.release()
    assert contents(captured(keyed.backend, "r", 2)) == {1: [1, 2, 3, 4]}


def test_captures_are_read_while_the_task_goes_on(keyed: Keyed) -> None:
    state: Any = keyed.backend.state(ListStateDescriptor("s", int))
    for key in range(2000):
        keyed.at(key)
        state.add(key)
    capture = keyed.backend.capture(1)
    found: list[dict[Any, Any]] = []
    writer = threading.Thread(target=lambda: found.append(contents(state_of(capture, "s"))))
    writer.start()
    for key in range(4000):
        keyed.at(key)
        state.add(-1)
        if key % 3 == 0:
            state.clear()
    writer.join(DEADLINE)
    assert found == [{key: [key] for key in range(2000)}]
    capture.release()


# Incremental


def incremental() -> Keyed:
    return Keyed(BACKENDS["hashmap, incremental"], t.LONG)


def test_only_touched_key_groups_are_handed_over() -> None:
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


def test_a_value_that_can_be_changed_in_place_counts_as_touched_when_read() -> None:
    keyed = incremental()
    state: Any = keyed.backend.state(ValueStateDescriptor("s", list[int]))
    keyed.at(1)
    state.update([1])
    keyed.backend.capture(1, incremental=True).release()
    keyed.backend.confirm(1)
    state.value().append(2)
    table = keyed.backend.capture(2, incremental=True).states[0]
    assert contents(table) == {1: [1, 2]}


def test_key_groups_follow_insertions_and_deletions(keyed: Keyed) -> None:
    state: Any = keyed.backend.state(ValueStateDescriptor("s", int))

    def check() -> None:
        capture = keyed.backend.capture(1)
        rows = capture.states[0].rows()
        assert rows.key_groups.tolist() == [key_group_of(key, GROUPS) for key in rows.keys]
        capture.release()

    check()
    for step in range(6):
        for key in range(step * 10, step * 10 + 15):
            keyed.at(key)
            state.update(1) if (key + step) % 4 else state.clear()
        check()
