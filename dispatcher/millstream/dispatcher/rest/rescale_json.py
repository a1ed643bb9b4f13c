"""The rescales of a job in the JSON shapes of Flink's REST API, and their schemas. Pure.

A slot sharing group needs as many slots as its widest vertex. Slots have no resources of their own: profiles are 0.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.jobs.ids import stable_id
from millstream.core.jobs.rescales import (
    MOST_RESCALES,
    RescaleCause,
    RescaledVertex,
    RescaleEnd,
    RescaleRecord,
    RescaleStep,
)
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.scheduling import (
    ADAPTIVE_EXECUTING_COOLDOWN_AFTER_RESCALING,
    ADAPTIVE_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT,
    ADAPTIVE_RESCALE_TRIGGER_MAX_CHECKPOINT_FAILURES,
    ADAPTIVE_RESCALE_TRIGGER_MAX_DELAY,
    ADAPTIVE_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT,
    ADAPTIVE_SUBMISSION_RESOURCE_WAIT_TIMEOUT,
    SCHEDULER_MODE,
)
from millstream.dispatcher.rest.schemas import ID, INTEGER, NUMBER, STRING, Schema, array, mapping, nullable, record

Json = dict[str, Any]
_PREFIX = "jobmanager.adaptive-scheduler"
_PROFILE = record({
    "cpuCores": NUMBER, "taskHeapMemory": INTEGER, "taskOffHeapMemory": INTEGER, "managedMemory": INTEGER,
    "networkMemory": INTEGER, "extendedResources": mapping(NUMBER),
})  # fmt: skip
_VERTEX = record({
    "jobVertexId": STRING, "jobVertexName": STRING, "slotSharingGroupId": ID, "slotSharingGroupName": STRING,
    "desiredParallelism": INTEGER, "sufficientParallelism": INTEGER, "preRescaleParallelism": nullable(INTEGER),
    "postRescaleParallelism": nullable(INTEGER),
    "requiredParallelisms": record({"minParallelism": INTEGER, "maxParallelism": INTEGER, "parallelism": INTEGER}),
})  # fmt: skip
_GROUP = record({
    "slotSharingGroupId": ID, "slotSharingGroupName": STRING, "requestResourceProfile": _PROFILE,
    "desiredSlots": INTEGER, "minimalRequiredSlots": INTEGER, "preRescaleSlots": nullable(INTEGER),
    "postRescaleSlots": nullable(INTEGER), "acquiredResourceProfile": _PROFILE,
})  # fmt: skip
_STEP = record({
    "state": STRING, "enterTimestampInMillis": INTEGER, "leaveTimestampInMillis": nullable(INTEGER),
    "durationInMillis": nullable(INTEGER), "stringifiedException": nullable(STRING),
})  # fmt: skip
_STATE: Schema = {"type": "string", "enum": ["COMPLETED", "FAILED", "IGNORED"]}
DETAILS = record({
    "rescaleUuid": ID, "resourceRequirementsUuid": ID, "rescaleAttemptId": INTEGER, "vertices": mapping(_VERTEX),
    "slots": mapping(_GROUP), "schedulerStates": array(_STEP), "startTimestampInMillis": INTEGER,
    "endTimestampInMillis": nullable(INTEGER), "terminalState": nullable(_STATE),
    "triggerCause": {"type": "string", "enum": [*RescaleCause]},
    "terminatedReason": nullable({"type": "string", "enum": [*RescaleEnd]}),
})  # fmt: skip
HISTORY = array(DETAILS)
_COUNTS = record(dict.fromkeys(("ignored", "inProgress", "completed", "failed"), INTEGER))
_SPREAD = record({
    "min": INTEGER, "max": INTEGER, "avg": INTEGER, "p50": NUMBER, "p90": NUMBER, "p95": NUMBER, "p99": NUMBER,
    "p999": NUMBER,
})  # fmt: skip
OVERVIEW = record({
    "rescalesCounts": _COUNTS,
    "latest": record(dict.fromkeys(("completed", "failed", "ignored"), nullable(DETAILS))),
})  # fmt: skip
SUMMARY = record({
    "rescalesCounts": _COUNTS, "rescalesDurationStatsInMillis": _SPREAD,
    "completedRescalesDurationStatsInMillis": _SPREAD, "ignoredRescalesDurationStatsInMillis": _SPREAD,
    "failedRescalesDurationStatsInMillis": _SPREAD,
})  # fmt: skip
CONFIG = record({
    "rescaleHistoryMax": INTEGER, "schedulerExecutionMode": nullable(STRING),
    "submissionResourceWaitTimeoutInMillis": INTEGER, "submissionResourceStabilizationTimeoutInMillis": INTEGER,
    "slotIdleTimeoutInMillis": INTEGER, "executingCooldownTimeoutInMillis": INTEGER,
    "executingResourceStabilizationTimeoutInMillis": INTEGER, "maximumDelayForTriggeringRescaleInMillis": INTEGER,
    "rescaleOnFailedCheckpointCount": INTEGER,
})  # fmt: skip


def overview(records: Sequence[RescaleRecord]) -> Json:
    """`/jobs/:jobid/rescales/overview`."""
    latest = {one.end.state: one for one in records if one.end is not None}
    return {
        "rescalesCounts": _counts(records),
        "latest": {
            state.lower(): details(latest[state]) if state in latest else None
            for state in ("COMPLETED", "FAILED", "IGNORED")
        },
    }


def summary(records: Sequence[RescaleRecord]) -> Json:
    """`/jobs/:jobid/rescales/summary`: of those that are over."""

    def spread(state: str) -> Json:
        return _spread([o.ended_ms - o.started_ms for o in records if o.end is not None and state in ("", o.end.state)])

    return {
        "rescalesCounts": _counts(records),
        "rescalesDurationStatsInMillis": spread(""),
        "completedRescalesDurationStatsInMillis": spread("COMPLETED"),
        "ignoredRescalesDurationStatsInMillis": spread("IGNORED"),
        "failedRescalesDurationStatsInMillis": spread("FAILED"),
    }


def history(records: Sequence[RescaleRecord]) -> list[Json]:
    """`/jobs/:jobid/rescales/history`, the latest first."""
    return [details(one) for one in reversed(records)]


def details(one: RescaleRecord) -> Json:
    """`/jobs/:jobid/rescales/details/:rescaleuuid`."""
    groups: dict[str, list[RescaledVertex]] = {}
    for vertex in one.vertices:
        groups.setdefault(vertex.slot_sharing_group, []).append(vertex)
    return {
        "rescaleUuid": one.id,
        "resourceRequirementsUuid": one.requirements,
        "rescaleAttemptId": one.number,
        "vertices": {vertex.id: _vertex(vertex) for vertex in one.vertices},
        "slots": {_group_id(name): _group(name, held) for name, held in groups.items()},
        "schedulerStates": [_step(step) for step in one.steps],
        "startTimestampInMillis": one.started_ms,
        "endTimestampInMillis": one.ended_ms or None,
        "terminalState": one.end.state if one.end is not None else None,
        "triggerCause": one.cause,
        "terminatedReason": one.end,
    }


def config(options: Configuration) -> Json:
    """`/jobs/:jobid/rescales/config`, by the options of the job and of the cluster."""

    def milliseconds(key: OptionKey[float]) -> int:
        return round(1000 * options.get(key))

    reactive = options.get(SCHEDULER_MODE) == "reactive"
    return {
        "rescaleHistoryMax": MOST_RESCALES,
        "schedulerExecutionMode": "REACTIVE" if reactive else None,
        "submissionResourceWaitTimeoutInMillis": milliseconds(ADAPTIVE_SUBMISSION_RESOURCE_WAIT_TIMEOUT),
        "submissionResourceStabilizationTimeoutInMillis": milliseconds(
            ADAPTIVE_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT
        ),
        "slotIdleTimeoutInMillis": 0,
        "executingCooldownTimeoutInMillis": milliseconds(ADAPTIVE_EXECUTING_COOLDOWN_AFTER_RESCALING),
        "executingResourceStabilizationTimeoutInMillis": milliseconds(
            ADAPTIVE_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT
        ),
        "maximumDelayForTriggeringRescaleInMillis": milliseconds(ADAPTIVE_RESCALE_TRIGGER_MAX_DELAY),
        "rescaleOnFailedCheckpointCount": options.get(ADAPTIVE_RESCALE_TRIGGER_MAX_CHECKPOINT_FAILURES),
    }


def _counts(records: Sequence[RescaleRecord]) -> Json:
    states = [one.end.state if one.end is not None else "" for one in records]
    return {
        "ignored": states.count("IGNORED"),
        "inProgress": states.count(""),
        "completed": states.count("COMPLETED"),
        "failed": states.count("FAILED"),
    }


def _spread(values: list[int]) -> Json:
    if not values:
        return {"min": 0, "max": 0, "avg": 0, **dict.fromkeys(("p50", "p90", "p95", "p99", "p999"), 0.0)}
    cuts = statistics.quantiles(values, n=1000, method="inclusive") if len(values) > 1 else [float(values[0])] * 999
    p50, p90, p95, p99, p999 = (round(cuts[place], 3) for place in (499, 899, 949, 989, 998))
    return {
        "min": min(values), "max": max(values), "avg": sum(values) // len(values), "p50": p50, "p90": p90, "p95": p95,
        "p99": p99, "p999": p999,
    }  # fmt: skip


def _vertex(vertex: RescaledVertex) -> Json:
    return {
        "jobVertexId": vertex.id,
        "jobVertexName": vertex.name,
        "slotSharingGroupId": _group_id(vertex.slot_sharing_group),
        "slotSharingGroupName": vertex.slot_sharing_group,
        "desiredParallelism": vertex.desired,
        "sufficientParallelism": vertex.lowest,
        "preRescaleParallelism": vertex.before or None,
        "postRescaleParallelism": vertex.after or None,
        "requiredParallelisms": {
            "minParallelism": vertex.lowest, "maxParallelism": vertex.highest, "parallelism": vertex.desired,
        },
    }  # fmt: skip


def _group(name: str, held: Sequence[RescaledVertex]) -> Json:
    def most(of: Callable[[RescaledVertex], int]) -> int:
        return max(of(vertex) for vertex in held)

    profile = dict.fromkeys(("taskHeapMemory", "taskOffHeapMemory", "managedMemory", "networkMemory"), 0)
    resources: Json = {"cpuCores": 0.0, **profile, "extendedResources": {}}
    return {
        "slotSharingGroupId": _group_id(name),
        "slotSharingGroupName": name,
        "requestResourceProfile": resources,
        "desiredSlots": most(lambda vertex: vertex.desired),
        "minimalRequiredSlots": most(lambda vertex: vertex.lowest),
        "preRescaleSlots": most(lambda vertex: vertex.before) or None,
        "postRescaleSlots": most(lambda vertex: vertex.after) or None,
        "acquiredResourceProfile": resources,
    }


def _group_id(name: str) -> str:
    return stable_id("slot sharing group", name)


def _step(step: RescaleStep) -> Json:
    return {
        "state": step.state,
        "enterTimestampInMillis": step.entered_ms,
        "leaveTimestampInMillis": step.left_ms or None,
        "durationInMillis": step.left_ms - step.entered_ms if step.left_ms else None,
        "stringifiedException": step.error or None,
    }
