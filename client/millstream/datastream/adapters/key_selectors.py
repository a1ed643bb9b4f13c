"""What users write as a key, and the key selector that it becomes."""

from __future__ import annotations

from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.plan import KeySelector
from millstream.core.records.types import PICKLED, TupleType, TypeInformation
from millstream.datastream import functions
from millstream.datastream.adapters.fields import checked_field, field_type
from millstream.datastream.adapters.signatures import checked_callable, declared_type, refuse_generator, result_type


def key_selector_of(
    operator: str, selector: Any, record_type: TypeInformation, key_type: Any = None
) -> tuple[KeySelector, TypeInformation]:
    """The key selector, and the type of its keys when that can be told.

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
    return KeySelector(function=target), result_type(target, key_type)


def _type_of_fields(
    fields: tuple[str | int, ...], record_type: TypeInformation, key_type: Any
) -> TypeInformation:
    if key_type is not None:
        return declared_type(key_type)
    types = [field_type(field, record_type) or PICKLED for field in fields]
    return types[0] if len(types) == 1 else TupleType(tuple(types))
