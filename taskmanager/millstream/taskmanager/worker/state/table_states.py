"""State objects over any table: they access the entry of the current key, or of key and namespace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millstream.core.overriding import override
from millstream.datastream.state import AggregatingState, ListState, ReducingState, State, ValueState
from millstream.datastream.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from millstream.taskmanager.worker.state.address import AnyAddress, NamespacedAddress
from millstream.taskmanager.worker.state.table import MISSING, StateTable, ValueTable


def state_object(table: StateTable, address: AnyAddress, descriptor: StateDescriptor) -> State:
    """The state object of a table for a function."""
    match descriptor:
        case ListStateDescriptor():
            return table.list_state(address)
        case MapStateDescriptor():
            return table.map_state(address)
    return single_value(table, address, descriptor)


def single_value(table: ValueTable, address: AnyAddress, descriptor: StateDescriptor) -> State:
    """The same for the kinds of state with one value per entry."""
    match descriptor:
        case ReducingStateDescriptor():
            return TableReducingState(table, address, descriptor)
        case AggregatingStateDescriptor():
            return TableAggregatingState(table, address, descriptor)
    return TableValueState(table, address)


class AddressedState(State):
    """Accesses the entry of an address."""

    def __init__(self, address: AnyAddress) -> None:
        self._at = address

    def set_namespace(self, namespace: Any) -> None:
        """Sets the current namespace; only for state that was requested with a type of namespaces."""
        assert isinstance(self._at, NamespacedAddress)
        self._at.namespace = namespace

    def _entries(self, namespaces: Iterable[Any]) -> list[Any]:
        assert isinstance(self._at, NamespacedAddress)
        return list(map(self._at.entry, namespaces))


class TableState(AddressedState):
    """A table, and the address of the current entry."""

    def __init__(self, table: ValueTable, address: AnyAddress) -> None:
        super().__init__(address)
        self._values = table

    @override
    def clear(self) -> None:
        self._values.remove(self._at.key)


class TableValueState(TableState, ValueState[Any]):
    """One value."""

    @override
    def value(self) -> Any:
        value = self._values.get(self._at.key)
        return None if value is MISSING else value

    def update(self, value: Any) -> None:
        """Replaces the value; None removes it."""
        if value is None:
            self.clear()
        else:
            self._values.put(self._at.key, value)


class MergingTableState(TableState):
    """State with values that can be merged."""

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges the current key's values in some namespaces into its value in the target, in their order."""
        merged = MISSING
        for entry in self._entries(sources):
            merged = self._both(merged, self._values.get(entry))
            self._values.remove(entry)
        (entry,) = self._entries([target])
        if merged is not MISSING:
            self._values.put(entry, self._both(self._values.get(entry), merged))

    def _both(self, first: Any, second: Any) -> Any:
        if first is MISSING or second is MISSING:
            return second if first is MISSING else first
        return self._combined(first, second)

    def _combined(self, first: Any, second: Any) -> Any:
        raise NotImplementedError


class TableReducingState(MergingTableState, ReducingState[Any]):
    """One value, combined with each that is added."""

    def __init__(self, table: ValueTable, address: AnyAddress, descriptor: ReducingStateDescriptor) -> None:
        super().__init__(table, address)
        self._reduce = descriptor.reduce

    @override
    def get(self) -> Any:
        value = self._values.get(self._at.key)
        return None if value is MISSING else value

    def add(self, value: Any) -> None:
        """Combines a value with the current one."""
        entry = self._at.key
        before = self._values.get(entry)
        self._values.put(entry, value if before is MISSING else self._reduce(before, value))

    def _combined(self, first: Any, second: Any) -> Any:
        return self._reduce(first, second)


class TableAggregatingState(MergingTableState, AggregatingState[Any, Any]):
    """An accumulator."""

    def __init__(self, table: ValueTable, address: AnyAddress, descriptor: AggregatingStateDescriptor) -> None:
        super().__init__(table, address)
        self._function = descriptor.agg_function

    def get(self) -> Any:
        """The accumulator's result; None if nothing was added."""
        accumulator = self._values.get(self._at.key)
        return None if accumulator is MISSING else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Adds a value to the accumulator."""
        entry = self._at.key
        accumulator = self._values.get(entry)
        if accumulator is MISSING:
            accumulator = self._function.create_accumulator()
        self._values.put(entry, self._function.add(value, accumulator))

    def _combined(self, first: Any, second: Any) -> Any:
        return self._function.merge(first, second)


class MergingListState(AddressedState, ListState[Any]):
    """A list that can absorb those of other namespaces."""

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Appends the current key's elements in some namespaces to those in the target, in their order."""
        assert isinstance(self._at, NamespacedAddress)
        before = self._at.namespace
        elements: list[Any] = []
        try:
            for namespace in sources:
                self._at.namespace = namespace
                elements += self.get()
                self.clear()
            self._at.namespace = target
            if elements:
                self.add_all(elements)
        finally:
            self._at.namespace = before
