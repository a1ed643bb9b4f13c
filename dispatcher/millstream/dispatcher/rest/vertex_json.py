"""A vertex of a job and its subtasks in the JSON shapes of Flink's REST API. Pure functions of what was reported."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from millstream.core.jobs.details import JobDetails, SubtaskStatus, VertexStatus
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import ExecutionState
from millstream.dispatcher.rest import accumulator_json
from millstream.dispatcher.rest.job_json import (
    Json,
    duration,
    state_counts,
    state_durations,
    task_metrics,
    vertex_state,
)

_UNASSIGNED = "(unassigned)"
_LOW, _HIGH = 0.10, 0.5
"""Above which backpressure is called so, as in Flink."""


def vertex(status: VertexStatus, now_ms: int) -> Json:
    """`/jobs/:jobid/vertices/:vertexid`."""
    return {
        "id": status.id,
        "name": status.name,
        "parallelism": status.parallelism,
        "maxParallelism": status.max_parallelism,
        "now": now_ms,
        "aggregated": _aggregated(status.subtasks, now_ms),
        "subtasks": [subtask(one, now_ms) for one in status.subtasks],
    }


def subtask(status: SubtaskStatus, now_ms: int) -> Json:
    """`…/subtasks/:subtaskindex`, and `…/attempts/:attempt` of the current attempt."""
    return {
        "subtask": status.index,
        "status": status.state,
        "attempt": status.attempt,
        "endpoint": status.host or _UNASSIGNED,
        "start-time": status.start_time or -1,
        "start_time": status.start_time or -1,  # the name that Flink's dashboard reads, which no specification has
        "end-time": status.end_time or -1,
        "duration": duration(status.start_time, status.end_time, now_ms),
        "metrics": task_metrics([status.metrics]),
        "taskmanager-id": status.task_manager or _UNASSIGNED,
        "status-duration": state_durations(status, now_ms),
        "other-concurrent-attempts": [],
    }


def times(status: VertexStatus, now_ms: int) -> Json:
    """`…/subtasktimes`: when each subtask came to which state."""
    return {
        "id": status.id,
        "name": status.name,
        "now": now_ms,
        "subtasks": [
            {
                "subtask": one.index,
                "endpoint": one.host or _UNASSIGNED,
                "duration": duration(one.start_time, one.end_time, now_ms),
                "timestamps": {state.value: one.state_times.get(state, 0) for state in ExecutionState},
            }
            for one in status.subtasks
        ],
    }


def task_managers(status: VertexStatus, now_ms: int) -> Json:
    """`…/taskmanagers`: the subtasks by the task manager that they run on, or ran on last."""
    places: dict[tuple[str, str], list[SubtaskStatus]] = {}
    for one in status.subtasks:
        places.setdefault((one.task_manager, one.host), []).append(one)
    return {
        "id": status.id,
        "name": status.name,
        "now": now_ms,
        "taskmanagers": [_task_manager(manager, host, held, now_ms) for (manager, host), held in places.items()],
    }


def _task_manager(manager: str, host: str, held: list[SubtaskStatus], now_ms: int) -> Json:
    start = min((one.start_time for one in held if one.start_time), default=0)
    end = max(one.end_time for one in held) if all(one.end_time for one in held) else 0
    return {
        "endpoint": host or _UNASSIGNED,
        "status": vertex_state([one.state for one in held]),
        "start-time": start or -1,
        "end-time": end or -1,
        "duration": duration(start, end, now_ms),
        "metrics": task_metrics([one.metrics for one in held]),
        "status-counts": state_counts(one.state for one in held),
        "taskmanager-id": manager or _UNASSIGNED,
        "aggregated": _aggregated(held, now_ms),
    }


def _aggregated(held: Sequence[SubtaskStatus], now_ms: int) -> Json:
    """How figures are spread over subtasks."""
    figures = [task_metrics([one.metrics]) for one in held]
    lasted = [state_durations(one, now_ms) for one in held]
    names = [name for name, value in task_metrics([]).items() if not isinstance(value, bool)]
    states = [state.value for state in ExecutionState if not state.is_terminal]
    return {
        "metrics": {name: _spread([figure[name] for figure in figures]) for name in names},
        "status-duration": {
            state: _spread([one[state] for one in lasted if one.get(state, -1) >= 0]) for state in states
        },
    }


def _spread(values: list[int]) -> dict[str, int]:
    if not values:
        return dict.fromkeys(("min", "max", "avg", "sum", "median", "p25", "p75", "p95"), 0)
    cuts = statistics.quantiles(values, n=20, method="inclusive") if len(values) > 1 else [values[0]] * 19
    return {
        "min": min(values),
        "max": max(values),
        "avg": sum(values) // len(values),
        "sum": sum(values),
        "median": int(cuts[9]),
        "p25": int(cuts[4]),
        "p75": int(cuts[14]),
        "p95": int(cuts[18]),
    }


def backpressure(status: VertexStatus, now_ms: int) -> Json:
    """`…/backpressure`: where the time of each subtask went between its last two reports."""
    subtasks = [_pressed(one) for one in status.subtasks]
    highest = max((one["ratio"] for one in subtasks), default=0.0)
    return {"status": "ok", **_levels(highest), "end-timestamp": now_ms, "subtasks": subtasks}


def _pressed(status: SubtaskStatus) -> Json:
    ratio, busy = status.backpressured_percent / 100, status.busy_percent / 100
    is_running = status.state is ExecutionState.RUNNING
    return {
        "subtask": status.index,
        "attempt-number": status.attempt,
        **_levels(ratio),
        "ratio": ratio,
        "idleRatio": round(max(0.0, 1 - ratio - busy), 2) if is_running else 0.0,
        "busyRatio": busy,
        "other-concurrent-attempts": [],
    }


def _levels(ratio: float) -> Json:
    """Under both names: Flink's dashboard reads the second one, which Flink calls deprecated."""
    level = "high" if ratio > _HIGH else "low" if ratio > _LOW else "ok"
    return {"backpressureLevel": level, "backpressure-level": level}


def accumulators(details: JobDetails, status: VertexStatus) -> Json:
    """`…/accumulators`: what its subtasks left, merged, and their counters added up."""
    left = [a for a in details.accumulators if a.vertex_id == status.id]
    counted = accumulator_json.counters([status])
    return {"id": status.id, "user-accumulators": [*accumulator_json.merged(left), *counted]}


def subtask_accumulators(details: JobDetails, status: VertexStatus) -> Json:
    """`…/subtasks/accumulators`."""
    return {
        "id": status.id,
        "parallelism": status.parallelism,
        "subtasks": [
            {
                "subtask": one.index,
                "attempt": one.attempt,
                "endpoint": one.host or _UNASSIGNED,
                "user-accumulators": _of_subtask(details, status, one),
            }
            for one in status.subtasks
        ],
    }


def attempt_accumulators(details: JobDetails, status: VertexStatus, one: SubtaskStatus) -> Json:
    """`…/subtasks/:subtaskindex/attempts/:attempt/accumulators`, of the current attempt."""
    return {
        "id": _attempt_id(details.job_id, status, one),
        "subtask": one.index,
        "attempt": one.attempt,
        "user-accumulators": _of_subtask(details, status, one),
    }


def _attempt_id(job_id: JobId, status: VertexStatus, one: SubtaskStatus) -> str:
    """As Flink writes it."""
    return f"{job_id}_{status.id}_{one.index}_{one.attempt}"


def _of_subtask(details: JobDetails, status: VertexStatus, one: SubtaskStatus) -> list[Json]:
    left = [a for a in details.accumulators if (a.vertex_id, a.subtask) == (status.id, one.index)]
    counted = one.metrics.counters.items()
    return [*accumulator_json.merged(left), *(accumulator_json.counter(name, count) for name, count in counted)]
