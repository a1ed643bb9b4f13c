"""The values that came first and last: a value, and the number of its record, so that states merge in any order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from millstream.core.aggregates.aggregate import Aggregate, PlannedAggregate, StateColumn
from millstream.core.overriding import override
from millstream.core.records.types import LONG, TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa


class _Position(Aggregate):
    """The value that is not null at one end of the records, in the order of their arrival."""

    takes = "it takes columns of any type"
    why_not_retracting = "cannot take a value back: it keeps one value, and not those that came beside it"
    chosen: ClassVar[str]
    """How the number of the record is chosen of several."""

    @override
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        return kind

    @override
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        column, kind, at = str(planned.column), planned.type, f"{self.name}_at:{planned.column}"
        return (
            StateColumn(at, LONG, self.chosen, lambda records: records.numbers(column)),
            StateColumn(f"{self.name}:{column}", kind, "", lambda records: records.values(column, kind), at=at),
        )

    @override
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        return state[f"{self.name}:{planned.column}"].combine_chunks()


class First(_Position):
    """`first(column)`."""

    name = "first"
    chosen = "min"


class Last(_Position):
    """`last(column)`."""

    name = "last"
    chosen = "max"


FIRST, LAST = First(), Last()
