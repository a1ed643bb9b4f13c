"""State, with PyFlink's names: what functions read and write, and where they get it.

Keyed state belongs to the key of the current record or timer; a function gets a state object once, in `open`, and then
always means the current key. Iterating over state goes over what it held when the iteration began, so the state may
be changed inside the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from millstream.core.errors import InvalidProgramError, MillstreamError
from millstream.core.records.type_variables import ACC, IN_contra, K, OUT_co, T, V
from millstream.datastream.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from millstream.core.records.types import AnyType, TypeInformation
    from millstream.datastream.functions import AggregateFunction, ReduceFunction

IN = TypeVar("IN")
OUT = TypeVar("OUT")
D = TypeVar("D", bound=StateDescriptor)


class StateAccessError(MillstreamError):
    """State is used without a key, or as another kind than it was declared."""


class State(ABC):
    """Base of all state."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the state of the current key.

        For example:

            self.count.clear()
        """


class ValueState(State, Generic[T]):
    """One value for each key: `runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))`."""

    @abstractmethod
    def value(self) -> T | None:
        """Returns the value, or None when there is none.

        For example:

            count = self.count.value() or 0
        """

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Replaces the value; None removes it.

        For example:

            self.count.update(count + 1)
        """


class AppendingState(State, Generic[IN_contra, OUT_co]):
    """State that values are added to."""

    @abstractmethod
    def get(self) -> OUT_co | None:
        """Returns the combined value, or None when no value was added.

        For example:

            total = self.total.get()
        """

    @abstractmethod
    def add(self, value: IN_contra) -> None:
        """Adds a value.

        For example:

            self.latest.add(order)
        """


class MergingState(AppendingState[IN_contra, OUT_co]):
    """State that can be merged, as when session windows merge."""


class ReducingState(MergingState[T, T]):
    """One value for each key; each added value is combined with it by a reduce function."""


class AggregatingState(MergingState[IN_contra, OUT_co]):
    """An accumulator for each key; `add` adds a value and `get` returns the result of the aggregate function."""


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements for each key, in the order in which they were added."""

    @abstractmethod
    def get(self) -> list[T]:
        """Returns a new list of the elements; it is empty when there are none.

        For example:

            latest = list(self.latest.get())
        """

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces all elements by `values`.

        For example:

            self.latest.update([order])
        """

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Adds the elements `values`.

        For example:

            self.latest.add_all(orders)
        """

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """A map that can only be read. `get` of a missing key returns None."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """Returns the value of a key, or None.

        For example:

            price = prices.get(order.article)
        """

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Returns whether the map has the key.

        For example:

            known = prices.contains(order.article)
        """

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Returns the keys with their values.

        For example:

            for article, price in prices.items():
                print(article, price)
        """

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Returns the keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Returns the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Returns whether the map has no entries."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class MapState(ReadOnlyBroadcastState[K, V]):
    """A map for each key: `runtime_context.get_map_state(MapStateDescriptor("seen", Types.STRING(), Types.LONG()))`."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets the value of a key.

        For example:

            self.prices.put(order.article, order.price)
        """

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Sets the values of several keys.

        `dict_value` is a mapping, or an iterable of pairs as in PyFlink's keyed state.

            self.prices.put_all({"tea": 3.5, "coffee": 4.0})
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a key; does nothing when the map does not have it.

        For example:

            self.prices.remove(order.article)
        """

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class BroadcastState(MapState[K, V]):
    """A map that is the same on every subtask; a function may change it only by broadcast records."""


class KeyedStateStore:
    """Gives access to keyed state. Each method takes a descriptor, or the name of the state and its types.

    All of them raise `StateAccessError` on a stream without keys, and when the operator has a state of the same name
    and another kind.
    """

    def keyed_state(self, descriptor: StateDescriptor) -> State:
        """Returns the state of a descriptor; the same data each time.

        Raises `StateAccessError` where the stream has no key.
        """
        raise StateAccessError(
            f"state '{descriptor.name}' requires a keyed stream: call key_by before the operator that uses it"
        )

    @overload
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]: ...

    @overload
    def get_state(self, state_descriptor: str, value_type: TypeInformation[T] | type[T]) -> ValueState[T]: ...

    @overload
    def get_state(self, state_descriptor: str, value_type: AnyType) -> ValueState[object]: ...

    @overload
    def get_state(self, state_descriptor: str, value_type: object = None) -> ValueState[Any]: ...

    def get_state(self, state_descriptor: Any, value_type: Any = None) -> ValueState[Any]:
        """Returns state with one value for each key.

        `state_descriptor` is a descriptor, or a name with the `value_type`.

            self.count = runtime_context.get_state("count", int)
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.DOUBLE()))
        """
        described = descriptor_of(ValueStateDescriptor, state_descriptor, value_type)
        return cast(ValueState[Any], self.keyed_state(described))

    @overload
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]: ...

    @overload
    def get_list_state(self, state_descriptor: str, element_type: TypeInformation[T] | type[T]) -> ListState[T]: ...

    @overload
    def get_list_state(self, state_descriptor: str, element_type: AnyType) -> ListState[object]: ...

    @overload
    def get_list_state(self, state_descriptor: str, element_type: object = None) -> ListState[Any]: ...

    def get_list_state(self, state_descriptor: Any, element_type: Any = None) -> ListState[Any]:
        """Returns state with a list for each key.

        `state_descriptor` is a descriptor, or a name with the `element_type`.

            self.latest = runtime_context.get_list_state("latest", Order)
        """
        described = descriptor_of(ListStateDescriptor, state_descriptor, element_type)
        return cast(ListState[Any], self.keyed_state(described))

    @overload
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]: ...

    @overload
    def get_map_state(
        self,
        state_descriptor: str,
        key_type: TypeInformation[K] | type[K],
        value_type: TypeInformation[V] | type[V],
    ) -> MapState[K, V]: ...

    @overload
    def get_map_state(
        self,
        state_descriptor: str,
        key_type: AnyType,
        value_type: AnyType,
    ) -> MapState[object, object]: ...

    @overload
    def get_map_state(
        self, state_descriptor: str, key_type: object = None, value_type: object = None
    ) -> MapState[Any, Any]: ...

    def get_map_state(
        self, state_descriptor: Any, key_type: Any = None, value_type: Any = None
    ) -> MapState[Any, Any]:
        """Returns state with a map for each key.

        `state_descriptor` is a descriptor, or a name with the `key_type` and the `value_type`.

            self.pages = runtime_context.get_map_state("pages", str, int)
        """
        described = descriptor_of(MapStateDescriptor, state_descriptor, key_type, value_type)
        return cast(MapState[Any, Any], self.keyed_state(described))

    @overload
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]: ...

    @overload
    def get_reducing_state(
        self,
        state_descriptor: str,
        reduce_function: Callable[[T, T], T] | ReduceFunction[T],
        value_type: TypeInformation[T] | type[T],
    ) -> ReducingState[T]: ...

    @overload
    def get_reducing_state(
        self,
        state_descriptor: str,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction[Any],
        value_type: AnyType,
    ) -> ReducingState[object]: ...

    @overload
    def get_reducing_state(
        self,
        state_descriptor: str,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction[Any],
        value_type: object = None,
    ) -> ReducingState[Any]: ...

    def get_reducing_state(
        self, state_descriptor: Any, reduce_function: Any = None, value_type: Any = None
    ) -> ReducingState[Any]:
        """Returns state with one value for each key, which a reduce function combines with each added value.

        `state_descriptor` is a descriptor, or a name with a `reduce_function` and the `value_type`.

            self.most = runtime_context.get_reducing_state("most", max, float)
        """
        described = descriptor_of(ReducingStateDescriptor, state_descriptor, reduce_function, value_type)
        return cast(ReducingState[Any], self.keyed_state(described))

    @overload
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
    ) -> AggregatingState[IN, OUT]: ...

    @overload
    def get_aggregating_state(
        self, state_descriptor: str, agg_function: AggregateFunction[IN, ACC, OUT], accumulator_type: object = None
    ) -> AggregatingState[IN, OUT]: ...

    def get_aggregating_state(
        self, state_descriptor: Any, agg_function: Any = None, accumulator_type: Any = None
    ) -> AggregatingState[Any, Any]:
        """Returns state with an accumulator for each key; an aggregate function adds values and computes the result.

        `state_descriptor` is a descriptor, or a name with an `agg_function` and the `accumulator_type`.

            self.mean = runtime_context.get_aggregating_state("mean", Mean(), tuple[float, int])
        """
        described = descriptor_of(AggregatingStateDescriptor, state_descriptor, agg_function, accumulator_type)
        return cast(AggregatingState[Any, Any], self.keyed_state(described))


class OperatorStateStore(ABC):
    """Gives access to operator state, which belongs to a subtask and not to a key."""

    @overload
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]: ...

    @overload
    def get_list_state(self, state_descriptor: str, element_type: TypeInformation[T] | type[T]) -> ListState[T]: ...

    @overload
    def get_list_state(self, state_descriptor: str, element_type: AnyType) -> ListState[object]: ...

    @overload
    def get_list_state(self, state_descriptor: str, element_type: object = None) -> ListState[Any]: ...

    @abstractmethod
    def get_list_state(self, state_descriptor: Any, element_type: Any = None) -> ListState[Any]:
        """Returns a list whose elements are distributed evenly over the subtasks when the parallelism changes.

        `state_descriptor` is a descriptor, or a name with the `element_type`.

            self.state = context.get_operator_state_store().get_list_state("buffered", str)
        """

    @overload
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]: ...

    @overload
    def get_union_list_state(
        self, state_descriptor: str, element_type: TypeInformation[T] | type[T]
    ) -> ListState[T]: ...

    @overload
    def get_union_list_state(
        self, state_descriptor: str, element_type: AnyType
    ) -> ListState[object]: ...

    @overload
    def get_union_list_state(self, state_descriptor: str, element_type: object = None) -> ListState[Any]: ...

    @abstractmethod
    def get_union_list_state(self, state_descriptor: Any, element_type: Any = None) -> ListState[Any]:
        """Returns a list of which every subtask receives all elements of all subtasks on restore.

        `state_descriptor` is a descriptor, or a name with the `element_type`.

            self.state = context.get_operator_state_store().get_union_list_state("offsets", int)
        """

    @overload
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]: ...

    @overload
    def get_broadcast_state(
        self,
        state_descriptor: str,
        key_type: TypeInformation[K] | type[K],
        value_type: TypeInformation[V] | type[V],
    ) -> BroadcastState[K, V]: ...

    @overload
    def get_broadcast_state(
        self,
        state_descriptor: str,
        key_type: AnyType,
        value_type: AnyType,
    ) -> BroadcastState[object, object]: ...

    @overload
    def get_broadcast_state(
        self, state_descriptor: str, key_type: object = None, value_type: object = None
    ) -> BroadcastState[Any, Any]: ...

    @abstractmethod
    def get_broadcast_state(
        self, state_descriptor: Any, key_type: Any = None, value_type: Any = None
    ) -> BroadcastState[Any, Any]:
        """Returns a map that is the same on every subtask.

        `state_descriptor` is a descriptor, or a name with the `key_type` and the `value_type`.

            self.prices = context.get_operator_state_store().get_broadcast_state("prices", str, float)
        """


def descriptor_of(kind: type[D], given: D | str, *arguments: Any) -> D:
    """The given descriptor, or a new one of the given name and types."""
    if isinstance(given, str):
        return kind(given, *arguments)
    if not isinstance(given, kind):
        raise InvalidProgramError(f"expected a {kind.__name__} or the state's name, not {given!r}")
    if any(argument is not None for argument in arguments):
        raise InvalidProgramError(f"state '{given.name}': a descriptor has its types; pass types only with a name")
    return given
