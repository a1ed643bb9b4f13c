"""The metrics of one task and its operators, under Flink's names. Owned by the worker's loop.

Gathered only when a report is due, from what the task counts once per batch: nothing here is called per record. The
task manager adds variables such as the job and its own id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.core.jobs.details import TaskMetrics
from millstream.core.metrics.model import MeterReading, MetricGroup, Number, Scope
from millstream.core.metrics.rates import Rates
from millstream.core.records.batches import MIN_TIMESTAMP
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.task import Task

_TIMES = {
    "busyTimeMsPerSecond": "accumulateBusyTimeMs",
    "idleTimeMsPerSecond": "accumulateIdleTimeMs",
    "backPressuredTimeMsPerSecond": "accumulateBackPressuredTimeMs",
}


class TaskFigures:
    """The metrics of one task."""

    __slots__ = ("_entry_bytes", "_rates", "_sizes", "_task", "_variables")

    def __init__(self, task: Task, now: float) -> None:
        self._task = task
        self._rates = Rates(now)
        self._sizes: dict[tuple[str, str], int] = {}
        self._entry_bytes: dict[tuple[str, str], float] = {}  # of the checkpoint that the entries belong to
        deployment = task.deployment
        self._variables = {
            "task_id": deployment.vertex_id,
            "task_name": deployment.task_name,
            "task_attempt_id": deployment.attempt_id,
            "task_attempt_num": str(deployment.attempt),
            "subtask_index": str(deployment.subtask),
        }

    def groups(self, reported: TaskMetrics, now: float) -> list[MetricGroup]:
        """All metric groups; `reported` is what the task reports of itself at this moment."""
        operators = self._operators()
        counts = {
            "numRecordsIn": reported.records_in,
            "numRecordsOut": reported.records_out,
            "numBytesIn": reported.bytes_in,
            "numBytesOut": reported.bytes_out,
            "numBuffersOut": sum(partition.buffers_out for partition in self._task.partitions),
        }
        times = {
            "accumulateBusyTimeMs": reported.busy_ms,
            "accumulateIdleTimeMs": reported.idle_ms,
            "accumulateBackPressuredTimeMs": reported.backpressured_ms,
        }
        passed = {f"{at}.{name}": count for at, found in enumerate(operators) for name, count in found[1].items()}
        leaving = {f"{at}.out": partition.records_out for at, partition in enumerate(self._task.partitions)}
        rates = self._rates.update(now, {**counts, **times, **passed, **leaving})
        task = MetricGroup(
            Scope.TASK,
            self._variables,
            counters=counts,
            gauges={
                **times,
                **{name: min(rates[of], 1000.0) for name, of in _TIMES.items()},
                **self._buffers(reported),
                **self._event_time(reported),
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
        users = self._task.counts.functions.groups(reported, lambda name: by_name.get(name, self._variables))
        latencies = self._task.chain.latencies
        return [
            task, *of_operators, *self._edges(rates), *self._hot_keys(), *self._states(), *users,
            *(latencies.groups() if latencies is not None else ()),
        ]  # fmt: skip

    def _edges(self, rates: Mapping[str, float]) -> list[MetricGroup]:
        """The metrics of each edge at this end, once it is built.

        Between tasks of one worker there is no credit: they share a queue.
        """
        task, groups = self._task, list[MetricGroup]()
        for at, (output, partition) in enumerate(zip(task.deployment.outputs, task.partitions, strict=False)):
            gauges: dict[str, Number] = {"outputQueueLength": partition.queued}
            if partition.capacity:
                gauges["outputCredit"] = partition.credit
            sent = MeterReading(partition.records_out, rates[f"{at}.out"])
            counters, meters = {"numRecordsOut": sent.count}, {"numRecordsOutPerSecond": sent}
            groups.append(self._edge(output.edge, gauges, counters, meters))
        for entering, gate in zip(task.deployment.inputs, task.gates, strict=False):
            watermark = task.steps.event_time.lowest(channel.channel_id for channel in gate.channels)
            arrived: dict[str, Number] = {"inputQueueLength": gate.queued, "currentInputWatermark": watermark}
            groups.append(self._edge(entering.edge, arrived, {}, {}))
        return groups

    def _edge(
        self, name: str, gauges: dict[str, Number], counters: dict[str, int], meters: dict[str, MeterReading]
    ) -> MetricGroup:
        return MetricGroup(
            Scope.TASK, {**self._variables, "edge": name}, ("edge", name), ("edge",), counters, gauges, meters
        )

    def _hot_keys(self) -> list[MetricGroup]:
        """The hot keys of the operator that takes the task's input, over all of its keyed inputs."""
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

    def _event_time(self, reported: TaskMetrics) -> dict[str, Number]:
        found: dict[str, Number] = {}
        if reported.input_watermark is not None:
            found["currentInputWatermark"] = reported.input_watermark
        if reported.output_watermark is not None:
            found["currentOutputWatermark"] = reported.output_watermark
        if reported.alignment_drift_ms is not None:
            found["watermarkAlignmentDrift"] = reported.alignment_drift_ms
        return found

    def _buffers(self, reported: TaskMetrics) -> dict[str, Number]:
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
        """The variables, the counters and the gauges of each operator."""
        task, chain = self._task, self._task.chain
        arrived = task.steps.event_time.timestamp if task.gates else None
        found: list[tuple[dict[str, str], dict[str, int], dict[str, Number]]] = []
        for at, (spec, before) in enumerate(zip(chain.specs, chain.entered, strict=True)):
            behind, written = chain.passed[at].values(), chain.operators[at].records_written
            records_in = chain.records_into(at, task.counts.records_taken)
            gauges: dict[str, Number] = {}
            watermark = min((one.watermark for one in before), default=arrived) if at else arrived
            if watermark is not None:
                gauges["currentInputWatermark"] = watermark
            gauges["currentOutputWatermark"] = max((one.watermark for one in behind), default=MIN_TIMESTAMP)
            variables = {**self._variables, "operator_id": spec.operator_id, "operator_name": spec.name}
            counts = {"numRecordsIn": records_in, "numRecordsOut": written + sum(one.records for one in behind)}
            if spec.spec.is_sink:
                counts["numRecordsSend"] = written
            found.append((variables, counts, gauges))
        return found

    def _states(self) -> list[MetricGroup]:
        specs, operators = self._task.chain.specs, self._task.chain.operators
        entries = {
            (spec.operator_id, name): count
            for spec, operator in zip(specs, operators, strict=True)
            for name, count in operator.state_entries().items()
        }
        sizes = self._task.checkpoints.state_sizes
        if sizes is not self._sizes:
            self._sizes = sizes
            self._entry_bytes = {of: size / entries[of] for of, size in sizes.items() if entries.get(of)}
        names = {spec.operator_id: spec.name for spec in specs}
        gauges: dict[tuple[str, str], dict[str, Number]] = {}
        for of, size in sizes.items():
            gauges.setdefault(of, {})["lastCheckpointBytes"] = size
        totals: dict[str, int] = {}
        for of, count in entries.items():
            gauges.setdefault(of, {})["numEntries"] = count
            totals[of[0]] = totals.get(of[0], 0) + count
            if of in self._entry_bytes:
                gauges[of]["estimatedBytes"] = round(self._entry_bytes[of] * count)

        def variables(operator_id: str) -> dict[str, str]:
            return {**self._variables, "operator_id": operator_id, "operator_name": names.get(operator_id, operator_id)}

        return [
            *(MetricGroup(Scope.OPERATOR, variables(of), gauges={"numStateEntries": n}) for of, n in totals.items()),
            *(
                MetricGroup(
                    Scope.OPERATOR, {**variables(of), "state": state}, ("state", state), ("state",), gauges=known
                )
                for (of, state), known in gauges.items()
            ),
        ]  # fmt: skip
