"""Captures: consistent whatever happens to the live state afterwards, and restored to the same state."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, make_dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import ModuleType
from typing import Any

import pytest
from state_rig import (
    AGGREGATING,
    BACKENDS,
    GROUPS,
    LIST,
    MAP,
    REDUCING,
    VALUE,
    Average,
    DecodedState,
    Keyed,
    Kind,
    captured,
    changes_do_not_show,
    contents,
    decoded,
    fresh,
    state_of,
    stored_table,
    ttl,
    whole,
)
from waiting import DEADLINE

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.records.handover import Handover
from millstream.core.row import Row
from millstream.core.snapshot.metadata.model import StateKind, TtlSettings
from millstream.core.snapshot.tables.restore import Rows
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.taskmanager.worker.checkpointing.restoring import ReadFile, StoredState
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration


@dataclass
class Basket:
    items: list[str]
    total: float = 0.0


@dataclass
class Point:
    x: int
    y: int = 7


OldPoint = make_dataclass("Point", [("x", int)])

KINDS = [
    VALUE, MAP, REDUCING, AGGREGATING,
    replace(VALUE, describe=lambda: ValueStateDescriptor("s", t.PICKLED), write=lambda s, n: s.update([n])),
    replace(
        VALUE, describe=lambda: ValueStateDescriptor("s", Basket), write=lambda s, n: s.update(Basket([str(n)], n))
    ),
    replace(LIST, describe=lambda: ListStateDescriptor("s", tuple[int, str]), write=lambda s, n: s.add((n, "x"))),
    replace(MAP, describe=lambda: MapStateDescriptor("s", str, int), write=lambda s, n: s.put(str(n), n)),
]  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[None, 1000], ids=["forever", "for a while"])
def config(request: pytest.FixtureRequest) -> StateTtlConfig.Builder | None:
    return request.param and ttl(request.param)


def test_state_is_restored_at_another_parallelism(keyed: Keyed, kind: Kind, config: Any) -> None:
    keyed = Keyed(keyed.make, t.TupleType((t.STRING, t.LONG)))
    state = keyed.backend.state(kind.descriptor(config))
    keys = [(f"k{n % 5}", n) for n in range(40)]
    for key in keys:
        for n in (key[1], key[1] + 1):
            keyed.at(key)
            kind.write(state, n)
    before = {key: kind.read(state) for key in keys if keyed.at(key)}
    part = decoded(captured(keyed.backend, "s"))
    for ranges in ([range(GROUPS)], [range(5), range(5, GROUPS)]):
        found: dict[Any, Any] = {}
        for owned in ranges:
            other = keyed.again(owned)
            other.backend.restore([part])
            again = other.backend.state(kind.descriptor(config))
            for key in keys:
                if key_group_of(key, GROUPS) in owned:
                    found[key] = kind.read(again) if other.at(key) else None
                elif other.at(key):
                    assert not kind.read(again)
        assert found == before


@pytest.mark.parametrize(("stored", "now"), [("hashmap", "bytes"), ("bytes", "hashmap, incremental")])
def test_state_of_one_backend_is_restored_in_another(stored: str, now: str, kind: Kind, config: Any) -> None:
    before, after = (Keyed(BACKENDS[name], t.DOUBLE) for name in (stored, now))
    for key in (0.0, 1.0, 2.5):
        kind.write(before.at(key).backend.state(kind.descriptor(config)), int(key) + 1)
    after.backend.restore([decoded(captured(before.backend, "s"))])
    for key in (0, 1.0, 2.5, 3.5):
        had, has = (kind.read(owner.at(key).backend.state(kind.descriptor(config))) for owner in (before, after))
        assert has == had
        assert bool(has) == (key != 3.5)


@dataclass(frozen=True)
class Window:
    start: int
    end: int


def test_namespaces_are_restored(keyed: Keyed, kind: Kind, config: Any) -> None:
    def windowed(owner: Keyed) -> Any:
        return owner.backend.state(kind.descriptor(config), t.DataclassType(Window))

    def values_of(state: Any, owner: Keyed) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for place in places:
            owner.at(place[0])
            state.set_namespace(place[1])
            if kind.read(state):
                found[place] = kind.read(state)
        return found

    keyed = Keyed(keyed.make, t.STRING)
    places = [(key, Window(start, start + 5)) for key in ("a", "b", "c") for start in (0, 5, 10)]
    state = windowed(keyed)
    for number, (key, window) in enumerate(places):
        keyed.at(key)
        state.set_namespace(window)
        kind.write(state, number + 1)
        kind.write(state, number + 2)
    state.clear()
    before = values_of(state, keyed)
    assert len(before) == len(places) - 1
    part = decoded(captured(keyed.backend, "s"))
    found: dict[Any, Any] = {}
    for owned in (range(5), range(5, GROUPS)):
        other = keyed.again(owned)
        other.backend.restore([part])
        found |= values_of(windowed(other), other)
    assert found == before


class Color(Enum):
    RED = "red"
    BLUE = 2


NAN = float("nan")
SUMMER = datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=2)))
KEYS: list[Any] = [
    (t.LONG, [0, -1, 1 << 62, -(1 << 63)]),
    (t.INT, [0, 7, -7]),
    (t.BIG_INT, [0, 1 << 80, -(1 << 80)]),
    (t.BOOLEAN, [True, False]),
    (t.DOUBLE, [0.0, 1.5, -1.5, 1e300, float("inf"), float("-inf"), NAN]),
    (t.STRING, ["", "a", "é", "e\u0301", "𝄞"]),
    (t.BYTES, [b"", b"\x00", b"\xff" * 20, b"\xff" * 21]),
    (t.BIG_DEC, [Decimal("1"), Decimal("1.10"), Decimal("1e-30"), Decimal("-0.5")]),
    (t.TIMESTAMP, [datetime(2024, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    (t.TIMESTAMP, [SUMMER, SUMMER + timedelta(microseconds=1)]),
    (t.DATE, [date(1970, 1, 1), date(1, 1, 1)]),
    (t.TIME, [time(0), time(23, 59, 59, 999999)]),
    (t.TupleType((t.STRING, t.LONG)), [("a", 1), ("a", 2), ("", 0)]),
    (t.TupleType((t.TupleType((t.LONG, t.STRING)), t.DOUBLE)), [((1, "x"), 0.5), ((1, "y"), 0.5)]),
    (t.RowType((t.STRING, t.LONG), ("name", "id")), [Row(name="a", id=1), Row(name="b", id=1)]),
    (t.DataclassType(Window), [Window(0, 5), Window(5, 10)]),
    (t.PICKLED, [Color.RED, Color.BLUE, "red", 2, None, Window(0, 5), (None, "a"), 1 << 70]),
]


@pytest.mark.parametrize(("key_type", "keys"), KEYS)
def test_keys_are_restored(keyed: Keyed, key_type: t.TypeInformation, keys: list[Any]) -> None:
    def again(key: Any) -> Any:
        return pickle.loads(pickle.dumps(key))  # another object, as each record's key is

    keyed = Keyed(keyed.make, key_type)
    state: Any = keyed.backend.state(ValueStateDescriptor("s", int))
    for number, key in enumerate(keys):
        for _ in range(2):
            keyed.at(again(key))
            state.update((state.value() or 0) + number + 1)
    expected = [2 * number + 2 for number in range(len(keys))]
    assert [keyed.at(again(key)) and state.value() for key in keys] == expected
    capture = captured(keyed.backend, "s")
    groups = {key_group_of(key, GROUPS): 0 for key in keys}
    assert set(whole(capture)["key_group"].to_pylist()) == groups.keys()
    part = decoded(capture)
    found: list[int] = [0] * len(keys)
    for owned in (range(7), range(7, GROUPS)):
        other = keyed.again(owned)
        other.backend.restore([part])
        restored: Any = other.backend.state(ValueStateDescriptor("s", int))
        for number, key in enumerate(keys):
            other.at(again(key))
            found[number] += restored.value() or 0
    assert found == expected


def test_none_is_restored(keyed: Keyed) -> None:
    keyed = Keyed(keyed.make, t.STRING)
    listed: Any = keyed.at("k").backend.state(ListStateDescriptor("l", int))
    mapped: Any = keyed.backend.state(MapStateDescriptor("m", str, int))
    keyed.backend.state(ValueStateDescriptor("empty", str)).update("")  # type: ignore[attr-defined]  # a value state
    listed.update([None, 1, None])
    mapped.put_all({"a": None, "": 1})
    keyed.at(None)
    listed.add(2)
    other = keyed.again()
    other.backend.restore([decoded(captured(keyed.backend, name)) for name in ("l", "m", "empty")])
    again: Any = other.at("k").backend.state(ListStateDescriptor("l", int))
    assert again.get() == [None, 1, None]
    assert dict(other.backend.state(MapStateDescriptor("m", str, int)).items()) == {"a": None, "": 1}  # type: ignore[attr-defined]
    assert other.backend.state(ValueStateDescriptor("empty", str)).value() == ""  # type: ignore[attr-defined]
    other.at(None)
    assert again.get() == [2]


def test_a_restored_list_keeps_its_order_and_deadlines(keyed: Keyed) -> None:
    state: Any = keyed.backend.state(LIST.descriptor(ttl(10)))
    for n in (3, 1, 2):
        keyed.at("k")
        state.add(n)
        keyed.clock.advance(4)
    part = decoded(captured(keyed.backend, "s"))
    columns = {name: getattr(part.decoded, name) for name in Rows.__struct_fields__}
    shuffled = Rows(**{name: [rows[i] for i in (2, 0, 1)] if rows else rows for name, rows in columns.items()})
    other = keyed.again()
    other.backend.restore([DecodedState(part.declaration, shuffled)])
    again: Any = other.at("k").backend.state(LIST.descriptor(ttl(10)))
    assert again.get() == [1, 2]


def test_state_that_gets_or_loses_a_time_to_live(keyed: Keyed) -> None:
    plain: Any = keyed.at(1).backend.state(ValueStateDescriptor("s", int))
    plain.update(5)
    part = decoded(captured(keyed.backend, "s"))
    other = keyed.again()
    other.backend.restore([part])
    state: Any = other.at(1).backend.state(VALUE.descriptor(ttl(10)))
    assert state.value() == 5
    third = keyed.again()
    third.backend.restore([decoded(captured(other.backend, "s"))])
    keyed.clock.advance(11)
    assert state.value() is None
    lasting: Any = third.at(1).backend.state(ValueStateDescriptor("s", int))
    assert lasting.value() == 5


@pytest.mark.parametrize(("seconds", "alive_after"), [(4, 0), (30, 25)])
@pytest.mark.parametrize("kind", [VALUE, LIST, replace(MAP, read=lambda s: s.get(1))])
def test_a_changed_time_to_live_applies_to_stored_values(
    keyed: Keyed, kind: Kind, seconds: int, alive_after: int
) -> None:
    kind.write(keyed.at(1).backend.state(kind.descriptor(ttl(10))), 1)
    part = decoded(captured(keyed.backend, "s"))
    keyed.clock.advance(4)
    other = keyed.again()
    other.backend.restore([part])
    state = other.at(1).backend.state(kind.descriptor(ttl(seconds)))
    keyed.clock.advance(alive_after)
    assert bool(kind.read(state)) == bool(alive_after)
    keyed.clock.advance(1)
    assert not kind.read(state)


def test_unrequested_state_is_kept(keyed: Keyed) -> None:
    old: Any = keyed.at("a").backend.state(MapStateDescriptor("old", str, int))
    old.put("x", 1)
    other = keyed.again()
    requested: list[StateTypes | None] = []

    class Part(DecodedState):
        def rows(self, declared: StateTypes | None) -> Iterator[Rows]:
            requested.append(declared)
            return super().rows(declared)

    part = decoded(captured(keyed.backend, "old"))
    other.backend.restore([Part(part.declaration, part.decoded)])
    other.backend.state(ValueStateDescriptor("new", int))
    assert requested == []
    kept = captured(other.backend, "old")
    assert requested == [None]
    assert contents(kept) == {"a": {"x": 1}}
    assert kept.declaration == part.declaration


@pytest.mark.parametrize(
    ("descriptor", "write"),
    [
        (ValueStateDescriptor("s", t.PICKLED), lambda s, value: s.update(value)),
        (ValueStateDescriptor("s", t.TupleType((t.LONG, t.PICKLED))), lambda s, value: s.update((1, value))),
        (ListStateDescriptor("s", t.PICKLED), lambda s, value: s.update([value, 1])),
        (MapStateDescriptor("s", t.PICKLED, t.PICKLED), lambda s, value: s.put("x", value)),
    ],
)
def test_unrequested_state_is_kept_when_its_class_is_missing(
    keyed: Keyed, descriptor: Any, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = Keyed(keyed.make, t.PICKLED)
    with monkeypatch.context() as patch:
        module = ModuleType("gone")
        patch.setitem(sys.modules, "gone", module)
        module.Removed = type("Removed", (), {"__module__": "gone"})  # type: ignore[attr-defined]
        state = keyed.at(("a", 1)).backend.state(descriptor)
        write(state, module.Removed())
        table = captured(keyed.backend, "s")
        before = whole(table)
    other = keyed.again()
    described = table.declaration.types.snapshot("s", table.declaration.kind)
    other.backend.restore([StoredState(described, (ReadFile("file", before),))])
    kept = captured(other.backend, "s")
    assert whole(kept).equals(before)


@pytest.mark.parametrize("config", [None, ttl().cleanup_incrementally(5, True)])
def test_kept_state_can_be_requested_later(keyed: Keyed, config: Any) -> None:
    """Captured before the first record whose function requests it: its class, with a new field, is only known then."""
    old, new = (replace(VALUE, describe=lambda c=c: ValueStateDescriptor("s", c)) for c in (OldPoint, Point))
    state: Any = keyed.at("a").backend.state(old.descriptor(config))
    state.update(OldPoint(1))
    arrow, described = stored_table(captured(keyed.backend, "s"))
    other = keyed.again()
    other.backend.restore([StoredState(described, (ReadFile("file", arrow),))])
    for number in (2, 3):
        kept = captured(other.backend, "s", number)
        assert contents(kept) == {"a": Row(x=1)}
        kept.release()
    late: Any = other.at("a").backend.state(new.descriptor(config))
    assert late.value() == Point(1, 7)
    late.update(Point(2, 3))
    assert contents(captured(other.backend, "s", 4)) == {"a": Point(2, 3)}


def test_declarations_are_complete(keyed: Keyed) -> None:
    descriptor = MapStateDescriptor("m", str, tuple[int, float])
    descriptor.enable_time_to_live(ttl(3).build())
    keyed.backend.state(descriptor, t.LONG)
    declared = captured(keyed.backend, "m").declaration
    pair = t.TupleType((t.LONG, t.DOUBLE))
    assert declared == StateDeclaration(
        "m", StateKind.MAP, StateTypes(t.PICKLED, pair, t.LONG, t.STRING), TtlSettings(3000)
    )


# Consistency


def changes() -> list[Any]:
    def of_a_value(change: Any) -> Any:
        return lambda state: state.update(change(state.value()))

    def of_a_list(state: Any) -> None:
        elements = state.get()
        elements[0].append(3)
        state.update(elements)

    def of_a_map(state: Any) -> None:
        found = dict(state.items())
        found[1].append(2)
        state.put_all(found)

    return [
        (ValueStateDescriptor("s", t.PICKLED), lambda s: s.update({"a": [1]}), of_a_value(changed(lambda v: v["a"]))),
        (ValueStateDescriptor("s", Basket), lambda s: s.update(Basket(["x"])), of_a_value(changed(lambda v: v.items))),
        (ValueStateDescriptor("s", t.PICKLED), lambda s: s.update(([1], 2)), of_a_value(changed(lambda v: v[0]))),
        (ValueStateDescriptor("s", int), lambda s: s.update(1), lambda s: s.update(2)),
        (ValueStateDescriptor("s", int), lambda s: s.update(1), lambda s: s.clear()),
        (ListStateDescriptor("s", int), lambda s: s.update([1, 2]), lambda s: s.add(3)),
        (ListStateDescriptor("s", int), lambda s: s.update([1, 2]), lambda s: s.add_all([3])),
        (ListStateDescriptor("s", list[int]), lambda s: s.update([[1], [2]]), of_a_list),
        (MapStateDescriptor("s", int, int), lambda s: s.put(1, 1), lambda s: s.put(1, 2)),
        (MapStateDescriptor("s", int, int), lambda s: s.put_all({1: 1, 2: 2}), lambda s: s.remove(2)),
        (MapStateDescriptor("s", int, int), lambda s: s.put_all({1: 1, 2: 2}), lambda s: s.put_all({3: 3})),
        (MapStateDescriptor("s", int, list[int]), lambda s: s.put(1, [1]), of_a_map),
        (AggregatingStateDescriptor("s", Average(), list[float]), lambda s: s.add(1), lambda s: s.add(5)),
        (
            ReducingStateDescriptor("s", lambda a, b: a.extend(b) or a, list[int]),
            lambda s: s.add([1]),
            lambda s: s.add([5]),
        ),
    ]


def changed(part: Any) -> Any:
    def change(value: Any) -> Any:
        part(value).append("y")
        return value

    return change


@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize(("descriptor", "write", "change"), changes())
def test_later_changes_do_not_affect_a_capture(
    keyed: Keyed, descriptor: Any, write: Any, change: Any, expires: bool
) -> None:
    changes_do_not_show(keyed, fresh(descriptor, expires), write, change)


def test_deadlines_do_not_change_in_a_capture(keyed: Keyed) -> None:
    listed, mapped = ListStateDescriptor("l", t.PICKLED), MapStateDescriptor("m", int, t.PICKLED)
    for descriptor in (listed, mapped):
        descriptor.enable_time_to_live(ttl(10).update_ttl_on_read_and_write().build())
    lists: Any = keyed.at(1).backend.state(listed)
    maps: Any = keyed.backend.state(mapped)
    lists.update([[1]])
    maps.put_all({1: [1], 2: [2]})
    capture = keyed.backend.capture(1)
    before = [whole(state) for state in capture.states]
    assert [table["expires_at"].to_pylist() for table in before] == [[1_010_000], [1_010_000] * 2]
    keyed.clock.advance(5)
    lists.get()
    lists.add([2])
    maps.get(1)
    maps.put(3, [3])
    maps.remove(2)
    assert [whole(state) for state in capture.states] == before


def test_folding_does_not_affect_a_capture(keyed: Keyed) -> None:
    def add(a: Any, b: Any) -> Any:
        a[0] += b[0]
        return a

    table = keyed.backend.table("r", t.PICKLED)
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

    table = keyed.backend.table("r", t.PICKLED, ttl=ttl(10).build() if expires else None)
    first = table.fold([1, 1], iter([[1], [2]]), add, Handover())
    assert first == [[1], [1, 2]]
    capture = keyed.backend.capture(1)
    first[1].append("changed by a consumer")
    second = table.fold([1, 1], iter([[3], [4]]), add, Handover())
    assert second == [[1, 2, 3], [1, 2, 3, 4]]
    second[1].clear()
    assert contents(state_of(capture, "r")) == {1: [1, 2]}
    capture.release()
    assert contents(captured(keyed.backend, "r", 2)) == {1: [1, 2, 3, 4]}


def test_captures_are_read_while_the_task_continues(keyed: Keyed) -> None:
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


def test_key_groups_follow_insertions_and_deletions(keyed: Keyed) -> None:
    state: Any = keyed.backend.state(ValueStateDescriptor("s", int))

    def check() -> None:
        capture = keyed.backend.capture(1)
        rows = decoded(capture.states[0]).decoded
        assert rows.key_groups == [key_group_of(key, GROUPS) for key in rows.keys]
        capture.release()

    check()
    for step in range(6):
        for key in range(step * 10, step * 10 + 15):
            keyed.at(key)
            state.update(1) if (key + step) % 4 else state.clear()
        check()
