"""Flame graphs in the formats of tools, and for users: collapsed stacks, speedscope, a page of its own, a table.

Pure functions of the tree that the REST API returns. Trees are as deep as stacks, so nothing here recurses.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from millstream.core.inspection.flame_graph_page import function_of

Node = dict[str, Any]


class Hot(Struct, frozen=True):
    """A function, in how many samples it was the one at work, and in how many it was on the stack at all."""

    name: str
    itself: int
    within: int


def paths(root: Node) -> Iterator[tuple[tuple[str, ...], int]]:
    """Every stack, from below the root, with the samples that ended there."""
    waiting: list[tuple[Node, tuple[str, ...]]] = [(child, ()) for child in root["children"]]
    while waiting:
        node, above = waiting.pop()
        path = (*above, str(node["name"]))
        alone = node["value"] - sum(child["value"] for child in node["children"])
        if alone:
            yield path, alone
        waiting += [(child, path) for child in node["children"]]


def hottest(root: Node) -> list[Hot]:
    """The functions, the hottest first. Lines of a function are one; below the root are operators, not functions."""
    itself, within = Counter[str](), Counter[str]()
    for path, count in paths(root):
        names = [function_of(name) for name in path[1:]] or [path[0]]
        itself[names[-1]] += count
        for name in set(names):
            within[name] += count
    found = [Hot(name, itself[name], within[name]) for name in within]
    return sorted(found, key=lambda hot: (-hot.itself, -hot.within, hot.name))


def collapsed(root: Node) -> str:
    """One line a stack, as flamegraph.pl and many others read it."""
    lines = [f"{';'.join(part.replace(';', ',') for part in path)} {count}" for path, count in paths(root)]
    return "".join(f"{line}\n" for line in sorted(lines))


def speedscope(root: Node, name: str, interval_ms: float) -> str:
    """For speedscope.app, and for editors that show its files."""
    frames: dict[str, int] = {}
    samples, weights = [], []
    for path, count in sorted(paths(root)):
        samples.append([frames.setdefault(part, len(frames)) for part in path])
        weights.append(count * interval_ms)
    profile = {
        "type": "sampled", "name": name, "unit": "milliseconds", "startValue": 0, "endValue": sum(weights),
        "samples": samples, "weights": weights,
    }  # fmt: skip
    return json.dumps({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": name, "exporter": "millstream",
        "shared": {"frames": [{"name": frame} for frame in frames]},
        "profiles": [profile],
    })  # fmt: skip
