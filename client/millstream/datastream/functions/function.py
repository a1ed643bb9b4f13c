"""The bases of rich functions, `Function` and `TimedFunction`, and what they can ask about their task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from millstream.datastream.functions.accumulators import Accumulator
from millstream.datastream.state import KeyedStateStore
from millstream.metrics import MetricGroup

C = TypeVar("C")


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
        """A job parameter, or an option of the job's configuration."""

    def get_job_parameters(self) -> dict[str, str]:
        """What the program set under keys of its own, by `Configuration`, `-D` or `set_global_job_parameters`."""
        return {}

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


class TimedFunction(Function, Generic[C]):
    """Base of the functions of keyed streams, which can set timers."""

    def on_timer(self, timestamp: int, ctx: C) -> Iterable[Any] | None:
        """Called when a timer that the function registered has come to its time; yields as for a record."""
