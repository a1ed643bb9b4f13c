"""The records of a keyed stream beside their keys: the result of collecting such a stream, as in PyFlink."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.plan.plan import KeySelector
from millstream.core.overriding import override
from millstream.core.records.types import RowType, TypeInformation
from millstream.core.row import Row
from millstream.datastream.adapters.fields import get_field
from millstream.datastream.functions import Function, MapFunction, RuntimeContext, as_callable


class WithKey(MapFunction):
    """From a record to the row of its key and itself."""

    def __init__(self, selector: KeySelector) -> None:
        self.selector = selector
        self.function = None if selector.function is None else as_callable(selector.function, "get_key")

    def open(self, runtime_context: RuntimeContext) -> None:
        """Opens the selector, if it is a rich one."""
        if isinstance(self.selector.function, Function):
            self.selector.function.open(runtime_context)

    @override
    def close(self) -> None:
        if isinstance(self.selector.function, Function):
            self.selector.function.close()

    def map(self, value: Any) -> Row:
        """Fields `f0` and `f1`, by the declared type."""
        if self.function is not None:
            return Row(self.function(value), value)
        fields = [get_field(value, field) for field in self.selector.fields]
        return Row(fields[0] if len(fields) == 1 else tuple(fields), value)


def type_with_key(key_type: TypeInformation, record_type: TypeInformation) -> TypeInformation:
    """Of such rows."""
    return RowType((key_type, record_type))
