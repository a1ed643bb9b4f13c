"""What a program says of a state: its name, its types, its time-to-live, and the function that combines values.

A type is anything that types are everywhere: `Types.…`, a type hint, a dataclass. Without one, values are pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NewType

from millstream.core.errors import InvalidProgramError
from millstream.core.records.types import (
    PICKLED,
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
    from millstream.datastream.functions import AggregateFunction


class StateDescriptor:
    """Base of all descriptors."""

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
        """The state's name; unique in its operator."""
        return self.name

    @property
    def type_info(self) -> TypeInformation:
        """The type of the whole state of a key."""
        return self.types[-1]

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets entries expire."""
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


class ValueStateDescriptor(StateDescriptor):
    """One value."""

    def __init__(self, name: str, value_type_info: Any = None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """A list of elements."""

    def __init__(self, name: str, elem_type_info: Any = None) -> None:
        super().__init__(name, elem_type_info)

    @property
    def type_info(self) -> TypeInformation:
        """A list of the element's type."""
        return ListType(self.types[0])


class MapStateDescriptor(StateDescriptor):
    """A map."""

    def __init__(self, name: str, key_type_info: Any = None, value_type_info: Any = None) -> None:
        super().__init__(name, key_type_info, value_type_info)

    @property
    def type_info(self) -> TypeInformation:
        """A map of the two types."""
        return MapType(*self.types)


class ReducingStateDescriptor(StateDescriptor):
    """One value, combined with every value that is added: by a ReduceFunction or a callable `(old, new)`."""

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
        """What combines two values."""
        return self.reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """An accumulator that values are added to, by an AggregateFunction; the type is the accumulator's."""

    def __init__(self, name: str, agg_function: AggregateFunction, state_type_info: Any = None) -> None:
        super().__init__(name, state_type_info)
        missing = [m for m in ("create_accumulator", "add", "get_result", "merge") if not hasattr(agg_function, m)]
        if missing:
            raise InvalidProgramError(f"state '{name}': the aggregate function lacks {', '.join(missing)}")
        self.agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction:
        """What adds values and answers the result."""
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
