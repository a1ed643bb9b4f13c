"""JSON Schemas of the REST API's responses about the processes of the cluster."""

from __future__ import annotations

from millstream.dispatcher.rest.schemas import ANYTHING, BOOLEAN, ID, INTEGER, STRING, array, mapping, nullable, record

OPTIONS = array(record({"key": STRING, "value": STRING}))
ENVIRONMENT = record({
    "jvm": record({"version": STRING, "arch": STRING, "options": array(STRING)}),
    "classpath": array(STRING),
    "packages": mapping(STRING),
})  # fmt: skip
SERVICES = record({
    "jobmanagers": array(record({
        "id": STRING, "role": {"type": "string", "enum": ["dispatcher", "jobmanager", "resourcemanager"]},
        "address": STRING, "jobs": array(ID), "standby": BOOLEAN,
    })),
})  # fmt: skip
THREAD_DUMP = record({"threadInfos": array(record({"threadName": STRING, "stringifiedThreadInfo": STRING}))})
FLAME_GRAPH = record({
    "endTimestamp": {
        **INTEGER, "description": "When sampling ended; -1: nothing runs any more, -2: disabled, -3: not done yet.",
    },
    "data": nullable({
        "type": "object",
        "properties": {
            "name": STRING, "value": INTEGER, "children": {**array(ANYTHING), "description": "Nodes as this one."},
        },
        "required": ["name", "value", "children"], "additionalProperties": False,
    }),
    "problems": array(STRING),
    "samplers": {**array(STRING), "description": "Which samplers were used: py-spy, worker, or both."},
})  # fmt: skip
