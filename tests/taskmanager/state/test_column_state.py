"""State that an operator keeps as columns: every backend captures it with the others, and restores it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from state_rig import GROUPS, Keyed, contents, state_of, stored_table

from millstream.core.keys.key_groups import key_group_of
from millstream.core.records.types import BOOLEAN, LONG, STRING, TupleType
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.state import StateAccessError
from millstream.taskmanager.worker.state.capturing.captured import RestoredFile, StateDeclaration
from millstream.taskmanager.worker.state.column_state import Freeze, KeyedColumns

SPAN = TupleType((LONG, LONG), ("start", "end"))
TYPES = StateTypes(STRING, LONG, SPAN)


@dataclass(frozen=True)
class StoredColumns:
    """A part of a state whose table is at hand."""

    declaration: StateDeclaration
    table: pa.Table

    def tables(self, declared: StateTypes) -> list[pa.Table]:
        return [self.table]

    def native_files(self, declared: StateTypes | None) -> Iterator[RestoredFile]:
        return iter(())

    def hold(self) -> None:
        """The table is at hand."""


def frozen(keys: list[str], values: Any, map_keys: Any = None) -> Freeze:
    spans = pa.array([{"start": 0, "end": 10}] * len(keys), SPAN.arrow_type())
    return lambda: lambda: KeyedColumns(pa.array(keys), spans, values, map_keys)


def test_columns_are_captured_by_key_group_and_restored(keyed: Keyed) -> None:
    keyed = Keyed(keyed.make, STRING)
    keys = [f"key {number}" for number in range(50)]
    assert keyed.backend.columns("c", TYPES, frozen(keys, pa.array(range(50)))) == []
    state = state_of(keyed.backend.capture(1), "c")
    assert contents(state) == {(key, (0, 10)): number for number, key in enumerate(keys)}
    some = {key_group_of("key 7", GROUPS)}
    assert {key for key, _ in contents(state, some)} == {key for key in keys if key_group_of(key, GROUPS) in some}
    table, _ = stored_table(state)
    restored = keyed.again()
    restored.backend.restore([StoredColumns(state.declaration, table)])
    (given,) = restored.backend.columns("c", TYPES, frozen([], pa.array([], pa.int64())))
    assert given.equals(table)
    assert contents(state_of(restored.backend.capture(1), "c")) == {}


def test_entries_of_maps_are_columns_too(keyed: Keyed) -> None:
    keyed = Keyed(keyed.make, STRING)
    types = StateTypes(STRING, BOOLEAN, SPAN, LONG)
    keyed.backend.columns("m", types, frozen(["a", "a", "b"], [True] * 3, pa.array([1, 2, 1])), StateKind.MAP)
    state = state_of(keyed.backend.capture(1), "m")
    assert contents(state) == {("a", (0, 10)): {1: True, 2: True}, ("b", (0, 10)): {1: True}}


def test_a_capture_keeps_its_contents_until_it_is_released(keyed: Keyed) -> None:
    keyed = Keyed(keyed.make, STRING)
    kept = ["a"]

    def freeze() -> Any:
        keys = list(kept)
        return frozen(keys, pa.array([1] * len(keys)))()

    keyed.backend.columns("c", TYPES, freeze)
    capture = keyed.backend.capture(1)
    kept.append("b")
    assert len(contents(state_of(capture, "c"))) == 1
    assert len(contents(state_of(keyed.backend.capture(2), "c"))) == 2
    capture.release()
    with pytest.raises(RuntimeError, match="released"):
        next(state_of(capture, "c").parts())


def test_a_name_of_columns_belongs_to_one_operator(keyed: Keyed) -> None:
    keyed.backend.columns("c", TYPES, frozen([], []))
    with pytest.raises(StateAccessError, match="state 'c' is declared twice"):
        keyed.backend.columns("c", TYPES, frozen([], []))
