"""Flink's REST specification, compared with responses. What Millstream leaves out is in a table of the manual."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flink_extract import EXTRACT

_TABLE = "## What is left out"
_OPTIONAL = {"PlanNode.inputs"}
"""Keys that only some objects of their schema have, in Flink as well: a source has no inputs."""


def left_out() -> set[str]:
    """Operations, as `GET /path`, and keys, as `Schema.key`, or `Schema.*` for all keys of a schema."""
    page = Path(__file__).parents[1] / "docs" / "rest-api.md"
    section = page.read_text().partition(_TABLE)[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


class Specification:
    """The operations, and which keys responses had and lacked."""

    def __init__(self) -> None:
        extract = json.loads(EXTRACT.read_text())
        self.operations: dict[str, Any] = extract["operations"]
        self.schemas: dict[str, Any] = extract["schemas"]
        self.left_out = left_out()
        self.seen: set[str] = set()
        self.missing: dict[str, str] = {}
        """Where a key first lacked."""
        self.compared: set[str] = set()

    def compare(self, operation: str, response: Any) -> None:
        """Takes note of what a response has of its shape."""
        self.compared.add(operation)
        self._compare(self.operations[operation]["response"], response, operation)

    def unseen(self) -> set[str]:
        """The keys of the operations that were compared which no response had."""
        reached = {name for one in self.compared for name in self._reached(self.operations[one]["response"], set())}
        return {
            f"{name}.{key}"
            for name in reached
            if "|" not in self.schemas[name]
            for key in self.schemas[name]
            if key != "*" and not {f"{name}.{key}", f"{name}.*"} & (self.seen | self.left_out)
        }

    def unknown(self) -> set[str]:
        """What the table leaves out but the specification has not."""
        keys = {f"{name}.{key}" for name, fields in self.schemas.items() for key in fields}
        return self.left_out - set(self.operations) - keys - {f"{name}.*" for name in self.schemas}

    def _compare(self, shape: Any, value: Any, at: str) -> None:
        if value is None or not self._fields(shape):  # anything at all
            return
        if isinstance(shape, list):
            for one in value:
                self._compare(shape[0], one, at)
        elif isinstance(shape, str):
            self._compare_object(shape, value, at)
        elif "|" in shape:
            for name in shape["|"]:  # an operation without a result and without a failure has none of their keys
                fields = {key: one for key, one in self.schemas[name].items() if key in value}
                self._keys(name, fields, value, at)
        else:
            self._keys("", shape, value, at)

    def _fields(self, shape: Any) -> Any:
        return self.schemas[shape] if isinstance(shape, str) and shape else shape

    def _compare_object(self, name: str, value: Any, at: str) -> None:
        fields = self.schemas[name]
        if isinstance(fields.get("|"), dict):
            self._compare_object(fields["|"][value["className"]], value, at)
        elif f"{name}.*" not in self.left_out:
            self._keys(name, fields, value, at)

    def _keys(self, name: str, fields: dict[str, Any], value: Any, at: str) -> None:
        if not isinstance(value, dict):
            self.missing.setdefault(f"{name}.*", f"{at}: {value!r:.100}")
            return
        for key, shape in fields.items():
            if key == "*":
                for one in value.values():
                    self._compare(shape, one, at)
            elif key in value:
                self.seen.add(f"{name}.{key}")
                self._compare(shape, value[key], f"{at} {key}")
            elif f"{name}.{key}" not in self.left_out | _OPTIONAL:
                self.missing.setdefault(f"{name}.{key}", at)

    def _reached(self, shape: Any, before: set[str]) -> Iterator[str]:
        if isinstance(shape, str) and shape and shape not in before:
            before.add(shape)
            yield shape
            for key, one in self.schemas[shape].items():
                if not {f"{shape}.{key}", f"{shape}.*"} & self.left_out:
                    yield from self._reached(one, before)
        for one in shape.values() if isinstance(shape, dict) else shape if isinstance(shape, list) else ():
            yield from self._reached(one, before)
