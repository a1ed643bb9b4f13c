"""The backends of the conformance suite, and small functions to use them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pyarrow as pa
from bytes_backend import BytesStateBackend
from msgspec.structs import replace

from millstream.core.clock import ManualClock
from millstream.core.records import types as t
from millstream.core.snapshot.metadata.model import StateKind, StateSnapshot
from millstream.core.snapshot.tables.restore import Rows, check_table, read_rows
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.functions import AggregateFunction
from millstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from millstream.taskmanager.worker.state.backend import KeyedStateBackend, StateBackend
from millstream.taskmanager.worker.state.capturing.arrow_tables import joined
from millstream.taskmanager.worker.state.capturing.captured import (
    CapturedKeyedState,
    CapturedTable,
    RestoredFile,
    StateDeclaration,
)
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex

GROUPS = 16

BACKENDS: dict[str, Callable[[], StateBackend]] = {
    "hashmap": HashMapStateBackend,
    "hashmap, incremental": lambda: HashMapStateBackend(incremental=True),
    "bytes": BytesStateBackend,
}


@dataclass
class Keyed:
    """A keyed backend and its clock."""

    make: Callable[[], StateBackend]
    key_type: t.TypeInformation = t.PICKLED
    owned: range = range(GROUPS)
    clock: ManualClock = field(default_factory=lambda: ManualClock(1_000_000))

    def __post_init__(self) -> None:
        self.backend: KeyedStateBackend = self.make().keyed_backend(
            "counter", self.key_type, KeyGroupIndex(GROUPS, self.owned), self.clock
        )

    def at(self, key: Any) -> Keyed:
        self.backend.set_current_key(key)
        return self

    def again(self, owned: range | None = None) -> Keyed:
        """Another empty one of the kind, with the same clock."""
        return Keyed(self.make, self.key_type, self.owned if owned is None else owned, self.clock)


@dataclass(frozen=True, slots=True)
class DecodedState:
    """A part of a state whose rows are in memory."""

    declaration: StateDeclaration
    decoded: Rows

    def rows(self, declared: StateTypes | None) -> Iterator[Rows]:
        """The rows, unconverted."""
        return iter([self.decoded])

    def native_files(self, declared: StateTypes | None) -> Iterator[RestoredFile]:
        """None: everything is in rows."""
        return iter(())

    def hold(self) -> None:
        """Everything is in memory."""


class Average(AggregateFunction):
    """An average whose accumulator is a list, modified in place."""

    def create_accumulator(self) -> list[float]:
        return [0, 0]

    def add(self, value: float, accumulator: list[float]) -> list[float]:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: list[float]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc1: list[float], acc2: list[float]) -> list[float]:
        return [acc1[0] + acc2[0], acc1[1] + acc2[1]]


def fresh(descriptor: StateDescriptor, expires: bool) -> StateDescriptor:
    """A new descriptor like it, with or without a time-to-live."""
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


@dataclass(frozen=True)
class Kind:
    """A kind of state: how it is declared, how a number is written to it, and how it is read."""

    describe: Callable[[], StateDescriptor]
    write: Callable[[Any, int], Any]
    read: Callable[[Any], Any]

    def descriptor(self, config: StateTtlConfig.Builder | None = None) -> Any:
        """With a time-to-live, if given."""
        made = self.describe()
        if config is not None:
            made.enable_time_to_live(config.build())
        return made


VALUE = Kind(lambda: ValueStateDescriptor("s", int), lambda s, n: s.update(n), lambda s: s.value())
LIST = Kind(lambda: ListStateDescriptor("s", int), lambda s, n: s.add(n), lambda s: s.get())
MAP = Kind(lambda: MapStateDescriptor("s", int, int), lambda s, n: s.put(n, n), lambda s: s.items())
REDUCING = Kind(lambda: ReducingStateDescriptor("s", lambda a, b: a + b, int), lambda s, n: s.add(n), lambda s: s.get())
AGGREGATING = Kind(
    lambda: AggregatingStateDescriptor("s", Average(), list[float]), lambda s, n: s.add(n), lambda s: s.get()
)


def ttl(seconds: float = 10) -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(timedelta(seconds=seconds))


def captured(backend: KeyedStateBackend, name: str, checkpoint_id: int = 1) -> CapturedTable:
    return state_of(backend.capture(checkpoint_id), name)


def state_of(capture: CapturedKeyedState, name: str) -> CapturedTable:
    return next(state for state in capture.states if state.declaration.name == name)


def contents(table: CapturedTable, key_groups: Collection[int] | None = None) -> dict[Any, Any]:
    """The contents of each key, or key and namespace."""
    rows, declaration = decoded(table, key_groups).decoded, table.declaration
    owners = list(zip(rows.keys, rows.namespaces, strict=True)) if declaration.namespaced else rows.keys
    found: dict[Any, Any] = {}
    for number, owner in enumerate(owners):
        match declaration.kind:
            case StateKind.LIST:
                elements = found.setdefault(owner, [])
                assert rows.detail[number] == len(elements)
                elements.append(rows.content[number])
            case StateKind.MAP:
                found.setdefault(owner, {})[rows.detail[number]] = rows.content[number]
            case _:
                found[owner] = rows.content[number]
    return found


def decoded(table: CapturedTable, key_groups: Collection[int] | None = None) -> DecodedState:
    """Through the table of the snapshot format and back, as a restore does."""
    checked, stored = stored_table(table, key_groups)
    return DecodedState(table.declaration, read_rows(checked, stored, table.declaration.types, unpickle=True))


def whole(table: CapturedTable, key_groups: Collection[int] | None = None) -> pa.Table:
    """All parts as one table."""
    (joined_parts,) = joined(table.parts(key_groups))
    return joined_parts


def stored_table(table: CapturedTable, key_groups: Collection[int] | None = None) -> tuple[pa.Table, StateSnapshot]:
    """As a file holds it, and as the metadata describes it."""
    declaration = table.declaration
    stored = replace(declaration.types.snapshot(declaration.name, declaration.kind), ttl=declaration.ttl)
    return check_table(whole(table, key_groups), stored, "file"), stored


def changes_do_not_show(keyed: Keyed, descriptor: StateDescriptor, write: Any, change: Any) -> None:
    """Captures are unaffected by changes of the state or of the other capture."""
    state = keyed.at("k").backend.state(descriptor)
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
