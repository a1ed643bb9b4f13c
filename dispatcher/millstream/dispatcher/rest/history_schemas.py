"""JSON Schemas of what the REST API returns of the last hour, and of how jobs are."""

from __future__ import annotations

from millstream.dispatcher.rest.schemas import BOOLEAN, ID, INTEGER, NUMBER, STRING, array, nullable, record

_VALUES = array(nullable(NUMBER))
_WHEN = {"recorded": BOOLEAN, "since": INTEGER, "now": INTEGER, "times": array(INTEGER)}
JOB_HISTORY = record({
    **_WHEN, "series": array(record({"vertex": STRING, "figure": STRING, "values": _VALUES})),
})  # fmt: skip
VERTEX_HISTORY = record({**_WHEN, "series": array(record({"id": STRING, "values": _VALUES}))})
JOBS_HEALTH = record({
    "now": INTEGER,
    "jobs": array(record({
        "jid": ID, "health": STRING, "reason": nullable(STRING), "rate": nullable(NUMBER), "rates": _VALUES,
    })),
})  # fmt: skip
