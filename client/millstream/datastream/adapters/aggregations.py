"""The rolling aggregations of a keyed stream: sum, min, max, min_by, max_by.

`sum`, `min` and `max` change one field of the key's first record; `min_by` and `max_by` keep the whole record with the
smallest or largest field, the earlier one among equals. These run for every record: tuples with a position and plain
values, by far the most common, take a short way.
"""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from typing import Any

from millstream.core.errors import InvalidProgramError
from millstream.core.overriding import override
from millstream.core.records.types import BasicType, TypeInformation
from millstream.datastream.adapters.fields import Field, checked_field, field_type, get_field, with_field
from millstream.datastream.functions import ReduceFunction


class FieldAggregation(ReduceFunction):
    """Combines one field of two records."""

    def __init__(self, field: Field) -> None:
        self.field = field

    @abstractmethod
    def combine(self, first: Any, second: Any) -> Any:
        """The field's value from the values so far and of the new record."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The first record with the combined field."""
        field = self.field
        kind = type(value1)
        if kind is tuple and type(field) is int and field < len(value1):
            combined = self.combine(value1[field], value2[field])
            return (*value1[:field], combined, *value1[field + 1 :])
        if (kind is int or kind is float) and field == 0:
            return self.combine(value1, value2)
        return with_field(value1, field, self.combine(get_field(value1, field), get_field(value2, field)))


class Sum(FieldAggregation):
    """Adds the field up."""

    @override
    def combine(self, first: Any, second: Any) -> Any:
        return first + second


class Min(FieldAggregation):
    """Keeps the smallest value of the field."""

    @override
    def combine(self, first: Any, second: Any) -> Any:
        return second if second < first else first


class Max(FieldAggregation):
    """Keeps the largest value of the field."""

    @override
    def combine(self, first: Any, second: Any) -> Any:
        return second if second > first else first


class MinBy(ReduceFunction):
    """Keeps the record whose field is smallest."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The new record only when its field is smaller."""
        return value2 if get_field(value2, self.field) < get_field(value1, self.field) else value1


class MaxBy(ReduceFunction):
    """Keeps the record whose field is largest."""

    def __init__(self, field: Field) -> None:
        self.field = field

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The new record only when its field is larger."""
        return value2 if get_field(value2, self.field) > get_field(value1, self.field) else value1


def aggregated_field(operator: str, field: Any, record_type: TypeInformation) -> Field:
    """Checks a field that is to be compared."""
    return checked_field(operator, field, record_type, allow_value=True)


def summed_field(operator: str, field: Any, record_type: TypeInformation) -> Field:
    """Checks a field that is to be added up."""
    checked = aggregated_field(operator, field, record_type)
    kind = record_type if isinstance(record_type, BasicType) else field_type(checked, record_type)
    if isinstance(kind, BasicType) and not issubclass(kind.python_type, int | float | Decimal):
        raise InvalidProgramError(f"{operator}: field {field!r} is of type {kind}, which cannot be added up")
    return checked
