"""The runtime context of one operator in one subtask, with its metrics and accumulators."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.names import why_unwritable
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.overriding import override
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.execution import (
    CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED,
    CHECKPOINTING_INTERVAL,
)
from millstream.core.settings.own_keys import job_parameters
from millstream.datastream.functions import Accumulator, Counter, MetricGroup, RuntimeContext
from millstream.datastream.state import State, StateAccessError
from millstream.datastream.state.descriptors import StateDescriptor
from millstream.taskmanager.worker.function_metrics import FunctionMetrics, GroupPlace, TaskMetricGroup
from millstream.taskmanager.worker.state.adopting import adopting
from millstream.taskmanager.worker.state.backend import KeyedStateBackend


class TaskRuntimeContext(RuntimeContext):
    """The runtime context of one operator in one subtask."""

    def __init__(
        self,
        deployment: TaskDeployment,
        operator_name: str,
        configuration: dict[str, str],
        counters: dict[str, Counter],
        accumulators: dict[str, Accumulator[Any]],
        metrics: FunctionMetrics | None = None,
    ) -> None:
        """With `metrics`, the counters are taken from there."""
        self._deployment = deployment
        self._name = operator_name
        self._configuration = configuration
        place = GroupPlace(operator_name)
        self._metrics = TaskMetricGroup(metrics or FunctionMetrics(counters), f"{operator_name}.", place)
        self._accumulators = accumulators
        self.operator_id = operator_name
        """Unique in the job."""
        self.keyed_backend: KeyedStateBackend | None = None
        """The operator's keyed state; None on a stream without keys."""

    def keyed_state(self, descriptor: StateDescriptor) -> State:
        """The state of a descriptor, scoped to the key of the current record."""
        if self.keyed_backend is None:
            raise StateAccessError(
                f"{self._name}: state '{descriptor.name}' requires a keyed stream, but the input of this "
                "operator is not keyed: call key_by before it"
            )
        state: State = adopting(descriptor, self.keyed_backend.state)
        return state

    @override
    def get_job_id(self) -> str:
        return self._deployment.job_id

    @override
    def get_task_name(self) -> str:
        return self._name

    @override
    def get_operator_unique_id(self) -> str:
        return self.operator_id

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken at an interval."""
        return Configuration(self._configuration).get(CHECKPOINTING_INTERVAL) > 0

    @property
    def has_final_checkpoint(self) -> bool:
        """Whether a checkpoint follows the end of the input."""
        after_end = CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED
        return self.is_checkpointing_enabled() and Configuration(self._configuration).get(after_end)

    def get_number_of_parallel_subtasks(self) -> int:
        """The operator's parallelism."""
        return self._deployment.parallelism

    @override
    def get_max_number_of_parallel_subtasks(self) -> int:
        return self._deployment.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """The index of this subtask, from 0."""
        return self._deployment.subtask

    def get_attempt_number(self) -> int:
        """The number of this attempt; 0 for the first."""
        return self._deployment.attempt

    def get_job_parameter(self, key: str, default_value: str | None = None) -> str | None:
        """A job parameter, or an option of the job's configuration."""
        return self.get_job_parameters().get(key, self._configuration.get(key, default_value))

    def get_job_parameters(self) -> dict[str, str]:
        """The job parameters that the program set under keys of its own."""
        return job_parameters(self._configuration)

    def get_metrics_group(self) -> MetricGroup:
        """The group to register metrics in."""
        return self._metrics

    def add_accumulator(self, name: str, accumulator: Accumulator[Any]) -> None:
        """Registers an accumulator for this subtask."""
        if why := why_unwritable(name):
            raise ValueError(f"the accumulator {why}")
        if name in self._accumulators:
            raise ValueError(f"an accumulator named '{name}' is already registered in this task")
        self._accumulators[name] = accumulator

    def get_accumulator(self, name: str) -> Accumulator[Any]:
        """The accumulator of this name."""
        return self._accumulators[name]
