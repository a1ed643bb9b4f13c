"""The smallest and the largest value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, StateColumn
from millstream.core.overriding import override
from millstream.core.records.types import BasicType, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class _Extreme(Aggregate):
    """Of values that have an order; of floats, NaN only where there is no other."""

    takes = "it takes single values that have an order"
    why_not_retracting = "cannot take a value back: it keeps one value, and not those that would follow it"

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        return kind if isinstance(kind, BasicType) else None

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        column, kind = str(planned.column), planned.type
        return (StateColumn(f"{self.name}:{column}", kind, self.name, lambda records: records.values(column, kind)),)

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        return state[f"{self.name}:{planned.column}"].combine_chunks()


class Min(_Extreme):
    """`min(column)`."""

    name = "min"


class Max(_Extreme):
    """`max(column)`."""

    name = "max"


MIN, MAX = Min(), Max()
