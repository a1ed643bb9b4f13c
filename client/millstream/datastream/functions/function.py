"""The bases of rich functions, `Function` and `TimedFunction`, and what they can ask about their task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from millstream.core.records.type_variables import OUT_co
from millstream.datastream.functions.accumulators import Accumulator
from millstream.datastream.functions.checkpoint_listener import CheckpointListener
from millstream.datastream.output_tag import OutputTag
from millstream.datastream.state import KeyedStateStore
from millstream.metrics import MetricGroup

C_contra = TypeVar("C_contra", contravariant=True)


class RuntimeContext(KeyedStateStore, ABC):
    """The task that a rich function runs in: its job, its place, its metrics and its keyed state. Passed to `open`."""

    @abstractmethod
    def get_job_id(self) -> str:
        """Returns the id of the job: 32 hexadecimal digits."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Returns the name of the operator."""

    def get_operator_unique_id(self) -> str:
        """Returns the id of the operator, which is unique in its job and the same in every attempt."""
        return self.get_task_name()

    def is_checkpointing_enabled(self) -> bool:
        """Returns whether the job takes checkpoints."""
        return False

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the parallelism of the operator."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the maximum parallelism of the operator, which is its number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Returns the number of this subtask, from 0 to the parallelism - 1.

        For example:

            if runtime_context.get_index_of_this_subtask() == 0:
                print("the first subtask")
        """

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Returns how often the task was started before: 0 in the first attempt."""

    def get_task_name_with_subtasks(self) -> str:
        """Returns the name of the operator with the subtask, as in `map (1/4)`."""
        return (
            f"{self.get_task_name()} ({self.get_index_of_this_subtask() + 1}/{self.get_number_of_parallel_subtasks()})"
        )

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """Returns a job parameter, or an option of the job's configuration; `default_value` if the key is not set.

        For example:

            currency = runtime_context.get_job_parameter("currency", "EUR")
        """

    def get_job_parameters(self) -> dict[str, str]:
        """Returns the parameters that are set by `Configuration`, `-D` or `set_global_job_parameters`."""
        return {}

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Returns the group of metrics of the operator: `get_metrics_group().counter("errors")`.

        For example:

            self.misses = runtime_context.get_metrics_group().counter("misses")
        """

    @abstractmethod
    def add_accumulator(self, name: str, accumulator: Accumulator[Any]) -> None:
        """Registers an accumulator; the result of the job holds its merged value under this name.

        Raises an error when the name is already registered.

            runtime_context.add_accumulator("lines", IntCounter())
        """

    @abstractmethod
    def get_accumulator(self, name: str) -> Accumulator[Any]:
        """Returns the accumulator that is registered under this name in this subtask.

        For example:

            runtime_context.get_accumulator("lines").add(1)
        """


class Function(CheckpointListener):
    """Base of rich functions: `open` and `close` are called once in each subtask, around all records."""

    def open(self, runtime_context: RuntimeContext, /) -> None:
        """Called once before the first record; gets state, registers metrics and opens connections.

        `runtime_context` has the state, the metrics and the place of this subtask. An exception fails the task, which
        the job's restart strategy then handles.
        """

    def close(self) -> None:
        """Called once after the last record, and also when the task has failed or is cancelled."""


class TimedFunction(Function, Generic[C_contra, OUT_co]):
    """Base of the functions of keyed streams, which can register timers."""

    def on_timer(self, timestamp: int, ctx: C_contra, /) -> Iterable[OUT_co | tuple[OutputTag[Any], Any]] | None:
        """Called when a registered timer fires; yields results as for a record.

        `timestamp` is the time of the timer in milliseconds; `ctx` has its key and its time domain, and keyed state is
        that of the key.
        """
