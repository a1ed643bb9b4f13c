"""State whose declared type converts the values that it gets: single precision, or rows with names.

A value is converted when the state takes it, so reading it returns the same before and after a restore. Other state has
no such wrapper.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from millstream.core.overriding import override
from millstream.core.records.adoption import Adopt, adopter
from millstream.core.records.exact_values import InexactError
from millstream.datastream.functions import AggregateFunction
from millstream.datastream.state import BroadcastState, ListState, ReducingState, State, StateAccessError, ValueState
from millstream.datastream.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)

D = TypeVar("D", bound=StateDescriptor)


def adopting(descriptor: D, make: Callable[[D], Any]) -> Any:
    """The state created for the descriptor, with values converted to their declared types."""
    found = [adopter(kind) for kind in descriptor.types]
    if not any(found):
        return make(descriptor)
    found = [None if adopt is None else _telling(descriptor.name, adopt) for adopt in found]
    value = found[-1] or _same
    match descriptor:
        case MapStateDescriptor():
            return AdoptingMapState(make(descriptor), found[0] or _same, value)
        case ListStateDescriptor():
            return AdoptingListState(make(descriptor), value)
        case ReducingStateDescriptor():
            reducing, reduce = copy.copy(descriptor), descriptor.reduce
            reducing.reduce = lambda old, new: value(reduce(old, new))
            return AdoptingReducingState(make(reducing), value)
        case AggregatingStateDescriptor():
            aggregating = copy.copy(descriptor)
            aggregating.agg_function = _AdoptingAggregate(descriptor.agg_function, value)
            return make(aggregating)
        case _:
            return AdoptingValueState(make(descriptor), value)


def _same(value: Any) -> Any:
    return value


def _telling(name: str, adopt: Adopt) -> Adopt:
    def adopted(value: Any) -> Any:
        try:
            return adopt(value)
        except InexactError as error:
            raise StateAccessError(f"state '{name}' cannot hold {error}") from None

    return adopted


class _AdoptingState(State):
    def __init__(self, state: Any, adopt: Adopt) -> None:
        self._state = state
        self._adopt = adopt

    def set_namespace(self, namespace: Any) -> None:
        """Sets the current namespace."""
        self._state.set_namespace(namespace)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merges several namespaces, if the state supports it."""
        self._state.merge_namespaces(target, sources)

    @override
    def clear(self) -> None:
        self._state.clear()


class AdoptingValueState(_AdoptingState, ValueState[Any]):
    """One value."""

    @override
    def value(self) -> Any:
        return self._state.value()

    @override
    def update(self, value: Any) -> None:
        self._state.update(self._adopt(value))


class AdoptingReducingState(_AdoptingState, ReducingState[Any]):
    """One value, combined with each that is added."""

    @override
    def get(self) -> Any:
        return self._state.get()

    def add(self, value: Any) -> None:
        """Combines a value with the current one."""
        self._state.add(self._adopt(value))


class AdoptingListState(_AdoptingState, ListState[Any]):
    """A list."""

    def get(self) -> list[Any]:
        """A new list of the elements."""
        elements: list[Any] = self._state.get()
        return elements

    @override
    def add(self, value: Any) -> None:
        self._state.add(self._adopt(value))

    @override
    def add_all(self, values: Iterable[Any]) -> None:
        self._state.add_all(list(map(self._adopt, values)))

    @override
    def update(self, values: Iterable[Any]) -> None:
        self._state.update(list(map(self._adopt, values)))


class AdoptingMapState(_AdoptingState, BroadcastState[Any, Any]):
    """Map state, keyed or broadcast."""

    def __init__(self, state: Any, key: Adopt, value: Adopt) -> None:
        super().__init__(state, value)
        self._key = key

    @override
    def get(self, key: Any) -> Any:
        return self._state.get(self._key(key))

    def contains(self, key: Any) -> bool:
        """Whether the map has the key."""
        return bool(self._state.contains(self._key(key)))

    @override
    def items(self) -> Any:
        return self._state.items()

    @override
    def keys(self) -> Any:
        return self._state.keys()

    @override
    def values(self) -> Any:
        return self._state.values()

    def is_empty(self) -> bool:
        """Whether there are no entries."""
        return bool(self._state.is_empty())

    @override
    def put(self, key: Any, value: Any) -> None:
        self._state.put(self._key(key), self._adopt(value))

    def put_all(self, dict_value: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets the values of several keys."""
        self._state.put_all({self._key(key): self._adopt(value) for key, value in dict(dict_value).items()})

    @override
    def remove(self, key: Any) -> None:
        self._state.remove(self._key(key))


class _AdoptingAggregate(AggregateFunction):
    """Converts the accumulators of an aggregate function to their declared type."""

    def __init__(self, function: AggregateFunction, adopt: Adopt) -> None:
        self._function = function
        self._adopt = adopt

    def create_accumulator(self) -> Any:
        return self._adopt(self._function.create_accumulator())

    def add(self, value: Any, accumulator: Any) -> Any:
        return self._adopt(self._function.add(value, accumulator))

    def get_result(self, accumulator: Any) -> Any:
        return self._function.get_result(accumulator)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return self._adopt(self._function.merge(acc_a, acc_b))
