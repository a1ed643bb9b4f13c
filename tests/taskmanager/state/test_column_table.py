"""The suite of tables of columns, which every backend passes: any calls, against a dictionary."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace
from state_rig import BACKENDS, GROUPS, Keyed, state_of, stored_table, ttl, whole

from millstream.core.keys.grouped_columns import GroupedColumn
from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot.errors import IncompatibleStateError
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.table import KEY, KEY_GROUP, StateTypes
from millstream.datastream.state import StateAccessError, StateTtlConfig
from millstream.taskmanager.worker.state.capturing.captured import CapturedTable, StateDeclaration
from millstream.taskmanager.worker.state.column_table import ColumnTable, Named, RowLayout

Contents = dict[tuple[Any, ...], tuple[Any, ...]]
SPAN = (("start", t.LONG), ("end", t.LONG))
SPAN_TYPE = t.TupleType((t.LONG, t.LONG), ("start", "end"))
MOMENT = datetime.datetime(1969, 1, 1, 12, 30, 0, 5)


@dataclass(frozen=True)
class Shape:
    """A layout, its declared types, and values for its columns."""

    layout: RowLayout
    types: StateTypes
    addresses: st.SearchStrategy[tuple[Any, ...]]
    values: st.SearchStrategy[tuple[Any, ...]]
    kind: StateKind = StateKind.AGGREGATING

    def declare(self, keyed: Keyed, config: StateTtlConfig | None = None) -> ColumnTable:
        return keyed.backend.column_table("s", self.types, self.layout, self.kind, config)

    def addresses_of(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        return made(self.layout.address, list(rows), len(self.layout.address))

    def keys_of(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        return made(self.layout.key, [row[: len(self.layout.key)] for row in rows], len(self.layout.key))

    def rows_of(self, rows: Iterable[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> pa.Table:
        named = (*self.layout.address, *self.layout.values)
        return made(named, [(*address, *values) for address, values in rows], len(self.layout.address))

    def contents_of(self, table: pa.Table) -> Contents:
        """Declared values by address; addresses are different."""
        found: Contents = {}
        width = len(self.layout.address)
        columns = [GroupedColumn(kind).decode(table.column(name)).to_pylist() for name, kind in self.layout.address]
        columns += [table.column(name).to_pylist() for name, _ in self.layout.values]
        for row in zip(*columns, strict=True):
            assert plain(row[:width]) not in found
            found[plain(row[:width])] = row[width:]
        return found


def made(named: Sequence[Named], rows: list[tuple[Any, ...]], grouped: int) -> pa.Table:
    columns = {}
    for number, (name, kind) in enumerate(named):
        column = pa.array([row[number] for row in rows], kind.arrow_type())
        columns[name] = GroupedColumn(kind).encode(column) if number < grouped else column
    return pa.table(columns)


def plain(address: tuple[Any, ...]) -> tuple[Any, ...]:
    """Equal for equal addresses, among which all NaN are."""
    return tuple("nan" if value != value else tuple(value) if isinstance(value, list) else value for value in address)


NUMBERS = st.none() | st.integers(-4, 4)
TEXTS = st.none() | st.text("aä\0", max_size=2)
SHAPES = {
    "integer keys": Shape(
        RowLayout((("k", t.LONG),), (("count", t.LONG), ("name", t.STRING), ("price", t.BIG_DEC), ("at", t.TIMESTAMP))),
        StateTypes(
            t.LONG, t.TupleType((t.LONG, t.STRING, t.BIG_DEC, t.TIMESTAMP), ("count", "name", "price", "at"))
        ),
        st.tuples(NUMBERS | st.sampled_from([2**63 - 1, -(2**63)])),
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1), TEXTS,
            st.sampled_from([None, Decimal("-1.5"), Decimal("0E-18"), Decimal("1e19")]),
            st.sampled_from([None, MOMENT]),
        ),
    ),
    "dates": Shape(
        RowLayout((("k", t.DATE),), (("yes", t.BOOLEAN), ("bytes", t.BYTES))),
        StateTypes(t.DATE, t.TupleType((t.BOOLEAN, t.BYTES), ("yes", "bytes"))),
        st.tuples(st.dates(datetime.date(1969, 12, 28), datetime.date(1970, 1, 4))),
        st.tuples(st.none() | st.booleans(), st.none() | st.binary(max_size=2)),
    ),
    "composite keys, windows": Shape(
        RowLayout((("a", t.STRING), ("b", t.DOUBLE)), (("sum", t.DOUBLE),), SPAN),
        StateTypes(t.TupleType((t.STRING, t.DOUBLE)), t.TupleType((t.DOUBLE,), ("sum",)), SPAN_TYPE),
        st.tuples(
            TEXTS, st.sampled_from([None, 0.0, -0.0, 1.5, float("nan")]), st.integers(0, 2), st.integers(2, 3)
        ),
        st.tuples(st.none() | st.floats(allow_nan=False)),
    ),
    "maps of lists": Shape(
        RowLayout((("k", t.STRING),), (("v", t.ListType(t.LONG)),), sub_key=("n", t.LONG)),
        StateTypes(t.STRING, t.ListType(t.LONG), None, t.LONG),
        st.tuples(TEXTS, st.integers(-2, 40)),
        st.tuples(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)),
        StateKind.MAP,
    ),
    "windows of maps of nested keys": Shape(
        RowLayout(
            (("k", t.ListType(t.LONG)),), (("v", t.BOOLEAN),), SPAN, sub_key=("n", t.BIG_DEC)
        ),
        StateTypes(t.ListType(t.LONG), t.BOOLEAN, SPAN_TYPE, t.BIG_DEC),
        st.tuples(
            st.lists(st.integers(0, 2), max_size=2), st.integers(0, 1), st.just(1),
            st.sampled_from([Decimal("0E-18"), Decimal("1.500000000000000000")]),
        ),
        st.tuples(st.booleans()),
        StateKind.MAP,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class StoredPart:
    """A part of a state whose table is at hand."""

    declaration: StateDeclaration
    table: pa.Table

    def tables(self, declared: StateTypes) -> list[pa.Table]:
        return [self.table]

    def native_files(self, declared: StateTypes | None) -> tuple[()]:
        return ()

    def hold(self) -> None:
        pass


def restored(keyed: Keyed, shape: Shape, state: CapturedTable, config: StateTtlConfig | None = None) -> ColumnTable:
    """The table of another backend of this subtask, from the files of all of them."""
    keyed.backend.restore([StoredPart(state.declaration, stored_table(state)[0])])
    return shape.declare(keyed, config)


def everything(shape: Shape, table: ColumnTable, key_groups: range | None = None) -> Contents:
    return shape.contents_of(pa.concat_tables([shape.rows_of([]), *table.scan(key_groups)]))


def machine(keyed: Keyed, shape: Shape, config: StateTtlConfig | None) -> type[RuleBasedStateMachine]:
    lives = None if config is None else config.ttl_ms

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.keyed = keyed.again()
            self.table = shape.declare(self.keyed, config)
            self.model: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] = {}
            self.captures: list[tuple[Any, dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]]]] = []
            self.number = 0

        def alive(self, model: dict[tuple[Any, ...], tuple[int, tuple[Any, ...]]] | None = None) -> Contents:
            now, model = self.keyed.clock.now_ms(), self.model if model is None else model
            return {at: values for at, (deadline, values) in model.items() if deadline > now}

        @rule(rows=st.lists(st.tuples(shape.addresses, shape.values), max_size=30))
        def put(self, rows: list[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> None:
            self.table.put(shape.rows_of(rows))
            deadline = 1 << 62 if lives is None else self.keyed.clock.now_ms() + lives
            self.model.update({plain(address): (deadline, values) for address, values in rows})

        @rule(addresses=st.lists(shape.addresses, max_size=20))
        def find(self, addresses: list[tuple[Any, ...]]) -> None:
            there, values = self.table.find(shape.addresses_of(addresses))
            alive = self.alive()
            assert there.tolist() == [plain(address) in alive for address in addresses]
            empty = (None,) * len(shape.layout.values)
            found = list(zip(*(column.to_pylist() for column in values.columns), strict=True))
            assert found == [alive.get(plain(address), empty) for address in addresses]

        @rule(addresses=st.lists(shape.addresses, max_size=10))
        def of_keys(self, addresses: list[tuple[Any, ...]]) -> None:
            width = len(shape.layout.key)
            keys = {plain(address[:width]) for address in addresses}
            found = shape.contents_of(self.table.of_keys(shape.keys_of(addresses)))
            assert found == {at: values for at, values in self.alive().items() if at[:width] in keys}

        @rule(addresses=st.lists(shape.addresses, max_size=20))
        def remove(self, addresses: list[tuple[Any, ...]]) -> None:
            alive = self.alive()
            removed = self.table.remove(shape.addresses_of(addresses)).tolist()
            assert removed == [alive.pop(plain(address), None) is not None for address in addresses]
            for address in addresses:
                self.model.pop(plain(address), None)

        @rule(incremental=st.booleans())
        def capture(self, incremental: bool) -> None:
            self.number += 1
            self.captures.append((self.keyed.backend.capture(self.number, incremental), dict(self.model)))

        @rule(at=st.integers(0, 5))
        def restore_and_release(self, at: int) -> None:
            if at < len(self.captures):
                capture, captured = self.captures.pop(at)
                state = state_of(capture, "s")
                if state.dirty_groups is None:
                    found: Contents = {}
                    for owned in (range(5), range(5, GROUPS)):
                        one = everything(shape, restored(self.keyed.again(owned), shape, state, config))
                        assert not found.keys() & one.keys()
                        found |= one
                    assert found == self.alive(captured)
                capture.release()

        @rule(start=st.integers(0, GROUPS), count=st.integers(0, GROUPS))
        def scan_some(self, start: int, count: int) -> None:
            groups = range(start, min(GROUPS, start + count))
            width = len(shape.layout.key)
            expected = {at: v for at, v in self.alive().items() if group_of(shape, at[:width]) in groups}
            assert everything(shape, self.table, groups) == expected

        @rule(seconds=st.sampled_from([1, 6]))
        def wait(self, seconds: int) -> None:
            self.keyed.clock.advance(seconds)

        @invariant()
        def has_all(self) -> None:
            assert everything(shape, self.table) == self.alive()
            assert len(self.table) >= len(self.alive())

        def teardown(self) -> None:
            for capture, _ in self.captures:
                capture.release()

    return Machine


def group_of(shape: Shape, key: tuple[Any, ...]) -> int:
    values = [float("nan") if part == "nan" else part for part in key]
    return key_group_of(values[0] if len(values) == 1 else tuple(values), GROUPS)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_it_does_what_a_dictionary_does(keyed: Keyed, shape: Shape) -> None:
    keyed = Keyed(keyed.make, shape.types.key or t.PICKLED)
    run_state_machine_as_test(machine(keyed, shape, None), settings=settings(stateful_step_count=15, max_examples=15))


@pytest.mark.parametrize("swept", [0, 3])
def test_rows_expire(keyed: Keyed, swept: int) -> None:
    shape = SHAPES["maps of lists"]
    builder = ttl(5)
    if swept:
        builder.cleanup_incrementally(swept, False)
    keyed = Keyed(keyed.make, t.STRING)
    test = machine(keyed, shape, builder.build())
    run_state_machine_as_test(test, settings=settings(stateful_step_count=15, max_examples=15))


def test_reading_extends_the_life_of_a_row(keyed: Keyed) -> None:
    shape, config = SHAPES["maps of lists"], ttl(5).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build()
    keyed = Keyed(keyed.make, t.STRING)
    table, addresses = shape.declare(keyed, config), [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    table.put(shape.rows_of((address, ([1],)) for address in addresses))
    keyed.clock.advance(3)
    table.find(shape.addresses_of(addresses[:1]))
    table.of_keys(shape.keys_of(addresses[1:2]))
    table.put(shape.rows_of([(addresses[2], ([2],))]))
    keyed.clock.advance(3)
    assert table.find(shape.addresses_of(addresses))[0].tolist() == [True, True, True, False]


def test_an_expired_row_is_found_once_if_it_may_be(keyed: Keyed) -> None:
    shape = SHAPES["maps of lists"]
    visibility = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    keyed = Keyed(keyed.make, t.STRING)
    table = shape.declare(keyed, ttl(5).set_state_visibility(visibility).build())
    rows = [(("a", 1), ([1],)), (("a", 2), ([2],))]
    table.put(shape.rows_of(rows))
    keyed.clock.advance(6)
    assert shape.contents_of(table.of_keys(shape.keys_of([("a", 1)]))) == dict(rows)
    assert len(table) == 0
    table.put(shape.rows_of(rows[:1]))
    keyed.clock.advance(6)
    assert table.find(shape.addresses_of([("a", 1)]))[1].column("v").to_pylist() == [[1]]
    assert table.find(shape.addresses_of([("a", 1)]))[0].tolist() == [False]


def test_another_time_to_live_applies_from_the_last_write(keyed: Keyed) -> None:
    shape = SHAPES["integer keys"]
    keyed = Keyed(keyed.make, t.LONG)
    table = shape.declare(keyed, ttl(5).build())
    table.put(shape.rows_of([((1,), (1, "", None, None))]))
    state = state_of(keyed.backend.capture(1), "s")
    keyed.clock.advance(6)
    for seconds, there in ((5, False), (7, True)):
        again = restored(keyed.again(), shape, state, ttl(seconds).build())
        assert again.find(shape.addresses_of([(1,)]))[0].tolist() == [there]


def test_a_row_that_had_no_time_to_live_gets_all_of_it(keyed: Keyed) -> None:
    shape = SHAPES["integer keys"]
    keyed = Keyed(keyed.make, t.LONG)
    shape.declare(keyed).put(shape.rows_of([((1,), (1, "", None, None))]))
    keyed.clock.advance(100)
    again = keyed.again()
    table = restored(again, shape, state_of(keyed.backend.capture(1), "s"), ttl(5).build())
    again.clock.advance(4)
    assert table.find(shape.addresses_of([(1,)]))[0].tolist() == [True]
    again.clock.advance(1)
    assert table.find(shape.addresses_of([(1,)]))[0].tolist() == [False]


def test_a_capture_is_ordered_by_key_group_and_of_some(keyed: Keyed) -> None:
    shape = SHAPES["integer keys"]
    keyed = Keyed(keyed.make, t.LONG)
    table = shape.declare(keyed)
    table.put(shape.rows_of(((number,), (number, "x", None, None)) for number in range(500)))
    state = state_of(keyed.backend.capture(1), "s")
    table.remove(shape.addresses_of((number,) for number in range(0, 500, 2)))
    table.put(shape.rows_of(((number,), (-1, "y", None, None)) for number in range(250, 700)))
    for groups in (None, [3, 7], range(2, 9), []):
        stored = whole(state, groups)
        keys, of_keys = stored.column(KEY).to_pylist(), stored.column(KEY_GROUP).to_pylist()
        assert of_keys == sorted(of_keys) == [key_group_of(key, GROUPS) for key in keys]
        in_groups = [group for group in range(GROUPS) if groups is None or group in groups]
        assert state.entries(in_groups) == len(keys)
        assert sorted(keys) == [n for n in range(500) if groups is None or key_group_of(n, GROUPS) in groups]
        assert stored.column("value").combine_chunks().field("count").to_pylist() == keys
    state.release()
    state.release()
    assert everything(shape, table).keys() == {(n,) for n in [*range(1, 250, 2), *range(250, 700)]}


def test_an_incremental_capture_has_the_key_groups_that_were_touched() -> None:
    shape = SHAPES["maps of lists"]
    keyed = Keyed(BACKENDS["hashmap, incremental"], t.STRING)
    table = shape.declare(keyed, ttl(5).set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite).build())
    table.put(shape.rows_of(((f"{number}", 1), ([number],)) for number in range(200)))

    def touched(number: int) -> tuple[int | None, Any]:
        capture = keyed.backend.capture(number, incremental=True)
        state = state_of(capture, "s")
        capture.release()
        keyed.backend.confirm(number)
        return state.base, state.dirty_groups

    assert touched(1) == (None, None)
    assert touched(2) == (1, frozenset())
    table.put(shape.rows_of([(("7", 2), ([1],))]))
    table.remove(shape.addresses_of([("8", 1)]))
    table.of_keys(shape.keys_of([("9", 1)]))
    table.find(shape.addresses_of([("10", 1), ("10", 2)]))
    assert touched(3) == (2, {key_group_of(key, GROUPS) for key in ("7", "8", "9", "10")})


def test_a_value_with_other_columns_is_refused(keyed: Keyed) -> None:
    shape = SHAPES["integer keys"]
    keyed = Keyed(keyed.make, t.LONG)
    shape.declare(keyed).put(shape.rows_of([((1,), (1, "", None, None))]))
    state = state_of(keyed.backend.capture(1), "s")
    fields = ("count", "name", "price", "till")
    types = StateTypes(t.LONG, t.TupleType(tuple(kind for _, kind in shape.layout.values), fields))
    layout = replace(shape.layout, values=tuple(zip(fields, types.value.fields, strict=True)))
    again = keyed.again()
    again.backend.restore([StoredPart(state.declaration, stored_table(state)[0])])
    with pytest.raises(IncompatibleStateError, match="holds count, name, price, at, and the program keeps"):
        again.backend.column_table("s", types, layout)


def test_a_name_belongs_to_one_table(keyed: Keyed) -> None:
    shape = SHAPES["integer keys"]
    shape.declare(keyed)
    with pytest.raises(StateAccessError, match="state 's' is declared twice"):
        shape.declare(keyed)


def test_many_rows_of_many_keys(keyed: Keyed) -> None:
    """More than a part of a scan, in chains of all lengths, with texts whose memory is reused."""
    shape = SHAPES["maps of lists"]
    keyed, counts = Keyed(keyed.make, t.STRING), np.arange(150)
    table = shape.declare(keyed)
    rows = [((f"{key}", sub), ([key],)) for key in counts.tolist() for sub in range(key)]
    for turn in range(3):
        table.put(shape.rows_of((address, ([turn],)) for address, _ in rows))
        removed = table.remove(shape.addresses_of(address for address, _ in rows if address[1] % 3 == turn))
        assert removed.all()
        found = table.of_keys(shape.keys_of([("140", 0), ("2", 0), ("none", 0)]))
        assert found.num_rows == sum(sub % 3 != turn for key in (140, 2) for sub in range(key))
    left = {address: (value,) for address, _ in rows if address[1] % 3 != 2 for value in ([2],)}
    assert everything(shape, table) == left
    assert len(table) == len(left)
    table.remove(shape.addresses_of(left))
    assert (len(table), everything(shape, table)) == (0, {})
