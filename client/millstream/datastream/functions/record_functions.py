"""Functions of one record, or of the values of one key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic

from millstream.datastream.functions.function import Function

if TYPE_CHECKING:  # with defaults, so that `MapFunction` without types is as good as with them
    from typing_extensions import TypeVar

    IN = TypeVar("IN", default=Any)
    ACC = TypeVar("ACC", default=Any)
    OUT = TypeVar("OUT", default=Any)
    KEY = TypeVar("KEY", default=Any)
else:
    from typing import TypeVar

    IN, ACC, OUT, KEY = map(TypeVar, ("IN", "ACC", "OUT", "KEY"))


class MapFunction(Function, Generic[IN, OUT], ABC):
    """One record in, one out; `MapFunction[int, str]` says of which types."""

    @abstractmethod
    def map(self, value: IN) -> OUT:
        """Called for each record."""


class FlatMapFunction(Function, Generic[IN, OUT], ABC):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: IN) -> Iterable[OUT]:
        """Called for each record; answers or yields what follows from it."""


class FilterFunction(Function, Generic[IN], ABC):
    """Keeps some records."""

    @abstractmethod
    def filter(self, value: IN) -> bool:
        """Called for each record; true keeps it."""


class ReduceFunction(Function, Generic[IN], ABC):
    """Combines two values of one key into one of the same type."""

    @abstractmethod
    def reduce(self, value1: IN, value2: IN) -> IN:
        """Called with the value so far and a new record."""


class AggregateFunction(Function, Generic[IN, ACC, OUT], ABC):
    """Adds values to an accumulator, of which the result is taken; the three may have different types."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """A new accumulator, to which nothing was added."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """The accumulator with the value added: a new one, or the same one changed."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """The result of what was added."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """One accumulator of two; either may be changed and answered."""


class KeySelector(Function, Generic[IN, KEY], ABC):
    """Takes the key from a record; must answer the same key for the same record every time.

    Each task that asks for keys, on either side of a shuffle, has a selector of its own, which it opens and closes.
    """

    @abstractmethod
    def get_key(self, value: IN) -> KEY:
        """Called for each record, on both sides of the shuffle."""


class Partitioner(Function, ABC):
    """Chooses the consumer for a key; each task that sends records has its own, which it opens and closes."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Answers a number from 0 to num_partitions - 1."""


def as_callable(function: Any, method: str) -> Callable[..., Any]:
    """The bound method of a rich function, or the plain callable as it is."""
    bound = getattr(function, method, None)
    if isinstance(function, Function) and bound is not None:
        return bound  # type: ignore[no-any-return]  # a bound method of a user's class
    if not callable(function):
        raise TypeError(f"expected a callable or an object with a method '{method}', got {type(function).__qualname__}")
    return function  # type: ignore[no-any-return]  # checked to be callable
