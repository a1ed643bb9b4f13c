"""The functions that users write, with PyFlink's names: rich functions, their context, metrics and accumulators.

Call order of a rich function in its task: `open` once before the first record, then its method for each record, then
`close` exactly once, also when the task failed or was cancelled. All calls come from the slot worker's one thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from millstream.core.records.types import PICKLED, TypeInformation, from_hint
from millstream.datastream.state import BroadcastState, KeyedStateStore, MapStateDescriptor, ReadOnlyBroadcastState
from millstream.datastream.time_domain import TimeDomain
from millstream.datastream.timerservice import TimerService

T = TypeVar("T")


class Counter:
    """A metric that counts; reported with the task's metrics and with the job's result."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Adds to the count."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Takes from the count."""
        self._count -= n

    def get_count(self) -> int:
        """The count so far."""
        return self._count


class MetricGroup(ABC):
    """Where a function registers its metrics."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """The counter of this name in this subtask; the same one each time."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group whose metrics are named below this one's."""


class Accumulator(ABC, Generic[T]):
    """A value that each subtask adds to and that the job's result holds, merged over all subtasks."""

    @abstractmethod
    def add(self, value: Any) -> None:
        """Adds a value, in the task."""

    @abstractmethod
    def get_local_value(self) -> T:
        """What this subtask accumulated, or what was merged."""

    @abstractmethod
    def merge(self, other: Accumulator[T]) -> None:
        """Takes another subtask's value in, on the client."""


class IntCounter(Accumulator[int]):
    """Sums whole numbers."""

    def __init__(self, value: int = 0) -> None:
        self._value = value

    def add(self, value: int) -> None:
        """Adds a number."""
        self._value += value

    def get_local_value(self) -> int:
        """The sum."""
        return self._value

    def merge(self, other: Accumulator[int]) -> None:
        """Adds the other's sum."""
        self._value += other.get_local_value()


class DoubleCounter(Accumulator[float]):
    """Sums floating-point numbers."""

    def __init__(self, value: float = 0.0) -> None:
        self._value = value

    def add(self, value: float) -> None:
        """Adds a number."""
        self._value += value

    def get_local_value(self) -> float:
        """The sum."""
        return self._value

    def merge(self, other: Accumulator[float]) -> None:
        """Adds the other's sum."""
        self._value += other.get_local_value()


class ListAccumulator(Accumulator[list[Any]]):
    """Gathers values, in no particular order over subtasks."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def add(self, value: Any) -> None:
        """Appends a value."""
        self._values.append(value)

    def get_local_value(self) -> list[Any]:
        """The values."""
        return self._values

    def merge(self, other: Accumulator[list[Any]]) -> None:
        """Appends the other's values."""
        self._values.extend(other.get_local_value())


class Histogram(Accumulator[dict[int, int]]):
    """Counts how often each whole number occurs."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        """Counts one occurrence."""
        self._counts[value] = self._counts.get(value, 0) + 1

    def get_local_value(self) -> dict[int, int]:
        """Occurrences by number, sorted."""
        return dict(sorted(self._counts.items()))

    def merge(self, other: Accumulator[dict[int, int]]) -> None:
        """Adds the other's counts."""
        for value, count in other.get_local_value().items():
            self._counts[value] = self._counts.get(value, 0) + count


class RuntimeContext(KeyedStateStore, ABC):
    """What a rich function can ask about the task that it runs in, and where it gets its keyed state."""

    @abstractmethod
    def get_job_id(self) -> str:
        """The job's id."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The operator's name."""

    def get_operator_unique_id(self) -> str:
        """What tells the operator from all others of the job, the same in every attempt."""
        return self.get_task_name()

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken of the job."""
        return False

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The operator's parallelism."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """From 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """0 for the first attempt."""

    def get_task_name_with_subtasks(self) -> str:
        """The name with the subtask, as in `map (1/4)`."""
        return (
            f"{self.get_task_name()} ({self.get_index_of_this_subtask() + 1}/{self.get_number_of_parallel_subtasks()})"
        )

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """An option of the job's configuration."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Where to register metrics."""

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any]) -> None:
        """Registers an accumulator; its merged value is in the job's result under this name."""

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any]:
        """The accumulator registered under this name in this subtask."""


class Function:
    """Base of rich functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first record."""

    def close(self) -> None:
        """Called once after the last record, and when the task fails or is cancelled."""


class MapFunction(Function, ABC):
    """One record in, one out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Called for each record."""


class FlatMapFunction(Function, ABC):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """Called for each record; answers or yields what follows from it."""


class FilterFunction(Function, ABC):
    """Keeps some records."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Called for each record; true keeps it."""


class ReduceFunction(Function, ABC):
    """Combines two values of one key into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Called with the value so far and a new record."""


class AggregateFunction(Function, ABC):
    """Adds values to an accumulator, of which the result is taken; the three may have different types."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new accumulator, to which nothing was added."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with the value added: a new one, or the same one changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of what was added."""

    @abstractmethod
    def merge(self, acc1: Any, acc2: Any) -> Any:
        """One accumulator of two; either may be changed and answered."""


class KeySelector(ABC):
    """Takes the key from a record; must answer the same key for the same record every time."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Called for each record, on both sides of the shuffle."""


class Partitioner(ABC):
    """Chooses the consumer for a key."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Answers a number from 0 to num_partitions - 1."""


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output: `yield tag, value` in a process function, `stream.get_side_output(tag)` to read it."""

    tag_id: str
    type_info: Any = PICKLED

    @property
    def type(self) -> TypeInformation:
        """The declared type of what goes there."""
        return from_hint(self.type_info)


class Context(ABC):
    """What a process function can ask about the record at hand. Valid only during the call that it was passed to."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """The record's event timestamp, or None."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """The clocks; on keyed streams also timers."""


class KeyedContext(Context):
    """The same on a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """The key of the record at hand."""


class OnTimerContext(KeyedContext):
    """What `on_timer` can ask. The key is the timer's, and the timestamp its time."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Whose clock has come to the timer's time."""


_TimerContext = OnTimerContext  # its name where `OnTimerContext` is a member of functions


_ProcessContext = Context  # its name inside ProcessFunction, where `Context` is PyFlink's name for it


class ProcessFunction(Function, ABC):
    """The general function: any number out, side outputs, and the record's context."""

    Context: TypeAlias = _ProcessContext

    @abstractmethod
    def process_element(self, value: Any, ctx: _ProcessContext) -> Iterable[Any] | None:
        """Called for each record; yields results, or `(tag, result)` for a side output."""


class KeyedProcessFunction(Function, ABC):
    """The same on a keyed stream, with timers."""

    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = _TimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for each record; yields results, or `(tag, result)` for a side output."""

    def on_timer(self, timestamp: int, ctx: _TimerContext) -> Iterable[Any] | None:
        """Called when a timer that the function registered has come to its time; yields as `process_element`."""


def as_callable(function: Any, method: str) -> Callable[..., Any]:
    """The bound method of a rich function, or the plain callable as it is."""
    bound = getattr(function, method, None)
    if isinstance(function, Function | KeySelector | Partitioner) and bound is not None:
        return bound  # type: ignore[no-any-return]  # a bound method of a user's class
    if not callable(function):
        raise TypeError(f"expected a callable or an object with a method '{method}', got {type(function).__qualname__}")
    return function  # type: ignore[no-any-return]  # checked to be callable


class CoMapFunction(Function, ABC):
    """One record out for each record of two connected streams. A result of None is dropped."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Called for each record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Called for each record of the second stream."""


class CoFlatMapFunction(Function, ABC):
    """Any number out for each record of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Called for each record of the second stream."""


class CoProcessFunction(Function, ABC):
    """The general function of two connected streams: any number out, side outputs, and the record's context."""

    Context: TypeAlias = _ProcessContext

    @abstractmethod
    def process_element1(self, value: Any, ctx: _ProcessContext) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: _ProcessContext) -> Iterable[Any] | None:
        """Called for each record of the second stream."""


class KeyedCoProcessFunction(Function, ABC):
    """The same on two streams that are keyed alike: records of one key meet in one subtask and share its state."""

    Context: TypeAlias = KeyedContext
    OnTimerContext: TypeAlias = _TimerContext

    def on_timer(self, timestamp: int, ctx: _TimerContext) -> Iterable[Any] | None:
        """Called when a timer that the function registered has come to its time; yields as `process_element1`."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for each record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedContext) -> Iterable[Any] | None:
        """Called for each record of the second stream."""


class BroadcastContext(Context):
    """What the broadcast side can ask: it reads and writes the broadcast states."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """The state of this descriptor, which was passed to `broadcast(...)`. Write the same on every subtask."""


class ReadOnlyBroadcastContext(Context):
    """What the side that is not broadcast can ask: it only reads the broadcast states."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """The state of this descriptor, which was passed to `broadcast(...)`."""


class KeyedReadOnlyBroadcastContext(ReadOnlyBroadcastContext, KeyedContext):
    """The same when that side is keyed."""


class BroadcastTimerContext(KeyedReadOnlyBroadcastContext, OnTimerContext):
    """What `on_timer` can ask beside a broadcast stream."""


class BaseBroadcastProcessFunction(Function, ABC):
    """What the two functions for a stream and a broadcast one share."""

    Context: TypeAlias = BroadcastContext

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastContext) -> Iterable[Any] | None:
        """Called on every subtask for each broadcast record; may write the broadcast states."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """Applies what is broadcast, such as rules, to the records of another stream."""

    ReadOnlyContext: TypeAlias = ReadOnlyBroadcastContext

    @abstractmethod
    def process_element(self, value: Any, ctx: ReadOnlyBroadcastContext) -> Iterable[Any] | None:
        """Called for each record that is not broadcast; may only read the broadcast states."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, ABC):
    """The same for a keyed stream. Keyed state belongs to `process_element`: a broadcast record has no key."""

    ReadOnlyContext: TypeAlias = KeyedReadOnlyBroadcastContext
    OnTimerContext: TypeAlias = BroadcastTimerContext

    def on_timer(self, timestamp: int, ctx: BroadcastTimerContext) -> Iterable[Any] | None:
        """Called when a timer that the function registered has come to its time; yields as `process_element`."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedReadOnlyBroadcastContext) -> Iterable[Any] | None:
        """Called for each record of the keyed stream; may only read the broadcast states."""
