"""What an aggregate is: which columns its state has, how records change them, and what they come to.

A state column has one value for each group. What one record adds to a group has the form of a group's state, so that
a batch of records is a table of states, and states are merged with Arrow's `group_by`, whether they are of single
records or of groups, in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from millstream.core.aggregates.changed_records import ChangedRecords
from millstream.core.errors import MillstreamError
from millstream.core.records.types import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

OfRecords = Callable[[ChangedRecords], Any]
"""The values of a state column for single records, an Arrow array."""


class RetractionError(MillstreamError):
    """An aggregate was asked to take records back, which its state does not allow."""


class StateColumn(Struct, frozen=True):
    """A column of an aggregate's state. Aggregates share the columns of the same name, which have the same content.

    Null is the state of no value: merging passes over it.
    """

    name: str
    type: TypeInformation
    merge: str
    """The function of Arrow's `group_by` that makes one state of several, such as `sum`; none with `at`."""
    accumulate: OfRecords
    """What records add to the state of their groups."""
    retract: OfRecords | None = None
    """What takes records back that were accumulated; None if nothing does."""
    at: str | None = None
    """Its value is the one where the state column of this name has its merged value."""
    sum_of: str = ""
    """The column of records whose sum it is, if that is an integer: it must not leave 64 bits."""


class PlannedAggregate(Struct, frozen=True):
    """An aggregate over a column of known type; without one, over the records themselves.

    With `retracting`, records may be taken back, for which some aggregates keep more state.
    """

    aggregate: Aggregate
    column: str | None
    type: TypeInformation  # of the column
    name: str  # of the result
    result: TypeInformation
    retracting: bool = False

    def state(self) -> Sequence[StateColumn]:
        """Returns the columns of its state; raises `RetractionError` if records cannot be taken back from it."""
        if self.retracting and self.aggregate.why_not_retracting:
            raise RetractionError(f"{self.name}: {self.aggregate.name} {self.aggregate.why_not_retracting}")
        return self.aggregate.state(self)


class Aggregate(ABC):
    """An aggregate over the values of one column. Objects have no state of their own, and are part of the job."""

    name: ClassVar[str]
    """By which it is registered, and which the column of its result begins with."""
    takes: ClassVar[str]
    """Which columns it takes, for messages: "it takes numbers"."""
    needs_column: ClassVar[bool] = True
    """Whether it is an aggregate of a column, and not also of records."""
    counts_distinct: ClassVar[bool] = False
    """Whether it needs the distinct values of its column, which are kept in a table of their own.

    Then its state has, besides its columns, `distinct_count(column)`, when the result is asked for.
    """
    why_not_retracting: ClassVar[str] = ""
    """Why it cannot take records back, if it cannot: "cannot take a value back: ..."."""

    @abstractmethod
    def result_type(self, kind: TypeInformation) -> TypeInformation | None:
        """Returns the type of the results for a column of this type; None if it does not take such a column.

        Aggregates of records are called with `Types.LONG()`.
        """

    @abstractmethod
    def state(self, planned: PlannedAggregate) -> Sequence[StateColumn]:
        """Returns the columns of its state."""

    @abstractmethod
    def result(self, planned: PlannedAggregate, state: Mapping[str, pa.ChunkedArray], groups: int) -> Any:
        """Returns the results of so many groups, an Arrow array, by the names of their state columns."""


def distinct_count(column: str) -> str:
    """The name of the number of distinct values of a column. There is none if all values of all groups are null."""
    return f"distinct:{column}"
