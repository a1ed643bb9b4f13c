"""JSON Schemas of the REST API's responses about the state in checkpoints and savepoints. Flink has no such paths."""

from __future__ import annotations

from millstream.dispatcher.rest.schemas import (
    ANYTHING,
    BOOLEAN,
    INTEGER,
    STRING,
    Schema,
    array,
    nullable,
    record,
)

_TYPES = {name: nullable(STRING) for name in ("key_type", "namespace_type", "map_key_type", "value_type")}
_COUNT = nullable(INTEGER)
_SIDE: Schema = {"type": "string", "enum": ["first", "second", "both"]}

LISTING = record({
    "location": STRING, "kind": STRING, "job_id": STRING, "job_name": STRING, "checkpoint_id": INTEGER,
    "created_ms": INTEGER, "files": INTEGER, "bytes": INTEGER,
    "operators": array(record({
        "uid": nullable(STRING), "id": STRING, "name": STRING, "parallelism": INTEGER, "max_parallelism": INTEGER,
        "finished": BOOLEAN,
        "states": array(record({
            "name": STRING, "kind": STRING, **_TYPES, "ttl_ms": _COUNT, "rows": INTEGER, "files": INTEGER,
            "bytes": INTEGER,
        })),
    })),
})  # fmt: skip
ROWS = record({
    "location": STRING, "operator": STRING, "state": STRING, "kind": STRING, "rows": array(ANYTHING),
    "offset": INTEGER, "total": {**INTEGER, "description": "Rows of the whole state, whatever the key."},
    "truncated": {**BOOLEAN, "description": "There are more: behind these, or of this key."},
})  # fmt: skip
DIFFERENCES = record({
    "first": STRING, "second": STRING, "equal": BOOLEAN, "properties": array(STRING),
    "operators": array(record({
        "uid": nullable(STRING), "id": STRING, "name": STRING, "in": _SIDE, "equal": BOOLEAN,
        "states": array(record({
            "name": STRING, "in": _SIDE, "equal": BOOLEAN, "types": nullable(STRING), "added": INTEGER,
            "removed": INTEGER, "changed": INTEGER, "entries": array(ANYTHING),
        })),
    })),
})  # fmt: skip
