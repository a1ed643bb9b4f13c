"""The reference of the REST API, made of the OpenAPI document that a dispatcher answers."""

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

Every endpoint with its parameters and the shape of its answer, from the document at `/openapi.json`. Each is also there
under `/v1`. What they are for, errors and examples are in [REST API](../rest-api.md); the roles are described in
[Security](../security.md).
"""


def page() -> str:
    """The page."""
    return "\n".join([HEAD, *(section(path, method, row) for path, methods in sorted(document()["paths"].items())
                              if not path.startswith("/wheels") for method, row in methods.items())])  # fmt: skip


def document() -> dict[str, Any]:
    """What a dispatcher answers."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_asked(folder))


async def _asked(folder: str) -> dict[str, Any]:
    dispatcher = DispatcherService(Configuration({"dispatcher.rpc.port": 0, "rest.port": 0, "io.tmp.dirs": folder}))
    await dispatcher.start()
    try:
        url = f"http://{dispatcher.rest_address}/openapi.json"
        answer = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=60).read())
        found: dict[str, Any] = json.loads(answer)
        return found
    finally:
        await dispatcher.stop()


def section(path: str, method: str, row: dict[str, Any]) -> str:
    """One endpoint."""
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
    for status, answer in row["responses"].items():
        if not status.startswith("2"):
            continue
        for media, body in answer.get("content", {}).items():
            if media == "application/json":
                lines += [f"Answer, {status}:", "", "```text", *shape(body.get("schema", {})), "```", ""]
            else:
                lines += [f"Answer, {status}: `{media}`", ""]
    return "\n".join(lines)


def kind(schema: dict[str, Any]) -> str:
    """A type in a word."""
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return str(schema.get("type", "any"))


def shape(schema: dict[str, Any], indent: str = "", name: str = "") -> list[str]:
    """A JSON schema as people read it: a line for each field."""
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
