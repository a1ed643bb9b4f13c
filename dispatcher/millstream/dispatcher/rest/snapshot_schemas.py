"""JSON Schemas of checkpoints and savepoints in the REST API: Flink 2.x's shapes."""

from __future__ import annotations

from millstream.dispatcher.rest.schemas import (
    BOOLEAN,
    ID,
    INTEGER,
    LOCATION,
    NUMBER,
    STRING,
    Schema,
    array,
    mapping,
    nullable,
    record,
    request_body,
)

FORMATS = ("CANONICAL", "NATIVE")
CHECKPOINT_TYPES = ("CONFIGURED", "FULL", "INCREMENTAL")

_TRIGGER_ID: Schema = {**ID, "description": "Chosen by the client: the same one again is the same request."}
_FORMAT: Schema = {"type": "string", "enum": list(FORMATS), "default": FORMATS[0]}
_DIRECTORY: Schema = {**LOCATION, "description": "Default: execution.checkpointing.savepoint-dir."}


SAVEPOINT_REQUEST = request_body({
    "target-directory": _DIRECTORY, "cancel-job": BOOLEAN, "formatType": _FORMAT, "triggerId": _TRIGGER_ID,
})  # fmt: skip
STOP_REQUEST = request_body({
    "targetDirectory": _DIRECTORY, "drain": {**BOOLEAN, "description": "Advances event time to its end first."},
    "formatType": _FORMAT, "triggerId": _TRIGGER_ID,
})  # fmt: skip
CHECKPOINT_REQUEST = request_body({
    "checkpointType": {"type": "string", "enum": list(CHECKPOINT_TYPES), "default": CHECKPOINT_TYPES[0]},
    "triggerId": _TRIGGER_ID,
})  # fmt: skip
DISPOSAL_REQUEST = request_body(
    {"savepoint-path": {**LOCATION, "minLength": 1}, "triggerId": _TRIGGER_ID}, required=("savepoint-path",)
)

TRIGGERED = record({"request-id": ID})


def _status(operation: dict[str, Schema]) -> Schema:
    state = record({"id": {"type": "string", "enum": ["IN_PROGRESS", "COMPLETED"]}})
    return record({"status": state, "operation": nullable(record(operation, optional=tuple(operation)))})


_FAILURE = record({"class": STRING, "stack-trace": STRING})
SAVEPOINT_STATUS = _status({"location": STRING, "failure-cause": _FAILURE})
CHECKPOINT_STATUS = _status({"checkpointId": INTEGER, "failureCause": _FAILURE})
DISPOSAL_STATUS = _status({"failure-cause": _FAILURE})

_SPREAD = record({
    "min": INTEGER, "max": INTEGER, "avg": INTEGER, "p50": NUMBER, "p90": NUMBER, "p95": NUMBER, "p99": NUMBER,
    "p999": NUMBER,
})  # fmt: skip
_PROGRESS: dict[str, Schema] = {
    "id": INTEGER, "status": {"type": "string", "enum": ["IN_PROGRESS", "COMPLETED", "FAILED"]},
    "latest_ack_timestamp": INTEGER, "checkpointed_size": INTEGER, "state_size": INTEGER,
    "end_to_end_duration": INTEGER, "alignment_buffered": INTEGER, "processed_data": INTEGER,
    "persisted_data": INTEGER, "num_subtasks": INTEGER, "num_acknowledged_subtasks": INTEGER,
}  # fmt: skip
_AT_ITS_END = {
    "external_path": nullable(STRING), "discarded": BOOLEAN, "failure_timestamp": INTEGER, "failure_message": STRING,
}  # fmt: skip
CHECKPOINT = record({
    **_PROGRESS, "className": STRING, "is_savepoint": BOOLEAN, "savepointFormat": nullable(STRING),
    "trigger_timestamp": INTEGER, "checkpoint_type": STRING, "tasks": mapping(record(_PROGRESS)), **_AT_ITS_END,
}, optional=tuple(_AT_ITS_END))  # fmt: skip
CHECKPOINTS = record({
    "counts": record({
        "restored": INTEGER, "total": INTEGER, "in_progress": INTEGER, "completed": INTEGER, "failed": INTEGER,
    }),
    "summary": record({
        "checkpointed_size": _SPREAD, "state_size": _SPREAD, "end_to_end_duration": _SPREAD,
        "alignment_buffered": _SPREAD, "processed_data": _SPREAD, "persisted_data": _SPREAD,
    }),
    "latest": record({
        "completed": nullable(CHECKPOINT), "savepoint": nullable(CHECKPOINT), "failed": nullable(CHECKPOINT),
        "restored": nullable(record({
            "id": INTEGER, "restore_timestamp": INTEGER, "is_savepoint": BOOLEAN, "external_path": nullable(STRING),
        })),
    }),
    "history": array(CHECKPOINT),
    "savepoints": array(record({
        "id": INTEGER, "external_path": nullable(STRING), "checkpoint_type": STRING, "trigger_timestamp": INTEGER,
        "end_to_end_duration": INTEGER, "state_size": INTEGER,
    })),
}, optional=("savepoints",))  # fmt: skip
CHECKPOINT_CONFIG = record({
    "mode": STRING, "interval": INTEGER, "timeout": INTEGER, "min_pause": INTEGER, "max_concurrent": INTEGER,
    "externalization": record({"enabled": BOOLEAN, "delete_on_cancellation": BOOLEAN}), "state_backend": STRING,
    "checkpoint_storage": STRING, "unaligned_checkpoints": BOOLEAN, "tolerable_failed_checkpoints": INTEGER,
    "aligned_checkpoint_timeout": INTEGER, "checkpoints_after_tasks_finish": BOOLEAN,
    "state_changelog_enabled": BOOLEAN, "changelog_storage": STRING,
    "changelog_periodic_materialization_interval": INTEGER,
})  # fmt: skip
_ALIGNMENT = ("buffered", "processed", "persisted", "duration")
_ACKNOWLEDGED: dict[str, Schema] = {
    "ack_timestamp": INTEGER, "end_to_end_duration": INTEGER, "checkpointed_size": INTEGER, "state_size": INTEGER,
    "checkpoint": record({"sync": INTEGER, "async": INTEGER}),
    "alignment": record({**dict.fromkeys(_ALIGNMENT, INTEGER), "waited_for": nullable(STRING)}),
    "start_delay": INTEGER,
    "unaligned_checkpoint": BOOLEAN, "aborted": BOOLEAN,
}  # fmt: skip
CHECKPOINT_SUBTASKS = record({
    **_PROGRESS,
    "summary": record({
        "checkpointed_size": _SPREAD, "state_size": _SPREAD, "end_to_end_duration": _SPREAD,
        "checkpoint_duration": record({"sync": _SPREAD, "async": _SPREAD}),
        "alignment": record(dict.fromkeys(_ALIGNMENT, _SPREAD)), "start_delay": _SPREAD,
    }),
    "subtasks": array(record(
        {"className": STRING, "index": INTEGER, "status": STRING, **_ACKNOWLEDGED}, optional=tuple(_ACKNOWLEDGED)
    )),
})  # fmt: skip
