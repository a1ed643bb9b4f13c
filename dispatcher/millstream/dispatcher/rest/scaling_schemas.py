"""JSON Schemas of the REST API's requests and responses about the parallelism of jobs."""

from __future__ import annotations

from millstream.core.jobs.job_events import JobEventKind
from millstream.dispatcher.rest.schemas import (
    ID,
    INTEGER,
    PARALLELISM,
    STRING,
    Schema,
    array,
    mapping,
    nullable,
    record,
)

REQUIREMENTS = mapping(record({"parallelism": record({"lowerBound": INTEGER, "upperBound": INTEGER})}))
REQUIREMENTS_REQUEST: Schema = {
    **mapping(record({"parallelism": record({"lowerBound": PARALLELISM, "upperBound": PARALLELISM})})),
    "minProperties": 1,
    "description": "The bounds of every vertex of the job, by its id.",
}
TRIGGERED = record({"request-id": ID})
RESCALING_STATUS = record({
    "status": record({"id": {"type": "string", "enum": ["IN_PROGRESS", "COMPLETED"]}}),
    "operation": nullable(record(
        {"message": STRING, "failure-cause": record({"class": STRING, "stack-trace": STRING})},
        optional=("message", "failure-cause"),
    )),
})  # fmt: skip
EVENTS = record({
    "events": array(record({
        "timestamp": INTEGER, "kind": {"type": "string", "enum": [kind.value for kind in JobEventKind]},
        "message": STRING,
    })),
})  # fmt: skip
