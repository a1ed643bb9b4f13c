"""What a worker reports of a task: its counts, and what it waits for. Gathered only when a report is due.

Called by the worker's loop between two steps, for tasks whose operators are open.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from millstream.core.jobs.details import TaskMetrics
from millstream.core.jobs.progress import NonePassed, OperatorProgress, StreamTime, TaskProgress, WatermarkOrigin
from millstream.core.messages.task_manager import AttemptMetrics

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.task import Task


def attempt_metrics(task: Task) -> AttemptMetrics:
    """The reported metrics of a task."""
    progress = _progress(task)
    return AttemptMetrics(task.attempt_id, _metrics(task, progress), progress)


def _progress(task: Task) -> TaskProgress:
    names = {channel.channel_id: channel.name for gate in task.gates for channel in gate.channels}

    def describe(channel: Hashable, stream: StreamTime) -> StreamTime:
        return replace(stream, name=names.get(channel, ""))  # type: ignore[call-overload]  # the ids of channels

    reported = [
        operator.progress() or silent
        for operator, silent in zip(task.chain.operators, _none_passed(task), strict=True)
    ]
    return TaskProgress(
        task.steps.event_time.progress(describe) if task.gates else None,
        tuple(progress for progress in reported if progress is not None),
    )


def _none_passed(task: Task) -> Iterator[OperatorProgress | None]:
    """For each operator of the chain, its progress if it has a consumer but emitted nothing; sources are left out."""
    chain = task.chain
    for at, (spec, left) in enumerate(zip(chain.specs, chain.passed, strict=True)):
        silent = spec.outputs and spec.spec.inputs and not any(passed.records for passed in left.values())
        taken = chain.records_into(at, task.counts.records_taken)
        yield OperatorProgress(spec.name, NonePassed(taken)) if silent else None


def _metrics(task: Task, progress: TaskProgress) -> TaskMetrics:
    inputs = None if progress.inputs is None else progress.inputs.watermark
    aligned = [
        each.kind.alignment.drift_ms
        for each in progress.operators
        if isinstance(each.kind, WatermarkOrigin) and each.kind.alignment is not None
    ]
    return replace(
        task.counts.metrics(),
        input_watermark=inputs,
        output_watermark=max((partition.watermark for partition in task.partitions), default=inputs),
        alignment_drift_ms=aligned[0] if aligned else None,
    )
