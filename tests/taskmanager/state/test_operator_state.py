"""Operator state, and the contexts of checkpointed functions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from state_rig import BACKENDS, DecodedState, ttl

from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateKind
from millstream.core.snapshot.tables.redistribution import dealt
from millstream.core.snapshot.tables.restore import Rows, check_table, read_rows
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from millstream.datastream.state import (
    KeyedStateStore,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    StateAccessError,
)
from millstream.taskmanager.worker.state.backend import OperatorStateBackend
from millstream.taskmanager.worker.state.capturing.arrow_tables import operator_table
from millstream.taskmanager.worker.state.capturing.captured import CapturedOperatorState, StateDeclaration
from millstream.taskmanager.worker.state.function_state import TaskInitializationContext, TaskSnapshotContext


@pytest.fixture(params=list(BACKENDS))
def make(request: pytest.FixtureRequest) -> Callable[[], OperatorStateBackend]:
    factory = BACKENDS[request.param]
    return lambda: factory().operator_backend("rules")


def parts(capture: CapturedOperatorState) -> list[DecodedState]:
    """Through the tables of the snapshot format and back."""
    result = []
    for declaration, contents in capture.states:
        stored = declaration.types.snapshot(declaration.name, declaration.kind)
        table = check_table(operator_table(declaration, contents), stored, "file")
        result.append(DecodedState(declaration, read_rows(table, stored, declaration.types, unpickle=True)))
    return result


def test_lists_unions_and_broadcast_maps(make: Callable[[], OperatorStateBackend]) -> None:
    backend = make()
    store = backend.store
    offsets = store.get_list_state("offsets", int)
    offsets.update([1, 2])
    offsets.add(3)
    union = store.get_union_list_state(ListStateDescriptor("union", str))
    union.add("x")
    rules = store.get_broadcast_state("rules", str, int)
    rules["a"] = 1
    store.get_list_state("empty", int)
    capture = backend.capture(1)
    kinds = {declaration.name: declaration.kind for declaration, _ in capture.states}
    assert kinds == {
        "offsets": StateKind.OPERATOR_LIST, "union": StateKind.OPERATOR_UNION, "rules": StateKind.BROADCAST,
        "empty": StateKind.OPERATOR_LIST,
    }  # fmt: skip
    offsets.clear()
    rules.put("b", 2)
    assert [contents for _, contents in capture.states] == [[1, 2, 3], ["x"], {"a": 1}, []]
    other = make()
    other.restore(parts(capture))
    assert other.store.get_list_state("offsets", int).get() == [1, 2, 3]
    assert other.store.get_union_list_state("union", str).get() == ["x"]
    assert dict(other.store.get_broadcast_state("rules", str, int).items()) == {"a": 1}
    capture.release()


def test_changes_in_place_do_not_affect_a_capture(make: Callable[[], OperatorStateBackend]) -> None:
    """The buffer of a function is an element of its state, or a value of its map, and is not read from there again."""
    backend = make()
    buffer: dict[str, Any] = {"seen": [1]}
    backend.store.get_list_state("l", t.PICKLED).update([buffer])
    backend.store.get_union_list_state("u", dict[str, list[int]]).update([buffer])
    backend.store.get_broadcast_state("b", str, dict[str, list[int]]).put("a", buffer)
    read: Any = backend.store.get_list_state("read", list[int])
    read.add([1])
    capture = backend.capture(1)
    buffer["seen"].append(2)
    buffer["more"] = []
    read.get()[0].append(2)
    before = {"seen": [1]}
    assert [contents for _, contents in capture.states] == [[before], [before], {"a": before}, [[1]]]
    assert read.get() == [[1, 2]]
    capture.release()
    assert capture.states == []


def test_unrequested_state_is_kept(make: Callable[[], OperatorStateBackend]) -> None:
    backend = make()
    backend.store.get_list_state("old", int).update([1, 2])
    other = make()
    other.restore(parts(backend.capture(1)))
    for number in (2, 3):
        assert [(d.name, contents) for d, contents in other.capture(number).states] == [("old", [1, 2])]
    assert other.store.get_list_state("old", int).get() == [1, 2]


@dataclass
class Account:
    balance: int


def test_kept_state_can_be_requested_later(make: Callable[[], OperatorStateBackend]) -> None:
    backend = make()
    row = StateDeclaration("old", StateKind.OPERATOR_LIST, StateTypes(value=t.RowType((t.LONG,), ("balance",))))
    backend.restore([DecodedState(row, Rows([Account(1)]))])
    backend.capture(1).release()
    state = backend.store.get_list_state("old", Account)
    state.add(Account(2))
    assert [contents for _, contents in backend.capture(2).states] == [[Account(1), Account(2)]]


def test_invalid_requests_are_refused(
    make: Callable[[], OperatorStateBackend], caplog: pytest.LogCaptureFixture
) -> None:
    store = make().store
    store.get_list_state("s", int)
    with pytest.raises(StateAccessError, match="state 's' is declared twice"):
        store.get_union_list_state("s", int)
    short = MapStateDescriptor("m", int, int)
    short.enable_time_to_live(ttl().build())
    with pytest.raises(StateAccessError, match="operator state cannot have a time-to-live"):
        store.get_broadcast_state(short)
    with caplog.at_level(logging.WARNING):
        store.get_list_state("loose")
        store.get_list_state("loose")
    assert len(caplog.records) == 1
    backend = make()
    backend.restore([DecodedState(next(d for d, _ in make_union(make)), Rows([]))])
    with pytest.raises(StateAccessError, match="was stored as operator-union state"):
        backend.store.get_list_state("u", int)


def make_union(make: Callable[[], OperatorStateBackend]) -> Any:
    backend = make()
    backend.store.get_union_list_state("u", int)
    return backend.capture(1).states


class Buffering(CheckpointedFunction):
    """Keeps records until the next checkpoint."""

    state: ListState[int]

    def __init__(self) -> None:
        self.buffer: list[int] = []
        self.restored: tuple[bool, int | None] | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state("buffer", int)
        self.restored = (context.is_restored(), context.get_restored_checkpoint_id())
        self.buffer = self.state.get()
        with pytest.raises(StateAccessError, match="requires a keyed stream"):
            context.get_keyed_state_store().get_state("x", int)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update([*self.buffer, context.get_checkpoint_id(), context.get_checkpoint_timestamp()])


def test_checkpointed_functions_over_a_rescale(make: Callable[[], OperatorStateBackend]) -> None:
    contents = []
    for subtask in range(2):
        backend, function = make(), Buffering()
        function.initialize_state(TaskInitializationContext(backend.store, KeyedStateStore()))
        assert function.restored == (False, None)
        function.buffer += [subtask * 10, subtask * 10 + 1]
        function.snapshot_state(TaskSnapshotContext(7, 99))
        contents.append(backend.capture(7).states[0])
    declaration = contents[0][0]
    found = []
    everything = [element for _, elements in contents for element in elements]
    for subtask in range(3):
        elements = dealt(everything, subtask, 3)
        backend, function = make(), Buffering()
        backend.restore([DecodedState(declaration, Rows(elements))])
        function.initialize_state(TaskInitializationContext(backend.store, KeyedStateStore(), 7))
        assert function.restored == (True, 7)
        found.append(function.buffer)
    assert sorted(element for part in found for element in part) == [0, 1, 7, 7, 10, 11, 99, 99]
