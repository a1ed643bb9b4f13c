"""What users write as a key, and the key selector that it becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.overriding import override
from millstream.core.records.adoption import Adopt, adopter
from millstream.core.records.types import PICKLED, ListType, RowType, TupleType, TypeInformation
from millstream.datastream import functions
from millstream.datastream.adapters.fields import checked_field, field_type
from millstream.datastream.adapters.signatures import checked_callable, declared_type, refuse_generator, result_type


def key_selector_of(
    operator: str, selector: Any, record_type: TypeInformation, key_type: Any = None
) -> tuple[KeySelector, TypeInformation]:
    """The key selector, and the type of its keys if it is known.

    `selector` is a callable, a KeySelector, a field's name or position, or a list of names and positions.
    """
    if isinstance(selector, str | int):
        selector = (selector,)
    if isinstance(selector, list | tuple) and not isinstance(selector, functions.KeySelector):
        if not selector:
            raise InvalidProgramError(f"{operator}: the list of key fields is empty")
        fields = tuple(checked_field(operator, field, record_type) for field in selector)
        return KeySelector(fields=fields), _type_of_fields(fields, record_type, key_type)
    target = checked_callable(operator, selector, "get_key", 1)
    refuse_generator(operator, target, "a key has to be one value")
    kind = result_type(target, key_type)
    function = DeclaredKeys(selector, kind) if _holds(kind, RowType) else selector
    return KeySelector(function=function), _stored_type(kind)


def _type_of_fields(fields: tuple[str | int, ...], record_type: TypeInformation, key_type: Any) -> TypeInformation:
    if key_type is not None:
        return _stored_type(declared_type(key_type))
    types = [field_type(field, record_type) or PICKLED for field in fields]
    return _stored_type(types[0] if len(types) == 1 else TupleType(tuple(types)))


def _stored_type(kind: TypeInformation) -> TypeInformation:
    """What keyed state calls its keys: a list stands there as a tuple, of any length, which no column holds."""
    return PICKLED if _holds(kind, ListType) else kind


def _holds(kind: TypeInformation, wanted: type[TypeInformation]) -> bool:
    if isinstance(kind, wanted):
        return True
    return isinstance(kind, TupleType | RowType) and any(_holds(inner, wanted) for inner in kind.fields)


class DeclaredKeys(functions.KeySelector):
    """Keys as their declared type has them: rows with names, also where the selector returns tuples."""

    def __init__(self, selector: functions.KeySelector | Callable[[Any], Any], kind: TypeInformation) -> None:
        self._selector = selector
        self._key_of = functions.as_callable(selector, "get_key")
        self._kind = kind
        self._adopt: Adopt | None = None

    def open(self, runtime_context: functions.RuntimeContext) -> None:
        """Opens the selector, if it is a rich one."""
        if isinstance(self._selector, functions.Function):
            self._selector.open(runtime_context)

    @override
    def close(self) -> None:
        if isinstance(self._selector, functions.Function):
            self._selector.close()

    @override
    def get_key(self, value: Any) -> Any:
        if self._adopt is None:  # made where it is used: it cannot be pickled
            self._adopt = adopter(self._kind)
            assert self._adopt is not None, "there is a row in it"
        return self._adopt(self._key_of(value))
