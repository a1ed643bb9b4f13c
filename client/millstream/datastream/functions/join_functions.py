"""Functions of two streams that are joined: in windows, or by how close records are in event time.

PyFlink's DataStream API has no such joins; the names are those of Flink's Java API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeAlias

from millstream.core.records.type_variables import IN1_contra, IN2_contra, OUT_co
from millstream.datastream.functions.function import Function
from millstream.datastream.output_tag import OutputTag


class JoinFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Returns one result for each pair of records: `JoinFunction[IN1, IN2, OUT]`.

    For example:

        class Pairs(JoinFunction):
            def join(self, first: Order, second: Payment) -> tuple[Order, Payment]:
                return first, second
    """

    @abstractmethod
    def join(self, first: IN1_contra, second: IN2_contra, /) -> OUT_co:
        """Called with each pair of records, `first` and `second`, with the same key and window; returns the result."""


class FlatJoinFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Returns any number of results for each pair of records: `FlatJoinFunction[IN1, IN2, OUT]`.

    For example:

        class Paid(FlatJoinFunction):
            def join(self, first: Order, second: Payment) -> Iterator[Order]:
                if second.amount >= first.price:
                    yield first
    """

    @abstractmethod
    def join(self, first: IN1_contra, second: IN2_contra, /) -> Iterable[OUT_co] | None:
        """Called with each pair of records, `first` and `second`, of the same key and window; yields results."""


class CoGroupFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Returns any number of results for all records of both streams with the same key and window.

    `CoGroupFunction[IN1, IN2, OUT]` declares the types of both inputs and of the results.

        class Unpaid(CoGroupFunction):
            def co_group(self, first: Iterable[Order], second: Iterable[Payment]) -> Iterator[Order]:
                if not list(second):
                    yield from first
    """

    @abstractmethod
    def co_group(self, first: Iterable[IN1_contra], second: Iterable[IN2_contra], /) -> Iterable[OUT_co] | None:
        """Called when a window is evaluated; returns or yields results.

        `first` and `second` are the records of both streams with the same key; one of the two may be empty.
        """


class JoinContext(ABC):
    """The context of a pair of an interval join. Valid only during the call that it was passed to."""

    @abstractmethod
    def get_left_timestamp(self) -> int:
        """Returns the timestamp of the left record."""

    @abstractmethod
    def get_right_timestamp(self) -> int:
        """Returns the timestamp of the right record."""

    @abstractmethod
    def get_timestamp(self) -> int:
        """Returns the later of both timestamps, which is the timestamp of the results."""


class ProcessJoinFunction(Function, ABC, Generic[IN1_contra, IN2_contra, OUT_co]):
    """Returns any number of results for each pair of an interval join: `ProcessJoinFunction[IN1, IN2, OUT]`.

    For example:

        class Delays(ProcessJoinFunction):
            def process_element(self, left: Order, right: Payment, ctx: ProcessJoinFunction.Context) -> Iterator[int]:
                yield ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    Context: TypeAlias = JoinContext

    @abstractmethod
    def process_element(
        self, left: IN1_contra, right: IN2_contra, ctx: JoinContext, /
    ) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called with each pair, `left` and `right`; returns or yields results, or `(tag, result)` for a side output.

        `ctx` has the timestamps of both records.
        """


class TaggedUnion(NamedTuple):
    """A record of either of two streams: what assigners, triggers and evictors of a window join get."""

    one: Any
    two: Any
    from_second: bool

    def is_one(self) -> bool:
        """Whether it is of the first stream."""
        return not self.from_second

    def is_two(self) -> bool:
        """Whether it is of the second stream."""
        return self.from_second

    def get_one(self) -> Any:
        """The record, if it is of the first stream."""
        return self.one

    def get_two(self) -> Any:
        """The record, if it is of the second stream."""
        return self.two
