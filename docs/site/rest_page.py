"""The reference of the REST API, generated from the OpenAPI document of a dispatcher."""

from __future__ import annotations

import asyncio
import json
import tempfile
import urllib.request
from typing import Any

from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.service import DispatcherService

HEAD = """\
# REST endpoints

Every endpoint with its parameters and the structure of its response, from the document at `/openapi.json`. Each is also
available under `/v1`. Their use, errors and examples are described in [REST API](../rest-api.md), and the roles in
[Security](../security.md).
"""


def page() -> str:
    """Returns the Markdown of the page."""
    return "\n".join([HEAD, *(section(path, method, row) for path, methods in sorted(document()["paths"].items())
                              if not path.startswith("/wheels") for method, row in methods.items())])  # fmt: skip


def document() -> dict[str, Any]:
    """Returns the OpenAPI document of a dispatcher."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_requested(folder))


async def _requested(folder: str) -> dict[str, Any]:
    dispatcher = DispatcherService(Configuration({"dispatcher.rpc.port": 0, "rest.port": 0, "io.tmp.dirs": folder}))
    await dispatcher.start()
    try:
        url = f"http://{dispatcher.rest_address}/openapi.json"
        response = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read())
        found: dict[str, Any] = json.loads(response)
        return found
    finally:
        await dispatcher.stop()


def section(path: str, method: str, row: dict[str, Any]) -> str:
    """Returns the lines of an endpoint."""
    shown = path.replace("{", ":").replace("}", "")
    lines = [f"## {method.upper()} {shown}", "", row["summary"], "", f"Role: `{row['x-millstream-role']}`.", ""]
    if row.get("parameters"):
        lines += ["| parameter | in | type | |", "|---|---|---|---|"]
        lines += [
            f"| `{p['name']}`{' (required)' if p.get('required') and p['in'] != 'path' else ''} | {p['in']} "
            f"| {kind(p['schema'])} | {p.get('description', '')} |"
            for p in row["parameters"]
        ]
        lines.append("")
    for media, body in row.get("requestBody", {}).get("content", {}).items():
        lines += [f"Body, `{media}`:", "", "```text", *shape(body.get("schema", {})), "```", ""]
    for status, response in row["responses"].items():
        if not status.startswith("2"):
            continue
        for media, body in response.get("content", {}).items():
            if media == "application/json":
                lines += [f"Response, {status}:", "", "```text", *shape(body.get("schema", {})), "```", ""]
            else:
                lines += [f"Response, {status}: `{media}`", ""]
    return "\n".join(lines)


def kind(schema: dict[str, Any]) -> str:
    """Returns the name of the type of a schema."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", "any"))


def shape(schema: dict[str, Any], indent: str = "", name: str = "") -> list[str]:
    """Returns a readable form of a JSON schema, with a line for each field."""
    start = f"{indent}{name}: " if name else indent
    options = schema.get("anyOf", [])
    if options:
        known = [option for option in options if option.get("type") != "null"]
        first, *rest = shape(known[0] if known else {}, indent, name)
        ending = " or null" if len(known) < len(options) else ""
        return [first + ending, *rest]
    if schema.get("type") == "object" and schema.get("properties"):
        needed = schema.get("required", [])
        inner = [
            line for key, value in schema["properties"].items()
            for line in shape(value, f"{indent}  ", key if key in needed else f"{key}?")
        ]  # fmt: skip
        return [f"{start}{{", *inner, f"{indent}}}"]
    if schema.get("type") == "array":
        first, *rest = shape(schema.get("items", {}), indent)
        return [f"{start}[{first.strip()}", *rest[:-1], f"{rest[-1]}]"] if rest else [f"{start}[{first.strip()}]"]
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        first, *rest = shape(schema["additionalProperties"], indent)
        return [f"{start}any name: {first.strip()}", *rest]
    if "enum" in schema:
        return [start + " | ".join(str(value) for value in schema["enum"])]
    return [start + str(schema.get("type", "any"))]
