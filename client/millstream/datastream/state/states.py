"""State, with PyFlink's names: what functions read and write, and where they get it.

Keyed state belongs to the key of the record or timer at hand; a state object is asked for once, in `open`, and then
always means the current key. Iterating over state goes over what it held when the iteration began, so the state may
be changed inside the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from millstream.core.errors import InvalidProgramError, MillstreamError
from millstream.datastream.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from millstream.datastream.functions import AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")
D = TypeVar("D", bound=StateDescriptor)


class StateAccessError(MillstreamError):
    """State was used where it cannot be: without a key, or as another kind than it was declared."""


class State(ABC):
    """Base of all state."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what is kept."""


class ValueState(State, Generic[T]):
    """One value; None means that there is none."""

    @abstractmethod
    def value(self) -> T | None:
        """The value, or None."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replaces the value; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What came of the values."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds a value."""


class MergingState(AppendingState[IN, OUT]):
    """State of which two can be made one."""


class ReducingState(MergingState[T, T]):
    """One value, combined with each that is added."""


class AggregatingState(MergingState[IN, OUT]):
    """An accumulator; `get` answers its result."""


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements, in the order in which they were added."""

    @abstractmethod
    def get(self) -> list[T]:
        """A new list of the elements; empty when there are none."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces all elements."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Adds elements."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """A map that is only read here. `get` of a key that is not there answers None."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The key's value, or None."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the map has the key."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Keys with their values."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """The keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """The values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the map has no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class MapState(ReadOnlyBroadcastState[K, V]):
    """A map."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets a key's value."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Sets the values of several keys: of a mapping, or of pairs, which is what PyFlink's keyed state takes."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a key; nothing happens when it is not there."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class BroadcastState(MapState[K, V]):
    """A map that is the same on every subtask: change it only by what every subtask sees."""


class KeyedStateStore:
    """Where keyed state comes from. Every accessor takes a descriptor, or a name and type hints."""

    def keyed_state(self, descriptor: StateDescriptor) -> State:
        """The state of a descriptor; the same data each time."""
        raise StateAccessError(
            f"state '{descriptor.name}' needs a keyed stream: call key_by before the operator that uses it"
        )

    def get_state(self, state_descriptor: ValueStateDescriptor | str, value_type: Any = None) -> ValueState[Any]:
        """State with one value for each key."""
        described = descriptor_of(ValueStateDescriptor, state_descriptor, value_type)
        return cast(ValueState[Any], self.keyed_state(described))

    def get_list_state(self, state_descriptor: ListStateDescriptor | str, element_type: Any = None) -> ListState[Any]:
        """State with a list for each key."""
        described = descriptor_of(ListStateDescriptor, state_descriptor, element_type)
        return cast(ListState[Any], self.keyed_state(described))

    def get_map_state(
        self, state_descriptor: MapStateDescriptor | str, key_type: Any = None, value_type: Any = None
    ) -> MapState[Any, Any]:
        """State with a map for each key."""
        described = descriptor_of(MapStateDescriptor, state_descriptor, key_type, value_type)
        return cast(MapState[Any, Any], self.keyed_state(described))

    def get_reducing_state(
        self, state_descriptor: ReducingStateDescriptor | str, reduce_function: Any = None, value_type: Any = None
    ) -> ReducingState[Any]:
        """State with one value for each key, which added values are combined with."""
        described = descriptor_of(ReducingStateDescriptor, state_descriptor, reduce_function, value_type)
        return cast(ReducingState[Any], self.keyed_state(described))

    def get_aggregating_state(
        self,
        state_descriptor: AggregatingStateDescriptor | str,
        agg_function: AggregateFunction | None = None,
        accumulator_type: Any = None,
    ) -> AggregatingState[Any, Any]:
        """State with an accumulator for each key."""
        described = descriptor_of(AggregatingStateDescriptor, state_descriptor, agg_function, accumulator_type)
        return cast(AggregatingState[Any, Any], self.keyed_state(described))


class OperatorStateStore(ABC):
    """Where operator state comes from: state of a subtask, whatever the keys of its records."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor | str, element_type: Any = None) -> ListState[Any]:
        """A list whose elements are spread evenly over the subtasks when the parallelism changes."""

    @abstractmethod
    def get_union_list_state(
        self, state_descriptor: ListStateDescriptor | str, element_type: Any = None
    ) -> ListState[Any]:
        """A list of which every subtask gets all elements of all subtasks on restore."""

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor | str, key_type: Any = None, value_type: Any = None
    ) -> BroadcastState[Any, Any]:
        """A map that is the same on every subtask."""


def descriptor_of(kind: type[D], given: D | str, *arguments: Any) -> D:
    """The descriptor that was given, or the one that the name and the types make."""
    if isinstance(given, str):
        return kind(given, *arguments)
    if not isinstance(given, kind):
        raise InvalidProgramError(f"expected a {kind.__name__} or the state's name, not {given!r}")
    if any(argument is not None for argument in arguments):
        raise InvalidProgramError(f"state '{given.name}': a descriptor says it all; types go with a name only")
    return given
