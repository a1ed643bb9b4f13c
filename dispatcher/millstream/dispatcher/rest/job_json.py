"""Jobs in the JSON shapes of Flink's REST API. Pure functions of what a job manager reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from millstream.core.jobs.details import JobDetails, SubtaskStatus, TaskMetrics, VertexStatus
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.plan_json import job_type, plan_for_rest
from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.logs.failure_texts import cause_line
from millstream.core.settings.options.scheduling import (
    PARALLELISM_DEFAULT,
    PIPELINE_MAX_PARALLELISM,
    PIPELINE_OBJECT_REUSE,
)
from millstream.core.settings.secrets import shown_options

Json = dict[str, Any]
_FLINK_ONLY_JOB_STATES = ("SUSPENDED", "RECONCILING")
_FLINK_ONLY_TASK_STATES = ("RECONCILING",)
TASK_METRICS = {
    "numRecordsIn": "records_in", "numRecordsOut": "records_out", "numBytesIn": "bytes_in",
    "numBytesOut": "bytes_out", "accumulateBusyTimeMs": "busy_ms", "accumulateIdleTimeMs": "idle_ms",
    "accumulateBackPressuredTimeMs": "backpressured_ms",
}  # fmt: skip
"""Flink's names of what every task measures."""


def task_counts(details: JobDetails) -> dict[str, int]:
    """How many tasks of a job are in each state, as in `/jobs/overview`."""
    states = Counter(subtask.state for vertex in details.vertices for subtask in vertex.subtasks)
    counts = {state.lower(): states.get(state, 0) for state in (*ExecutionState, *_FLINK_ONLY_TASK_STATES)}
    return {**counts, "total": states.total()}


def job_overview(details: JobDetails, tasks: dict[str, int], changed_ms: int, now_ms: int) -> Json:
    """An item of `/jobs/overview`, with the counts of its tasks."""
    return {
        "jid": details.job_id,
        "name": details.name,
        "start-time": details.start_time,
        "end-time": details.end_time or -1,
        "duration": duration(details.start_time, details.end_time, now_ms),
        "state": details.state,
        "last-modification": changed_ms,
        "tasks": tasks,
        "pending-operators": 0,
        "jobType": job_type(details.configuration),
        "schedulerType": _scheduler(details),
        "message": details.message,
        **_restarts(details),
    }


def _scheduler(details: JobDetails) -> str:
    """By Flink's names: its dashboard shows rescales of an adaptive one only, and any job with checkpoints has them."""
    return "Default" if job_type(details.configuration) == "BATCH" else "Adaptive"


def _restarts(details: JobDetails) -> Json:
    """How often the job was restarted, the last cause, and how it would be and was resumed."""
    return {
        "restarts": details.restarts,
        "last-failure": cause_line(details.failures[0]) if details.failures else None,
        "resumption": details.resumption or None,
        "restore-point": details.restore_point or None,
        "resumed": details.resumed or None,
        "resumed-from": details.resumed_from or None,
    }


def job(details: JobDetails, now_ms: int) -> Json:
    """`/jobs/:jobid`."""
    vertices = [_vertex_in_job(vertex, now_ms) for vertex in details.vertices]
    plan = plan_for_rest(details.job_id, details.name, details.configuration, details.plan)
    return {
        "jid": details.job_id,
        "application-id": details.job_id,
        "name": details.name,
        "isStoppable": False,
        "state": details.state,
        "job-type": job_type(details.configuration),
        "start-time": details.start_time,
        "end-time": details.end_time or -1,
        "duration": duration(details.start_time, details.end_time, now_ms),
        "maxParallelism": _max_parallelism(details),
        "now": now_ms,
        "timestamps": {
            state: details.state_times.get(state, 0) for state in (*map(str, JobStatus), *_FLINK_ONLY_JOB_STATES)
        },
        "vertices": vertices,
        "status-counts": state_counts(vertex["status"] for vertex in vertices),
        "plan": plan,
        "stream-graph": {"nodes": [{**node, "job_vertex_id": node["id"]} for node in plan["nodes"]]},
        "schedulerType": _scheduler(details),
        "pending-operators": 0,
        "message": details.message,
        "slots-required": details.slots_required,
        "slots-held": details.slots_held,
        "slots-free": details.slots_free,
        "slots-total": details.slots_total,
        "slots-startable": details.slots_startable,
        **_restarts(details),
    }


def _max_parallelism(details: JobDetails) -> int:
    return int(details.configuration.get(PIPELINE_MAX_PARALLELISM, "-1"))


def _vertex_in_job(vertex: VertexStatus, now_ms: int) -> Json:
    start = min((s.start_time for s in vertex.subtasks if s.start_time), default=0)
    ended = all(s.end_time for s in vertex.subtasks)
    end = max((s.end_time for s in vertex.subtasks), default=0) if ended else 0
    return {
        "id": vertex.id,
        "slotSharingGroupId": vertex.slot_sharing_group,
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": vertex_state([s.state for s in vertex.subtasks]),
        "start-time": start or -1,
        "end-time": end or -1,
        "duration": duration(start, end, now_ms),
        "tasks": state_counts(s.state for s in vertex.subtasks),
        "metrics": task_metrics([s.metrics for s in vertex.subtasks]),
    }


_BY_URGENCY = (
    ExecutionState.FAILED, ExecutionState.CANCELING, ExecutionState.CANCELED, ExecutionState.INITIALIZING,
    ExecutionState.RUNNING,
)  # fmt: skip
_BY_PROGRESS = (ExecutionState.CREATED, ExecutionState.SCHEDULED, ExecutionState.DEPLOYING)


def vertex_state(states: list[ExecutionState]) -> ExecutionState:
    """The state of a vertex whose subtasks have these states."""
    for state in _BY_URGENCY:
        if state in states:
            return state
    if states and all(state is ExecutionState.FINISHED for state in states):
        return ExecutionState.FINISHED
    if ExecutionState.FINISHED in states:
        return ExecutionState.RUNNING
    return max((s for s in states if s in _BY_PROGRESS), key=_BY_PROGRESS.index, default=ExecutionState.CREATED)


WATERMARKS = ("currentInputWatermark", "currentOutputWatermark", "watermarkAlignmentDrift")
"""Metrics of event time. Flink has only the first, and its dashboard takes every value for one of that."""


def watermarks(status: VertexStatus, wanted: Collection[str]) -> list[Json]:
    """`/jobs/:jobid/vertices/:vertexid/watermarks`: those of `WATERMARKS` that are wanted, by subtask."""
    return [
        {"id": f"{subtask.index}.{name}", "value": str(value)}
        for subtask in status.subtasks
        for name, value in zip(
            WATERMARKS,
            (subtask.metrics.input_watermark, subtask.metrics.output_watermark, subtask.metrics.alignment_drift_ms),
            strict=True,
        )
        if name in wanted and value is not None
    ]


def state_durations(subtask: SubtaskStatus, now_ms: int) -> dict[str, int]:
    """How long it was in each state; -1: never."""
    entered = sorted((time, state) for state, time in subtask.state_times.items() if time)
    durations = {state.value: -1 for state in ExecutionState if not state.is_terminal}
    ends = [time for time, _ in entered[1:]] + [now_ms] * bool(entered)
    for (time, state), end in zip(entered, ends, strict=True):
        if state in durations:
            durations[state] = max(end - time, 0)
    return durations


def exceptions(details: JobDetails, limit: int, is_labelled: bool = False) -> Json:
    """`/jobs/:jobid/exceptions`: the root causes, newest first, each with what failed along with it.

    `is_labelled`: only those with a certain label. Nothing labels failures, so these are none.
    """
    hosts: dict[tuple[str, int], str] = {(v.id, s.index): s.host for v in details.vertices for s in v.subtasks}
    entries = [
        {
            **_failure(failure, hosts),
            "restart": failure.restart or None,
            "restartDelay": failure.restart_delay_ms if failure.restart else None,
            "concurrentExceptions": [_failure(f, hosts) for f in failure.concurrent],
        }
        for failure in ([] if is_labelled else details.failures[:limit])
    ]
    return {
        "exceptionHistory": {
            "entries": entries,
            "truncated": details.failures_truncated or len(details.failures) > limit,
        },
        "message": details.message,
    }


def _failure(failure: TaskFailure, hosts: dict[tuple[str, int], str]) -> Json:
    of_task = bool(failure.task_name)
    return {
        "exceptionName": _class_name(failure.exception),
        "stacktrace": failure.traceback or failure.exception,
        "timestamp": failure.timestamp,
        "failureLabels": {},
        "taskName": failure.task_name or None,
        "endpoint": hosts.get((failure.vertex_id, failure.subtask)) or failure.task_manager or None,
        "taskManagerId": failure.task_manager or None,
        "operator": failure.operator_name or None,
        "subtask": failure.subtask if of_task else None,
        "attempt": failure.attempt if of_task else None,
        "record": failure.record or None,
        "exception": failure.exception,
        "timesInARow": failure.times or None,
    }


def _class_name(exception: str) -> str:
    """The class of `class: message`; an error of the services themselves has none, and is its own name."""
    name = exception.partition(":")[0]
    return name if name.replace(".", "_").isidentifier() else exception


def job_config(details: JobDetails) -> Json:
    """`/jobs/:jobid/config`: by the names that Flink writes, and by those of its specification."""
    execution = {
        "execution-mode": "PIPELINED",
        "restart-strategy": details.restart_strategy,
        "job-parallelism": int(details.configuration.get(PARALLELISM_DEFAULT, "1")),
        "object-reuse-mode": details.configuration.get(PIPELINE_OBJECT_REUSE, "false").lower() == "true",
        "user-config": shown_options(details.configuration),
    }
    return {
        "jid": details.job_id,
        "name": details.name,
        "execution-config": execution,
        "jobId": details.job_id,
        "jobName": details.name,
        "executionConfigInfo": execution,
    }


def state_counts(states: Iterable[str]) -> dict[str, int]:
    """How many tasks are in each state."""
    found = Counter(states)
    return {state: found.get(state, 0) for state in (*map(str, ExecutionState), *_FLINK_ONLY_TASK_STATES)}


def task_metrics(metrics: list[TaskMetrics]) -> Json:
    """Figures of tasks, added up."""
    return {
        "read-bytes": sum(m.bytes_in for m in metrics),
        "read-bytes-complete": True,
        "write-bytes": sum(m.bytes_out for m in metrics),
        "write-bytes-complete": True,
        "read-records": sum(m.records_in for m in metrics),
        "read-records-complete": True,
        "write-records": sum(m.records_out for m in metrics),
        "write-records-complete": True,
        "accumulated-backpressured-time": sum(m.backpressured_ms for m in metrics),
        "accumulated-idle-time": sum(m.idle_ms for m in metrics),
        "accumulated-busy-time": sum(m.busy_ms for m in metrics),
    }


def duration(start: int, end: int, now_ms: int) -> int:
    """Up to now while there is no end; -1 before the start."""
    if not start:
        return -1 if not end else 0
    return max((end or now_ms) - start, 0)
