"""Functions of one record, or of the values of one key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol

from millstream.core.records.type_variables import ACC, IN_contra, K_co, KEY_contra, OUT_co, T
from millstream.datastream.functions.function import Function


class MapFunction(Function, Generic[IN_contra, OUT_co], ABC):
    """Returns one record for each record; `MapFunction[int, str]` declares their types.

    Example:
        class Parse(MapFunction[str, int]):
            def map(self, value: str) -> int:
                return int(value)

        stream.map(Parse())
    """

    @abstractmethod
    def map(self, value: IN_contra, /) -> OUT_co:
        """Called for each record, `value`; returns the record that replaces it. An exception fails the job."""


class FlatMapFunction(Function, Generic[IN_contra, OUT_co], ABC):
    """Returns any number of records for each record; `FlatMapFunction[str, str]` declares their types.

    For example:

        class Words(FlatMapFunction):
            def flat_map(self, value: str) -> Iterator[str]:
                yield from value.split()
    """

    @abstractmethod
    def flat_map(self, value: IN_contra, /) -> Iterable[OUT_co] | None:
        """Called for each record, `value`; returns or yields its results.

        None is no result. An exception fails the job.
        """


class FilterFunction(Function, Generic[IN_contra], ABC):
    """Keeps some records and drops the others.

    For example:

        class Dear(FilterFunction):
            def filter(self, value: Order) -> bool:
                return value.price > 100
    """

    @abstractmethod
    def filter(self, value: IN_contra, /) -> bool:
        """Called for each record, `value`; a true result keeps the record. An exception fails the job."""


class MapBatchesFunction(Function, ABC):
    """Base of the functions for `DataStream.map_batches`: one call for a batch of records.

    Example:
        class Predict(MapBatchesFunction):
            def open(self, runtime_context: RuntimeContext) -> None:
                self.model = load_model()

            def map_batches(self, batch: pa.RecordBatch) -> pa.RecordBatch:
                return batch.append_column("score", self.model.predict(batch))
    """

    @abstractmethod
    def map_batches(self, batch: Any, /) -> Any:
        """Called for each Arrow record batch or pandas data frame; returns one of the same kind, or None for no result.

        The annotation of the parameter selects the kind, unless `map_batches` is called with a `batch_format`.
        """


class ReduceFunction(Function, Generic[T], ABC):
    """Combines two values of one key into one value of the same type.

    For example:

        class Dearest(ReduceFunction):
            def reduce(self, value1: Order, value2: Order) -> Order:
                return value1 if value1.price >= value2.price else value2
    """

    @abstractmethod
    def reduce(self, value1: T, value2: T, /) -> T:
        """Returns the new combined value of `value1`, the combined value so far, and `value2`, the next record."""


class SupportsReduce(Protocol[IN_contra, OUT_co]):
    """What type checkers see of a `ReduceFunction`, apart from the types of its arguments and of its result."""

    def reduce(self, value1: IN_contra, value2: IN_contra, /) -> OUT_co:
        """Combines two values."""


class AggregateFunction(Function, Generic[IN_contra, ACC, OUT_co], ABC):
    """Adds values to an accumulator and computes a result from it: `AggregateFunction[IN, ACC, OUT]`.

    For example:

        class Mean(AggregateFunction):
            def create_accumulator(self) -> tuple[float, int]:
                return 0.0, 0

            def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
                return accumulator[0] + value, accumulator[1] + 1

            def get_result(self, accumulator: tuple[float, int]) -> float:
                return accumulator[0] / accumulator[1]

            def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
                return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]
    """

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Returns an empty accumulator. Called for each new key and window."""

    @abstractmethod
    def add(self, value: IN_contra, accumulator: ACC, /) -> ACC:
        """Returns the accumulator with the value added. It may change and return the accumulator that it was given."""

    @abstractmethod
    def get_result(self, accumulator: ACC, /) -> OUT_co:
        """Returns the result of an accumulator. Called when a window is evaluated, or when state is read."""

    @abstractmethod
    def merge(self, acc_a: ACC, acc_b: ACC, /) -> ACC:
        """Returns one accumulator for `acc_a` and `acc_b`; it may change either. Called when session windows merge."""


class KeySelector(Function, Generic[IN_contra, K_co], ABC):
    """Extracts the key of a record.

    Each task that needs keys, on either side of the shuffle, opens and closes a selector of its own.

        class City(KeySelector):
            def get_key(self, value: Ride) -> str:
                return value.city
    """

    @abstractmethod
    def get_key(self, value: IN_contra, /) -> K_co:
        """Returns the key of the record `value`: always the same for the same record, on every machine."""


class Partitioner(Function, Generic[KEY_contra], ABC):
    """Selects the subtask that receives a record. Each sending task opens and closes a partitioner of its own.

    For example:

        class Even(Partitioner):
            def partition(self, key: int, num_partitions: int) -> int:
                return key % num_partitions
    """

    @abstractmethod
    def partition(self, key: KEY_contra, num_partitions: int, /) -> int:
        """Returns the number of the subtask that receives records of `key`, from 0 to `num_partitions` - 1."""


def as_callable(function: Any, method: str) -> Callable[..., Any]:
    """The bound method of a rich function, or the plain callable as it is."""
    bound = getattr(function, method, None)
    if isinstance(function, Function) and bound is not None:
        return bound  # type: ignore[no-any-return]  # a bound method of a user's class
    if not callable(function):
        raise TypeError(
            f"expected a callable or a function class derived from Function with a method '{method}', got "
            f"{type(function).__qualname__}"
        )
    return function  # type: ignore[no-any-return]  # checked to be callable
