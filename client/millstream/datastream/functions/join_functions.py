"""Functions of two streams that are joined: in windows, or by how close records are in event time.

PyFlink's DataStream API has no such joins; the names are those of Flink's Java API.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from millstream.datastream.functions.function import Function

IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
OUT = TypeVar("OUT")


class JoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """One result for each pair of records."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> OUT:
        """Called with each two records that have the same key and window."""


class FlatJoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any number of results for each pair of records."""

    @abstractmethod
    def join(self, first: IN1, second: IN2) -> Iterable[OUT] | None:
        """Called with each two records that have the same key and window; answers or yields results."""


class CoGroupFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any number of results for all records of both streams that have the same key and window."""

    @abstractmethod
    def co_group(self, first: Iterable[IN1], second: Iterable[IN2]) -> Iterable[OUT] | None:
        """Called when a window is evaluated; one of the two may be empty. Answers or yields results."""


class JoinContext(ABC):
    """What a process function of an interval join can ask. Valid only during the call that it was passed to."""

    @abstractmethod
    def get_left_timestamp(self) -> int:
        """The first record's."""

    @abstractmethod
    def get_right_timestamp(self) -> int:
        """The second record's."""

    @abstractmethod
    def get_timestamp(self) -> int:
        """The later one of both, which the results have too."""


class ProcessJoinFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any number of results for each pair of an interval join."""

    Context: TypeAlias = JoinContext

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: JoinContext) -> Iterable[OUT] | None:
        """Called with each pair; answers or yields results, or `(tag, result)` for a side output."""


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
