"""The sum of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, StateColumn
from millstream.core.aggregates.count import count_of
from millstream.core.overriding import override
from millstream.core.records.types import BIG_DEC, BYTE, DOUBLE, FLOAT, INT, LONG, SHORT, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

_SUMS: dict[TypeInformation, TypeInformation] = {
    BYTE: LONG, SHORT: LONG, INT: LONG, LONG: LONG, FLOAT: DOUBLE, DOUBLE: DOUBLE, BIG_DEC: BIG_DEC,
}  # fmt: skip


class Sum(Aggregate):
    """`sum(column)`. Where records are taken back, values are counted, so that a sum of none is null again."""

    name = "sum"
    takes = "it takes numbers"

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        return _SUMS.get(kind)

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        total = sum_of(str(planned.column), planned.result)
        return (total, count_of(planned.column)) if planned.retracting else (total,)

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        import pyarrow.compute as pc

        sums = state[f"sum:{planned.column}"].combine_chunks()
        if not planned.retracting:
            return sums
        return pc.if_else(pc.equal(state[f"count:{planned.column}"].combine_chunks(), 0), None, sums)


def sum_of(column: str, kind: TypeInformation) -> StateColumn:
    """The state column with the sum of a column, of this type."""
    import pyarrow.compute as pc

    return StateColumn(
        f"sum:{column}", kind, "sum",
        lambda records: records.values(column, kind), lambda records: pc.negate_checked(records.values(column, kind)),
        sum_of=column if kind == LONG else "",
    )  # fmt: skip


SUM = Sum()
