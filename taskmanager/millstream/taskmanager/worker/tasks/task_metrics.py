"""The metrics of one task and its operators, under Flink's names. Owned by the worker's loop.

Gathered only when a report is due, from what the task counts a batch at a time anyway: nothing here is called for a
record. The task manager adds the variables that it knows better, such as the job and its own id.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from millstream.core.jobs.details import TaskMetrics
from millstream.core.metrics.model import MeterReading, MetricGroup, Number, Scope
from millstream.core.metrics.rates import Rates
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.taskmanager.worker.operators.output import Passed
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.task import Task

_TIMES = {
    "busyTimeMsPerSecond": "accumulateBusyTimeMs",
    "idleTimeMsPerSecond": "accumulateIdleTimeMs",
    "backPressuredTimeMsPerSecond": "accumulateBackPressuredTimeMs",
}


class TaskFigures:
    """Of one task; made with it."""

    __slots__ = ("_rates", "_task", "_variables")

    def __init__(self, task: Task, now: float) -> None:
        self._task = task
        self._rates = Rates(now)
        deployment = task.deployment
        self._variables = {
            "task_id": deployment.vertex_id,
            "task_name": deployment.task_name,
            "task_attempt_id": deployment.attempt_id,
            "task_attempt_num": str(deployment.attempt),
            "subtask_index": str(deployment.subtask),
        }

    def groups(self, told: TaskMetrics, now: float) -> list[MetricGroup]:
        """All there is to say; `told` is what the task reports of itself at this moment."""
        operators = self._operators()
        counts = {
            "numRecordsIn": told.records_in,
            "numRecordsOut": told.records_out,
            "numBytesIn": told.bytes_in,
            "numBytesOut": told.bytes_out,
            "numBuffersOut": sum(partition.buffers_out for partition in self._task.partitions),
        }
        times = {
            "accumulateBusyTimeMs": told.busy_ms,
            "accumulateIdleTimeMs": told.idle_ms,
            "accumulateBackPressuredTimeMs": told.backpressured_ms,
        }
        passed = {(at, name): count for at, found in enumerate(operators) for name, count in found[1].items()}
        rates = self._rates.update(
            now, {**counts, **times, **{f"{at}.{name}": count for (at, name), count in passed.items()}}
        )
        task = MetricGroup(
            Scope.TASK,
            self._variables,
            counters=counts,
            gauges={
                **times,
                **{name: min(rates[of], 1000.0) for name, of in _TIMES.items()},
                **self._buffers(told),
                **self._event_time(told),
            },
            meters={f"{name}PerSecond": MeterReading(count, rates[name]) for name, count in counts.items()},
        )
        of_operators = [
            MetricGroup(
                Scope.OPERATOR,
                variables,
                counters=found,
                gauges=gauges,
                meters={f"{n}PerSecond": MeterReading(count, rates[f"{at}.{n}"]) for n, count in found.items()},
            )
            for at, (variables, found, gauges) in enumerate(operators)
        ]
        by_name = {variables["operator_name"]: variables for variables, _, _ in operators}
        users = self._task.counts.functions.groups(told, lambda name: by_name.get(name, self._variables))
        latencies = self._task.chain.latencies
        return [
            task, *of_operators, *self._hot_keys(), *self._states(), *users,
            *(latencies.groups() if latencies is not None else ()),
        ]  # fmt: skip

    def _hot_keys(self) -> list[MetricGroup]:
        """Of the operator that takes the task's input: those of all its inputs with keys together."""
        sketches = [gate.keys for gate in self._task.gates if gate.keys is not None and gate.keys.sampled]
        specs = self._task.chain.specs
        if not sketches or not specs:
            return []
        sampled, top = sum(sketch.sampled for sketch in sketches), Counter[str]()
        for sketch in sketches:
            top.update(sketch.top())
        variables = {**self._variables, "operator_id": specs[0].operator_id, "operator_name": specs[0].name}
        gauges: dict[str, Number] = {"hotKeyShare": min(1.0, max(top.values()) / sampled), "numKeysSampled": sampled}
        return [MetricGroup(Scope.OPERATOR, variables, gauges=gauges, tops={"hotKeys": dict(top)})]

    def _event_time(self, told: TaskMetrics) -> dict[str, Number]:
        found: dict[str, Number] = {}
        if told.input_watermark is not None:
            found["currentInputWatermark"] = told.input_watermark
        if told.output_watermark is not None:
            found["currentOutputWatermark"] = told.output_watermark
        if told.alignment_drift_ms is not None:
            found["watermarkAlignmentDrift"] = told.alignment_drift_ms
        return found

    def _buffers(self, told: TaskMetrics) -> dict[str, Number]:
        task = self._task
        queued_in = sum(gate.queued for gate in task.gates)
        queued_out = sum(partition.queued for partition in task.partitions)
        room_in = sum(gate.capacity for gate in task.gates)
        room_out = sum(partition.capacity for partition in task.partitions)
        return {
            "isBackPressured": int(task.steps.last_result is StepResult.BACKPRESSURED),
            "buffers.inputQueueLength": queued_in,
            "buffers.outputQueueLength": queued_out,
            "buffers.inPoolUsage": min(queued_in / room_in, 1.0) if room_in else 0.0,
            "buffers.outPoolUsage": min(queued_out / room_out, 1.0) if room_out else 0.0,
            "buffers.outputCredit": sum(partition.credit for partition in task.partitions),
            "checkpointAlignmentTime": round(task.checkpoints.alignment_seconds * 1e9),
            "checkpointStartDelayNanos": task.checkpoints.start_delay_ms * 1_000_000,
        }

    def _operators(self) -> list[tuple[dict[str, str], dict[str, int], dict[str, Number]]]:
        """Of each operator: its variables, what it counts, and its gauges."""
        task, chain = self._task, self._task.chain
        entering: list[list[Passed]] = [[] for _ in chain.specs]
        for spec, passed in zip(chain.specs, chain.passed, strict=True):
            for edge in spec.outputs:
                if edge.operator is not None:
                    entering[edge.operator].append(passed[edge.tag])
        arrived = task.steps.event_time.timestamp if task.gates else None
        found: list[tuple[dict[str, str], dict[str, int], dict[str, Number]]] = []
        for at, spec in enumerate(chain.specs):
            before, behind = entering[at], chain.passed[at].values()
            records_in = sum(one.records for one in before) if at else task.counts.records_taken
            gauges: dict[str, Number] = {}
            watermark = min((one.watermark for one in before), default=arrived) if at else arrived
            if watermark is not None:
                gauges["currentInputWatermark"] = watermark
            gauges["currentOutputWatermark"] = max((one.watermark for one in behind), default=MIN_TIMESTAMP)
            variables = {**self._variables, "operator_id": spec.operator_id, "operator_name": spec.name}
            counts = {"numRecordsIn": records_in, "numRecordsOut": sum(one.records for one in behind)}
            found.append((variables, counts, gauges))
        return found

    def _states(self) -> list[MetricGroup]:
        sizes = self._task.checkpoints.state_sizes
        names = {spec.operator_id: spec.name for spec in self._task.chain.specs}
        return [
            MetricGroup(
                Scope.OPERATOR,
                {
                    **self._variables,
                    "operator_id": operator_id,
                    "operator_name": names.get(operator_id, operator_id),
                    "state": state,
                },
                ("state", state),
                ("state",),
                gauges={"lastCheckpointBytes": size},
            )
            for (operator_id, state), size in sizes.items()
        ]
