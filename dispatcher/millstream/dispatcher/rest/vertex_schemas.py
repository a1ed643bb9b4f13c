"""JSON Schemas of the REST API's responses about the vertices of a job: Flink 2.x's shapes."""

from __future__ import annotations

from millstream.dispatcher.rest.schemas import (
    EXECUTION_STATE,
    INTEGER,
    METRICS,
    NUMBER,
    STRING,
    Schema,
    array,
    mapping,
    record,
)

_SPREAD = record(dict.fromkeys(("min", "max", "avg", "sum", "median", "p25", "p75", "p95"), INTEGER))
_AGGREGATED = record({"metrics": mapping(_SPREAD), "status-duration": mapping(_SPREAD)})
_ACCUMULATORS = array(record({"name": STRING, "type": STRING, "value": STRING}))
_LEVEL: Schema = {"type": "string", "enum": ["ok", "low", "high"]}
_LEVELS = {"backpressureLevel": _LEVEL, "backpressure-level": _LEVEL}
_NO_ATTEMPTS: Schema = {"type": "array", "maxItems": 0}

SUBTASK = record({
    "subtask": INTEGER, "status": EXECUTION_STATE, "attempt": INTEGER, "endpoint": STRING, "start-time": INTEGER,
    "start_time": INTEGER, "end-time": INTEGER, "duration": INTEGER, "metrics": METRICS, "taskmanager-id": STRING,
    "status-duration": mapping(INTEGER), "other-concurrent-attempts": _NO_ATTEMPTS,
})  # fmt: skip
VERTEX = record({
    "id": STRING, "name": STRING, "parallelism": INTEGER, "maxParallelism": INTEGER, "now": INTEGER,
    "aggregated": _AGGREGATED, "subtasks": array(SUBTASK),
})  # fmt: skip
SUBTASK_TIMES = record({
    "id": STRING, "name": STRING, "now": INTEGER,
    "subtasks": array(record({
        "subtask": INTEGER, "endpoint": STRING, "duration": INTEGER, "timestamps": mapping(INTEGER),
    })),
})  # fmt: skip
TASK_MANAGERS = record({
    "id": STRING, "name": STRING, "now": INTEGER,
    "taskmanagers": array(record({
        "endpoint": STRING, "status": EXECUTION_STATE, "start-time": INTEGER, "end-time": INTEGER, "duration": INTEGER,
        "metrics": METRICS, "status-counts": mapping(INTEGER), "taskmanager-id": STRING, "aggregated": _AGGREGATED,
    })),
})  # fmt: skip
BACKPRESSURE = record({
    "status": {"type": "string", "enum": ["ok", "deprecated"]}, **_LEVELS, "end-timestamp": INTEGER,
    "subtasks": array(record({
        "subtask": INTEGER, "attempt-number": INTEGER, **_LEVELS, "ratio": NUMBER, "idleRatio": NUMBER,
        "busyRatio": NUMBER, "other-concurrent-attempts": _NO_ATTEMPTS,
    })),
})  # fmt: skip
ACCUMULATORS = record({"id": STRING, "user-accumulators": _ACCUMULATORS})
SUBTASK_ACCUMULATORS = record({
    "id": STRING, "parallelism": INTEGER,
    "subtasks": array(record({
        "subtask": INTEGER, "attempt": INTEGER, "endpoint": STRING, "user-accumulators": _ACCUMULATORS,
    })),
})  # fmt: skip
ATTEMPT_ACCUMULATORS = record({
    "id": STRING, "subtask": INTEGER, "attempt": INTEGER, "user-accumulators": _ACCUMULATORS,
})  # fmt: skip
