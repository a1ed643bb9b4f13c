"""The descriptors of states: name, types, time-to-live, and the function that combines values.

A type is anything that types are everywhere: `Types.…`, a type hint, a dataclass. Without one, values are pickled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NewType, overload

from millstream.core.errors import InvalidProgramError
from millstream.core.records.type_variables import ACC, IN_contra, K, OUT_co, T, V
from millstream.core.records.types import (
    PICKLED,
    AnyType,
    DataclassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    TupleType,
    TypeInformation,
    from_hint,
)
from millstream.datastream.state.ttl import StateTtlConfig

if TYPE_CHECKING:
    from millstream.datastream.functions import AggregateFunction, ReduceFunction


class StateDescriptor:
    """Base of all descriptors: the name of a state, its types, and its time-to-live.

    A name is unique within its operator. It identifies the state when a job is restored.
    """

    def __init__(self, name: str, *types: Any) -> None:
        if not isinstance(name, str) or not name:
            raise InvalidProgramError(f"a state needs a name, such as 'count', not {name!r}")
        self.name = name
        self.types = tuple(PICKLED if hint is None else _type_of(name, hint) for hint in types)
        self.undeclared = any(
            hint is None or (not _says_pickled(hint) and _holds_pickled(kind, ()))
            for hint, kind in zip(types, self.types, strict=True)
        )
        self.ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Returns the name of the state."""
        return self.name

    @property
    def type_info(self) -> TypeInformation:
        """The type of the whole state of a key."""
        return self.types[-1]

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Sets the time after which entries expire: `ttl_config` is `StateTtlConfig.new_builder(...).build()`.

        Raises `InvalidProgramError` unless the argument is a `StateTtlConfig`.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            given = type(ttl_config).__qualname__
            raise InvalidProgramError(f"state '{self.name}': expected a StateTtlConfig, not {given}")
        self.ttl_config = ttl_config

    @property
    def ttl(self) -> StateTtlConfig | None:
        """The time-to-live when there is one and it is enabled."""
        return self.ttl_config if self.ttl_config is not None and self.ttl_config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}('{self.name}', {', '.join(kind.describe() for kind in self.types)})"


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a `ValueState`: `ValueStateDescriptor("count", Types.LONG())`."""

    @overload
    def __init__(self: ValueStateDescriptor[Any], name: str, value_type_info: None = None) -> None: ...

    @overload
    def __init__(self, name: str, value_type_info: TypeInformation[T] | type[T]) -> None: ...

    @overload
    def __init__(self: ValueStateDescriptor[object], name: str, value_type_info: AnyType) -> None: ...

    @overload
    def __init__(self: ValueStateDescriptor[Any], name: str, value_type_info: object) -> None: ...

    def __init__(self, name: str, value_type_info: Any = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a `ListState`: `ListStateDescriptor("last", Types.DOUBLE())`."""

    @overload
    def __init__(self: ListStateDescriptor[Any], name: str, elem_type_info: None = None) -> None: ...

    @overload
    def __init__(self, name: str, elem_type_info: TypeInformation[T] | type[T]) -> None: ...

    @overload
    def __init__(self: ListStateDescriptor[object], name: str, elem_type_info: AnyType) -> None: ...

    @overload
    def __init__(self: ListStateDescriptor[Any], name: str, elem_type_info: object) -> None: ...

    def __init__(self, name: str, elem_type_info: Any = None) -> None:
        super().__init__(name, elem_type_info)

    @property
    def type_info(self) -> TypeInformation:
        """A list of the element's type."""
        return ListType(self.types[0])


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Describes a `MapState` or a broadcast state: `MapStateDescriptor("rules", Types.STRING(), Types.LONG())`."""

    @overload
    def __init__(
        self: MapStateDescriptor[Any, Any], name: str, key_type_info: None = None, value_type_info: None = None
    ) -> None: ...

    @overload
    def __init__(
        self, name: str, key_type_info: TypeInformation[K] | type[K], value_type_info: TypeInformation[V] | type[V]
    ) -> None: ...

    @overload
    def __init__(
        self: MapStateDescriptor[object, object], name: str, key_type_info: AnyType, value_type_info: AnyType
    ) -> None: ...

    @overload
    def __init__(
        self: MapStateDescriptor[Any, Any], name: str, key_type_info: object = None, value_type_info: object = None
    ) -> None: ...

    def __init__(self, name: str, key_type_info: Any = None, value_type_info: Any = None) -> None:
        super().__init__(name, key_type_info, value_type_info)

    @property
    def type_info(self) -> TypeInformation:
        """A map of the two types."""
        return MapType(*self.types)


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a `ReducingState`: each added value is combined by a ReduceFunction or a callable `(old, new)`.

        ReducingStateDescriptor("highest", max, Types.LONG())

    Raises `InvalidProgramError` when there is no function to call.
    """

    @overload
    def __init__(
        self,
        name: str,
        reduce_function: Callable[[T, T], T] | ReduceFunction[T],
        type_info: TypeInformation[T] | type[T],
    ) -> None: ...

    @overload
    def __init__(
        self: ReducingStateDescriptor[object],
        name: str,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction[Any],
        type_info: AnyType,
    ) -> None: ...

    @overload
    def __init__(
        self: ReducingStateDescriptor[Any],
        name: str,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction[Any],
        type_info: object = None,
    ) -> None: ...

    def __init__(self, name: str, reduce_function: Any, type_info: Any = None) -> None:
        super().__init__(name, type_info)
        call = reduce_function if callable(reduce_function) else getattr(reduce_function, "reduce", None)
        if not callable(call):
            raise InvalidProgramError(
                f"state '{name}': expected a ReduceFunction or a callable, not {reduce_function!r}"
            )
        self.reduce_function = reduce_function
        self.reduce = call

    def get_reduce_function(self) -> Any:
        """Returns the function that combines two values."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor, Generic[IN_contra, ACC, OUT_co]):
    """Describes an `AggregatingState`: values are added to an accumulator by an AggregateFunction.

    `state_type_info` is the type of the accumulator. Raises `InvalidProgramError` when the function lacks a method.
    """

    def __init__(
        self, name: str, agg_function: AggregateFunction[IN_contra, ACC, OUT_co], state_type_info: Any = None
    ) -> None:
        super().__init__(name, state_type_info)
        missing = [m for m in ("create_accumulator", "add", "get_result", "merge") if not hasattr(agg_function, m)]
        if missing:
            raise InvalidProgramError(f"state '{name}': the aggregate function lacks {', '.join(missing)}")
        self.agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[IN_contra, ACC, OUT_co]:
        """Returns the function that adds values and computes the result."""
        return self.agg_function


def _type_of(name: str, hint: Any) -> TypeInformation:
    known = isinstance(hint, TypeInformation | type | str | NewType) or hasattr(hint, "__origin__")
    if not known and callable(hint):
        raise InvalidProgramError(f"state '{name}': expected a type, not {hint!r}")
    try:
        return from_hint(hint)
    except TypeError:  # hints that cannot be hashed
        return PICKLED


def _says_pickled(hint: Any) -> bool:
    return isinstance(hint, PickledType)


def _holds_pickled(kind: TypeInformation, inside: tuple[type, ...]) -> bool:
    """Whether part of the type is not known; a class inside itself adds nothing new."""
    match kind:
        case PickledType():
            return True
        case TupleType(fields) | RowType(fields):
            return any(_holds_pickled(inner, inside) for inner in fields)
        case ListType(element):
            return _holds_pickled(element, inside)
        case MapType(key, value):
            return _holds_pickled(key, inside) or _holds_pickled(value, inside)
        case DataclassType(cls) if cls not in inside:
            return any(_holds_pickled(inner, (*inside, cls)) for inner in kind.field_types())
    return False
