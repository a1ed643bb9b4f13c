"""The number of records, or of values that are not null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, StateColumn
from millstream.core.overriding import override
from millstream.core.records.types import LONG, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class Count(Aggregate):
    """`count()` and `count(column)`."""

    name = "count"
    takes = "it takes columns of any type"
    needs_column = False

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        return LONG

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        return (count_of(planned.column),)

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        return state[count_of(planned.column).name].combine_chunks()


def count_of(column: str | None) -> StateColumn:
    """The state column with the number of values of a column, or with that of records."""
    import pyarrow.compute as pc

    if column is None:
        return StateColumn(
            "rows", LONG, "sum", lambda records: records.ones(), lambda records: pc.negate(records.ones())
        )
    return StateColumn(
        f"count:{column}", LONG, "sum",
        lambda records: records.presence(column), lambda records: pc.negate(records.presence(column)),
    )  # fmt: skip


COUNT = Count()
