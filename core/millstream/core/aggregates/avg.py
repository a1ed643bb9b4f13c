"""The mean of numbers: their sum, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, StateColumn
from millstream.core.aggregates.count import count_of
from millstream.core.aggregates.sum import SUM, sum_of
from millstream.core.overriding import override
from millstream.core.records.types import BIG_DEC, DOUBLE, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class Avg(Aggregate):
    """`avg(column)`: a double; of decimals, a decimal."""

    name = "avg"
    takes = "it takes numbers"

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        of_sum = SUM.result_type(kind)
        return of_sum if of_sum in (None, BIG_DEC) else DOUBLE

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        of_sum = SUM.result_type(planned.type)
        assert of_sum is not None, "the type of the column was checked"
        return sum_of(str(planned.column), of_sum), count_of(planned.column)

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        sums, counts = state[f"sum:{planned.column}"], state[f"count:{planned.column}"]
        if planned.result == BIG_DEC:
            return pa.array(map(_mean, sums.to_pylist(), counts.to_pylist()), BIG_DEC.arrow_type())
        if planned.retracting:
            counts = pc.if_else(pc.equal(counts, 0), None, counts)
        return pc.divide(sums.cast(pa.float64(), safe=False), counts.cast(pa.float64())).combine_chunks()


def _mean(total: Decimal | None, count: int) -> Decimal | None:
    if total is None or not count:
        return None
    with localcontext(prec=60):
        return (total / count).quantize(Decimal(1).scaleb(-18))


AVG = Avg()
