"""Makes `flink_rest.json` of Flink's specification: `python tests/flink_extract.py rest_v1_dispatcher.json`.

It holds what can be compared: of each operation the status, the query parameters, the keys of the request and the shape
of the response. A shape is `""` (a plain value), a list of one shape, an object of shapes by key, `{"*": shape}` (any
keys), `{"|": [shapes]}` (one of several), or the name of one of `schemas`. A schema with `|` stands for others, by the
value of `className`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]
EXTRACT = Path(__file__).with_name("flink_rest.json")


def extract(specification: Json) -> Json:
    """The compact form."""
    schemas: Json = specification["components"]["schemas"]
    operations = {
        f"{method.upper()} {path}": _operation(operation, schemas)
        for path, methods in specification["paths"].items()
        for method, operation in methods.items()
    }
    shapes = {name: _fields(schema, schemas) for name, schema in schemas.items() if _is_object(schema)}
    return {"version": specification["info"]["version"], "operations": operations, "schemas": shapes}


def _operation(operation: Json, schemas: Json) -> Json:
    [(status, response)] = operation["responses"].items()
    media: Json = next(iter(response.get("content", {}).values()), {})
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return {
        "status": int(status),
        "query": [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"],
        "request": _shape(body["schema"], schemas) if body else "",
        "response": _shape(media.get("schema", {}), schemas),
    }


def _is_object(schema: Json) -> bool:
    return schema.get("type") == "object" or "allOf" in schema


def _shape(schema: Json, schemas: Json) -> Any:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return name if _is_object(schemas[name]) else _shape(schemas[name], schemas)
    if "oneOf" in schema:
        return {"|": [_shape(one, schemas) for one in schema["oneOf"]]}
    if schema.get("type") == "array":
        return [_shape(schema["items"], schemas)]
    return _fields(schema, schemas) if _is_object(schema) else ""


def _fields(schema: Json, schemas: Json) -> Json:
    fields: Json = {}
    for part in schema.get("allOf", ()):
        target = schemas[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        fields |= {key: shape for key, shape in _fields(target, schemas).items() if key != "|"}
    fields |= {key: _shape(one, schemas) for key, one in schema.get("properties", {}).items()}
    if "discriminator" in schema:
        mapping = schema["discriminator"]["mapping"]
        fields["|"] = {name: one.rpartition("/")[2] for name, one in mapping.items()}
    if isinstance(schema.get("additionalProperties"), dict):
        fields["*"] = _shape(schema["additionalProperties"], schemas)
    return fields


if __name__ == "__main__":
    made = extract(json.loads(Path(sys.argv[1]).read_text()))
    parts = [
        f'"{part}": {{\n'
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in made[part].items())
        + "\n}"
        for part in ("operations", "schemas")
    ]
    EXTRACT.write_text("{\n" + f'"version": {json.dumps(made["version"])},\n' + ",\n".join(parts) + "\n}\n")
