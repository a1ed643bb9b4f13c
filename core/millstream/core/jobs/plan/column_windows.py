"""What the client hands to the tasks of vectorised windows: which columns are aggregated, and how."""

from __future__ import annotations

from enum import Enum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.plan.plan import BatchInput, KeySelector, OperatorSpec
from millstream.core.records.types import TypeInformation


class Aggregation(Enum):
    """What is made of the values of a column."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    FIRST = "first"
    LAST = "last"
    COUNT_DISTINCT = "count_distinct"


class PlannedAggregate(Struct, frozen=True):
    """An aggregate over a column of known type; without one, over the records themselves."""

    aggregation: Aggregation
    column: str | None
    type: TypeInformation  # of the column
    name: str  # of the result
    result: TypeInformation


class ColumnWindowSpec(OperatorSpec, Struct, frozen=True):
    """Columns of records in windows of each key, aggregated without a call for each record.

    `key_columns` are the names of the columns that the key is made of; none: all records are of the key 0.
    """

    kind = "column_window"
    has_side_outputs = True
    assigner: Any  # millstream.datastream.window: tumbling, sliding or session windows
    aggregates: tuple[PlannedAggregate, ...]
    key_selector: KeySelector
    key_type: TypeInformation
    key_columns: tuple[str, ...]
    allowed_lateness: int = 0  # milliseconds
    late_tag: str | None = None  # the side output for records that come too late
    only_at_the_end: bool = False  # also windows of processing time fire when all records came, and not before

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """Its stream's."""
        return (self.key_selector,)

    def batch_input(self, timed: bool) -> BatchInput:
        """It aggregates columns of many keys at once."""
        return BatchInput.AS_IT_COMES

    def in_batch(self) -> OperatorSpec:
        """The clock ends no window."""
        return replace(self, only_at_the_end=True)

    def user_code(self) -> tuple[Any, ...]:
        """None but what selects keys: its windows are of the kinds that come with the API."""
        return OperatorSpec.user_code(self)

    def keeps_records(self) -> bool:
        """What it emits is made again each time."""
        return False
