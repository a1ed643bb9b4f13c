"""JSON Schemas of the REST API's requests and responses: Flink 2.x's shapes, with our additions."""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.states import ExecutionState, JobStatus
from millstream.core.keys.key_groups import HIGHEST_MAX_PARALLELISM

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
BOOLEAN: Schema = {"type": "boolean"}
ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
JOB_STATUS: Schema = {"type": "string", "enum": [status.value for status in JobStatus]}
EXECUTION_STATE: Schema = {"type": "string", "enum": [state.value for state in ExecutionState]}
ANYTHING: Schema = {"type": "object"}
HIGHEST = 2**63 - 1
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": HIGHEST}
PATH_PARAMETERS: dict[str, Schema] = {
    "jobid": {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"},
    "applicationid": {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"},
    "datasetid": {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"},
    "checkpointid": COUNT,
    "subtaskindex": COUNT,
    "attempt": COUNT,
    "slot": COUNT,
}
LOCATION: Schema = {"type": "string", "pattern": "^($|/|file:/|[A-Za-z][A-Za-z0-9+.-]*://)"}  # absolute, or not given
PARALLELISM: Schema = {"type": "integer", "minimum": 1, "maximum": HIGHEST_MAX_PARALLELISM}


def array(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def mapping(values: Schema) -> Schema:
    """An object whose keys are data."""
    return {"type": "object", "additionalProperties": values}


def nullable(schema: Schema) -> Schema:
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def record(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """An object of which all properties but the optional ones are always there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def request_body(properties: dict[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """What a request's body may be: every field that it needs not have may be null as well, as in Flink."""
    fields = {name: value if name in required else nullable(value) for name, value in properties.items()}
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": fields, "additionalProperties": False, **needed}


ERRORS = record({"errors": array(STRING)})
EMPTY = record({})
PROBED = record({"status": STRING})
PROOF = record({"proof": STRING})
WHOAMI = record({"name": STRING, "role": STRING, "credential": STRING})

OVERVIEW = record({
    "taskmanagers": INTEGER, "slots-total": INTEGER, "slots-available": INTEGER, "jobs-running": INTEGER,
    "jobs-finished": INTEGER, "jobs-cancelled": INTEGER, "jobs-failed": INTEGER, "flink-version": STRING,
    "flink-commit": STRING, "taskmanagers-blocked": INTEGER, "slots-free-and-blocked": INTEGER,
})  # fmt: skip
CONFIG = record({
    "refresh-interval": INTEGER, "timezone-name": STRING, "timezone-offset": INTEGER, "flink-version": STRING,
    "flink-revision": STRING, "dispatcher-rpc-address": STRING,
    "features": record({
        "web-submit": BOOLEAN, "web-cancel": BOOLEAN, "web-rescale": BOOLEAN, "web-history": BOOLEAN,
    }),
})  # fmt: skip

JOBS = record({"jobs": array(record({"id": ID, "status": JOB_STATUS}))})
JOBS_OVERVIEW = record({
    "jobs": array(record({
        "jid": ID, "name": STRING, "start-time": INTEGER, "end-time": INTEGER, "duration": INTEGER, "state": JOB_STATUS,
        "last-modification": INTEGER, "tasks": mapping(INTEGER), "pending-operators": INTEGER, "message": STRING,
        "jobType": STRING, "schedulerType": STRING, "restarts": INTEGER, "last-failure": nullable(STRING),
        "resumption": nullable(STRING), "restore-point": nullable(INTEGER), "resumed": nullable(STRING),
        "resumed-from": nullable(INTEGER),
    })),
})  # fmt: skip

METRICS = record({
    "read-bytes": INTEGER, "read-bytes-complete": BOOLEAN, "write-bytes": INTEGER, "write-bytes-complete": BOOLEAN,
    "read-records": INTEGER, "read-records-complete": BOOLEAN, "write-records": INTEGER,
    "write-records-complete": BOOLEAN, "accumulated-backpressured-time": INTEGER, "accumulated-idle-time": INTEGER,
    "accumulated-busy-time": INTEGER,
})  # fmt: skip
PLAN = record({
    "jid": STRING, "name": STRING, "type": STRING,
    "nodes": array(record({
        "id": STRING, "parallelism": INTEGER, "operator": STRING, "operator_strategy": STRING,
        "description": {**STRING, "description": "HTML, to be put into a page as it is."},
        "inputs": array(record({
            "num": INTEGER, "id": STRING, "ship_strategy": STRING, "exchange": STRING, "local_strategy": STRING,
            "caching": STRING,
        })),
        "optimizer_properties": ANYTHING,
    }, optional=("inputs",))),
})  # fmt: skip
JOB = record({
    "jid": ID, "application-id": ID, "schedulerType": STRING, "stream-graph": ANYTHING,
    "name": STRING, "isStoppable": BOOLEAN, "state": JOB_STATUS, "job-type": STRING, "start-time": INTEGER,
    "end-time": INTEGER, "duration": INTEGER, "maxParallelism": INTEGER, "now": INTEGER, "timestamps": mapping(INTEGER),
    "vertices": array(record({
        "id": STRING, "slotSharingGroupId": STRING, "name": STRING, "maxParallelism": INTEGER, "parallelism": INTEGER,
        "status": EXECUTION_STATE, "start-time": INTEGER, "end-time": INTEGER, "duration": INTEGER,
        "tasks": mapping(INTEGER), "metrics": METRICS,
    })),
    "status-counts": mapping(INTEGER), "plan": PLAN, "pending-operators": INTEGER, "message": STRING,
    "slots-required": INTEGER, "slots-held": INTEGER, "slots-free": INTEGER, "slots-total": INTEGER,
    "slots-startable": INTEGER, "restarts": INTEGER, "last-failure": nullable(STRING),
    "resumption": nullable(STRING), "restore-point": nullable(INTEGER), "resumed": nullable(STRING),
    "resumed-from": nullable(INTEGER),
})  # fmt: skip
JOB_PLAN = record({"plan": PLAN})
FLOW = record({
    "vertices": array(record({"id": STRING, "watermark": nullable(INTEGER), "skew": nullable(NUMBER)})),
    "edges": array(record({
        "source": STRING, "target": STRING, "input": INTEGER, "rate": nullable(NUMBER), "queued-in": nullable(INTEGER),
        "queued-out": nullable(INTEGER), "credit": nullable(INTEGER),
    })),
})  # fmt: skip
_EXECUTION_CONFIG = record({
    "execution-mode": STRING, "restart-strategy": STRING, "job-parallelism": INTEGER, "object-reuse-mode": BOOLEAN,
    "user-config": mapping(STRING),
})  # fmt: skip
JOB_CONFIG = record({
    "jid": ID, "name": STRING, "execution-config": _EXECUTION_CONFIG, "jobId": ID, "jobName": STRING,
    "executionConfigInfo": _EXECUTION_CONFIG,
})  # fmt: skip
_FAILURE = {
    "exceptionName": STRING, "stacktrace": STRING, "timestamp": INTEGER, "failureLabels": mapping(STRING),
    "taskName": nullable(STRING), "endpoint": nullable(STRING), "taskManagerId": nullable(STRING),
    "operator": nullable(STRING), "subtask": nullable(INTEGER), "attempt": nullable(INTEGER),
    "record": nullable(STRING), "exception": STRING, "timesInARow": nullable(INTEGER),
}  # fmt: skip
EXCEPTIONS = record({
    "exceptionHistory": record({
        "entries": array(record({
            **_FAILURE, "restart": nullable(INTEGER), "restartDelay": nullable(INTEGER),
            "concurrentExceptions": array(record(_FAILURE)),
        })),
        "truncated": BOOLEAN,
    }),
    "message": STRING,
})  # fmt: skip
ACCUMULATORS = record({
    "job-accumulators": array(ANYTHING),
    "user-task-accumulators": array(record({"name": STRING, "type": STRING, "value": STRING})),
    "serialized-user-task-accumulators": mapping(STRING),
})  # fmt: skip
METRIC_VALUES = array(record({"id": STRING, "value": STRING}, optional=("value",)))
_AGGREGATIONS = ("min", "max", "avg", "sum", "skew")
AGGREGATED_METRICS = array(record({"id": STRING, **dict.fromkeys(_AGGREGATIONS, NUMBER)}, optional=_AGGREGATIONS))
HOT_KEYS = record({
    "sampled": NUMBER,
    "hot-keys": array(record({"key": STRING, "share": NUMBER, "subtask": INTEGER})),
    "subtasks": array(record({"subtask": INTEGER, "sampled": NUMBER, "hot-key-share": NUMBER})),
})  # fmt: skip
_RESOURCE = record({
    "cpuCores": NUMBER, "taskHeapMemory": INTEGER, "taskOffHeapMemory": INTEGER, "managedMemory": INTEGER,
    "networkMemory": INTEGER, "extendedResources": mapping(NUMBER),
})  # fmt: skip
_POOLS = (
    "frameworkHeap", "taskHeap", "frameworkOffHeap", "taskOffHeap", "networkMemory", "managedMemory", "jvmMetaspace",
    "jvmOverhead", "totalFlinkMemory", "totalProcessMemory",
)  # fmt: skip
_USED = (
    "heapUsed", "heapCommitted", "heapMax", "nonHeapUsed", "nonHeapCommitted", "nonHeapMax", "directCount",
    "directUsed", "directMax", "mappedCount", "mappedUsed", "mappedMax", "nettyShuffleMemorySegmentsAvailable",
    "nettyShuffleMemorySegmentsUsed", "nettyShuffleMemorySegmentsTotal", "nettyShuffleMemoryAvailable",
    "nettyShuffleMemoryUsed", "nettyShuffleMemoryTotal",
)  # fmt: skip
_TASK_MANAGER: dict[str, Schema] = {
    "id": STRING, "path": STRING, "dataPort": INTEGER, "jmxPort": INTEGER, "timeSinceLastHeartbeat": INTEGER,
    "slotsNumber": INTEGER, "freeSlots": INTEGER, "totalResource": _RESOURCE, "freeResource": _RESOURCE,
    "hardware": record({
        "cpuCores": INTEGER, "physicalMemory": INTEGER, "freeMemory": INTEGER, "managedMemory": INTEGER,
    }),
    "memoryConfiguration": record(dict.fromkeys(_POOLS, INTEGER)), "assignedTasks": INTEGER, "blocked": BOOLEAN,
}  # fmt: skip
LOGS = record({"logs": array(record({"name": STRING, "size": INTEGER, "mtime": INTEGER}))})
LOG_EVENTS = record({
    "events": array(record({
        "time": INTEGER, "level": STRING, "logger": STRING, "message": STRING, "exception": nullable(STRING),
        "vertex": nullable(STRING), "task": nullable(STRING), "subtask": nullable(INTEGER),
        "attempt": nullable(INTEGER), "taskmanager": nullable(STRING), "file": STRING,
    })),
})  # fmt: skip
TASK_MANAGERS = record({"taskmanagers": array(record(_TASK_MANAGER))})
TASK_MANAGER = record({
    **_TASK_MANAGER,
    "allocatedSlots": array(record({
        "jobId": STRING, "resource": _RESOURCE, "index": INTEGER, "assignedTasks": INTEGER,
    })),
    "metrics": record({
        **dict.fromkeys(_USED, INTEGER),
        "garbageCollectors": array(record({"name": STRING, "count": INTEGER, "time": INTEGER})),
    }),
})  # fmt: skip

WHEELS = record({
    "address": STRING,
    "files": array(record({
        "id": STRING, "name": STRING, "uploaded": INTEGER,
        "entry": array(record({"name": STRING, "description": nullable(STRING)})),
    })),
})  # fmt: skip
UPLOADED = record({"filename": STRING, "status": {"type": "string", "enum": ["success"]}})
CLAIM_MODES = ("NO_CLAIM", "CLAIM")
CLAIM_MODE: Schema = {"type": "string", "enum": list(CLAIM_MODES)}
_RUN_FIELDS = {
    "entryClass": {**STRING, "description": "The entry point: 'package.module:main', or its name in the wheel."},
    "programArgs": {**STRING, "description": "Arguments in one string, split as a shell does."},
    "programArgsList": {**array(STRING), "description": "Arguments, one an item."},
    "parallelism": PARALLELISM,
    "jobId": ID,
    "savepointPath": {**LOCATION, "description": "The savepoint or retained checkpoint to start from."},
    "allowNonRestoredState": {**BOOLEAN, "description": "Whether state that no operator claims is left out."},
    "claimMode": {**CLAIM_MODE, "description": "Whether the job takes the snapshot over."},
    "restoreMode": {**CLAIM_MODE, "description": "What Flink called claimMode before."},
    "flinkConfiguration": {**mapping({"type": ["string", "number", "boolean"]}), "description": "Options of the job."},
}  # fmt: skip
RUN_REQUEST = request_body(_RUN_FIELDS)
RUN = record({"jobid": ID, "applicationId": ID, "warnings": array(STRING)}, optional=("warnings",))
APPLICATION_REQUEST = request_body({
    **_RUN_FIELDS, "applicationId": {**ID, "description": "Of the application, and of its job."},
})  # fmt: skip
RUN_APPLICATION = record({"applicationid": ID, "warnings": array(STRING)}, optional=("warnings",))
