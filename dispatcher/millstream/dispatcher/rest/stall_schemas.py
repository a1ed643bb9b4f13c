"""JSON Schemas of the REST API's responses about stalled jobs, and about event time."""

from __future__ import annotations

from millstream.core.jobs.stalls import FindingKind, WaitingKind
from millstream.dispatcher.rest.schemas import ID, INTEGER, JOB_STATUS, STRING, Schema, array, nullable, record

_KIND: Schema = {"type": "string", "enum": [kind.value for kind in FindingKind]}
_WAITING: Schema = {"type": "string", "enum": [kind.value for kind in WaitingKind]}

STALL = record({
    "jid": ID, "name": STRING, "state": JOB_STATUS, "timestamp": INTEGER, "summary": STRING,
    "findings": array(record({
        "kind": _KIND, "message": STRING, "advice": nullable(STRING), "vertex-id": nullable(STRING),
        "operator": nullable(STRING), "since": nullable(INTEGER),
    })),
    "waiting": array(record({
        "vertex-id": STRING, "operator": STRING, "kind": _WAITING, "message": STRING,
        "open": INTEGER, "records-since-last-firing": nullable(INTEGER), "event-time": nullable(INTEGER),
        "next-event-time": nullable(INTEGER), "next-processing-time": nullable(INTEGER),
    })),
})  # fmt: skip
WATERMARKS = array(record({"id": STRING, "value": STRING}))
