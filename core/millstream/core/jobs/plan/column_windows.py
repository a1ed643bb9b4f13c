"""Specifications of vectorised windows: which columns are aggregated, and how."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.aggregates import PlannedAggregate
from millstream.core.jobs.plan.plan import BatchInput, KeySelector, OperatorSpec
from millstream.core.overriding import override
from millstream.core.records.types import TypeInformation


class ColumnWindowSpec(OperatorSpec, Struct, frozen=True):
    """Columns of records in windows of each key, aggregated without a call for each record.

    `key_columns` are the names of the key columns; none: all records have the key 0.
    """

    kind = "column_window"
    has_side_outputs = True
    assigner: Any  # millstream.datastream.window: tumbling, sliding or session windows
    aggregates: tuple[PlannedAggregate, ...]
    key_selector: KeySelector
    key_type: TypeInformation
    key_columns: tuple[str, ...]
    allowed_lateness: int = 0  # milliseconds
    late_tag: str | None = None  # the side output for late records
    only_at_the_end: bool = False  # windows of processing time, too, fire only when all records have arrived

    @override
    def keyed_by(self) -> tuple[KeySelector, ...]:
        return (self.key_selector,)

    def batch_input(self, timed: bool) -> BatchInput:
        """It aggregates columns of many keys at once."""
        return BatchInput.AS_IT_COMES

    def in_batch(self) -> OperatorSpec:
        """Windows fire only at the end of the input."""
        return replace(self, only_at_the_end=True)

    def user_code(self) -> tuple[Any, ...]:
        """Only the key selectors: its windows are always those of the API."""
        return OperatorSpec.user_code(self)

    def keeps_records(self) -> bool:
        """Returns False: each output batch is newly created."""
        return False
