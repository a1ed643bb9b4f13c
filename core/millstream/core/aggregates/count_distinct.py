"""The number of different values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, StateColumn, distinct_count
from millstream.core.overriding import override
from millstream.core.records.types import LONG, BasicType, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class CountDistinct(Aggregate):
    """`count_distinct(column)`: all different values are kept."""

    name = "count_distinct"
    takes = "it takes single values"
    counts_distinct = True
    why_not_retracting = "cannot take a value back: it keeps which values there are, and not how often"

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        return LONG if isinstance(kind, BasicType) else None

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        return ()

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        import pyarrow as pa

        counts = state.get(distinct_count(str(planned.column)))
        if counts is None:  # all values are null
            return pa.repeat(0, groups)
        return counts.combine_chunks().cast(pa.int64()).fill_null(0)


COUNT_DISTINCT = CountDistinct()
