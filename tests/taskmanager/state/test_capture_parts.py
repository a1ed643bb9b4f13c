"""Captures and restores in parts: together these are the whole, whatever their size and whatever happens between."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from state_rig import AGGREGATING, BACKENDS, GROUPS, LIST, MAP, REDUCING, VALUE, Keyed, Kind, contents, state_of, ttl
from state_rig import stored_table as stored
from thoroughness import cases

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.columns import OversizedColumnError
from millstream.core.snapshot.tables.table import StateTypes
from millstream.taskmanager.worker.checkpointing.restoring import ReadFile, StoredState
from millstream.taskmanager.worker.state.capturing import arrow_tables
from millstream.taskmanager.worker.state.capturing.arrow_tables import joined, parts_by_key_group
from millstream.taskmanager.worker.state.capturing.captured import CapturedTable, Work
from millstream.taskmanager.worker.state.capturing.key_group_order import KeyGroupOrder

KINDS = {"value": VALUE, "list": LIST, "map": MAP, "reducing": REDUCING, "aggregating": AGGREGATING}
KEYS = st.integers(0, 40)
WRITES = st.lists(st.tuples(KEYS, st.integers(0, 5)), max_size=60)
SIZES = st.integers(1, 9)


class Taken:
    """The parts of a capture that were taken."""

    def __init__(self, table: CapturedTable, parts: list[pa.Table]) -> None:
        self._table, self._parts = table, parts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def parts(self, key_groups: Collection[int] | None = None, work: Work = nullcontext) -> Iterator[pa.Table]:
        return iter(self._parts)


def small_parts(size: int) -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(arrow_tables, "PART_ROWS", size)
    patch.setattr(arrow_tables, "_FIRST_STEP", max(1, size // 2))
    patch.setattr(arrow_tables, "_STEP", max(1, size // 2))
    return patch


# The order by key group


@settings(max_examples=cases(100))
@given(st.lists(st.integers(0, 9), max_size=80), SIZES, st.sets(st.integers(0, 9)) | st.none())
def test_rows_are_in_the_order_of_their_key_groups(groups: list[int], size: int, wanted: set[int] | None) -> None:
    order = KeyGroupOrder(np.array(groups, np.uint16), 10)
    parts = [part.tolist() for part in order.parts(wanted, size)]
    expected = [n for n in sorted(range(len(groups)), key=groups.__getitem__) if wanted is None or groups[n] in wanted]
    assert [number for part in parts for number in part] == expected
    assert all(part and len(part) <= 3 * size for part in parts)
    for part, following in pairwise(parts):
        whole = groups.count(groups[part[-1]])
        assert groups[part[-1]] != groups[following[0]] or whole > 2 * size
    assert order.count(range(10) if wanted is None else wanted) == len(expected)


@settings(max_examples=cases(50))
@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 20), st.integers(1, 10))
def test_steps_that_are_too_large_are_repeated_with_fewer_rows(groups: list[int], most: int, size: int) -> None:
    def convert(numbers: Any) -> pa.Table:
        if len(numbers) > most:
            raise OversizedColumnError("too much")
        return pa.table({"row": pa.array(numbers, pa.int64())})

    patch = small_parts(size)
    try:
        order = KeyGroupOrder(np.array(groups, np.uint16), 4)
        (table,) = joined(parts_by_key_group(order, None, convert, nullcontext))
    finally:
        patch.undo()
    assert table["row"].to_pylist() == sorted(range(len(groups)), key=groups.__getitem__)


def test_columns_of_other_types_are_not_in_one_part() -> None:
    def convert(numbers: Any) -> pa.Table:
        kind = pa.string() if len(numbers) and numbers[0] >= 2 else pa.int64()
        return pa.table({"row": pa.array(numbers).cast(kind)})

    patch = small_parts(3)
    try:
        order = KeyGroupOrder(np.zeros(4, np.uint16), 1)
        parts = list(parts_by_key_group(order, None, convert, nullcontext))
    finally:
        patch.undo()
    assert [part["row"].to_pylist() for part in joined(parts)] == [[0, 1], ["2", "3"]]


# Captures


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("expires", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_parts_are_the_state_at_the_capture(name: str, expires: bool, backend: str) -> None:
    kind = KINDS[name]

    @settings(max_examples=cases(8))
    @given(WRITES, WRITES, SIZES)
    def check(before: list[tuple[int, int]], between: list[tuple[int, int]], size: int) -> None:
        keyed = Keyed(BACKENDS[backend], t.LONG)
        state = keyed.backend.state(kind.descriptor(ttl(1000) if expires else None))
        write(keyed, state, kind, before)
        whole = contents(state_of(keyed.backend.capture(1), "s"))
        captured = state_of(keyed.backend.capture(2), "s")
        changes = iter(between)
        taken: list[pa.Table] = []
        patch = small_parts(size)
        try:
            for part in captured.parts():
                taken.append(part)
                if (change := next(changes, None)) is not None:
                    keyed.clock.advance(0.001)
                    write(keyed, state, kind, [change])
        finally:
            patch.undo()
        groups = [group for part in taken for group in part["key_group"].to_pylist()]
        assert groups == sorted(groups)
        assert contents(Taken(captured, taken)) == whole  # type: ignore[arg-type]  # as a captured table
        assert captured.entries(range(GROUPS)) >= len(whole)

    check()


def write(keyed: Keyed, state: Any, kind: Kind, changes: list[tuple[int, int]]) -> None:
    """A change with the number 0 removes the entry."""
    for key, number in changes:
        keyed.backend.set_current_key(key)
        if number:
            kind.write(state, number)
        else:
            state.clear()


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_are_the_timers_at_the_capture(backend: str) -> None:
    @settings(max_examples=cases(15))
    @given(WRITES, WRITES, SIZES)
    def check(before: list[tuple[int, int]], between: list[tuple[int, int]], size: int) -> None:
        keyed = Keyed(BACKENDS[backend], t.LONG)
        timers: Any = keyed.backend.timers("t")
        model: set[tuple[int, int, str]] = set()
        for key, time in before:
            domain = "event" if key % 2 else "processing"
            getattr(timers, domain).register_all([time], [key])
            model.add((key, time, domain))
        captured = state_of(keyed.backend.capture(1), "t")
        changes = iter(between)
        taken: list[pa.Table] = []
        patch = small_parts(size)
        try:
            for part in captured.parts():
                taken.append(part)
                for key, time in [*changes][:1]:
                    timers.event.register_all([time], [key + 100])
                    next(timers.event.due(time), None)
                    timers.processing.delete_all([time], [key])
        finally:
            patch.undo()
        rows = [row for part in taken for row in part.to_pylist()]
        assert [row["key_group"] for row in rows] == sorted(key_group_of(row["key"], GROUPS) for row in rows)
        found = [(row["key"], row["timestamp"], row["domain"]) for row in rows]
        assert set(found) == model
        assert len(found) == len(model)

    check()


# Restores


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", KINDS)
def test_a_state_is_restored_from_any_parts_in_any_order(name: str, backend: str) -> None:
    """Other tools may write the rows of a key in any order."""
    kind = KINDS[name]

    @settings(max_examples=cases(8))
    @given(WRITES, SIZES, st.randoms(use_true_random=False))
    def check(written: list[tuple[int, int]], size: int, random: Any) -> None:
        keyed = Keyed(BACKENDS[backend], t.LONG)
        write(keyed, keyed.backend.state(kind.descriptor()), kind, written)
        captured = state_of(keyed.backend.capture(1), "s")
        table, described = stored(captured)
        rows = list(range(table.num_rows))
        random.shuffle(rows)
        parts = [table.take(pa.array(rows[n : n + size], pa.int64())) for n in range(0, len(rows), size)]
        other = keyed.again()
        other.backend.restore([StoredState(described, tuple(ReadFile("file", part) for part in parts))])
        other.backend.state(kind.descriptor())
        again = contents(state_of(other.backend.capture(1), "s"))
        assert again == contents(captured)

    check()


def test_only_what_is_not_requested_is_read_when_the_functions_are_open() -> None:
    held: list[str] = []

    class Part(StoredState, frozen=True):
        def hold(self) -> None:
            held.append(self.state.name)

    keyed = Keyed(BACKENDS["hashmap"], t.LONG)
    types = StateTypes(t.LONG, t.LONG)
    keyed.backend.restore([Part(types.snapshot(name, StateKind.VALUE), ()) for name in ("s", "other")])
    keyed.backend.state(VALUE.descriptor())
    keyed.backend.hold_restored()
    assert held == ["other"]
