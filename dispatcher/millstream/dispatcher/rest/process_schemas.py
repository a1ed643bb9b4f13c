"""JSON Schemas of what the REST API answers about the processes of the cluster."""

from __future__ import annotations

from millstream.dispatcher.rest.schemas import STRING, array, mapping, record

OPTIONS = array(record({"key": STRING, "value": STRING}))
ENVIRONMENT = record({
    "jvm": record({"version": STRING, "arch": STRING, "options": array(STRING)}),
    "classpath": array(STRING),
    "packages": mapping(STRING),
})  # fmt: skip
