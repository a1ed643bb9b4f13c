"""Flame graphs in the forms that tools and people read: collapsed stacks, speedscope, a page of its own, a table.

Pure functions of the tree that the REST API answers. Trees are as deep as stacks, so nothing here recurses.
"""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

Node = dict[str, Any]
_ROW = 18  # pixels
_WIDTH = 1200
_NARROWEST = 0.5  # pixels of a box that is drawn


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


def function_of(name: str) -> str:
    """Of a frame, without its line."""
    head, bracket, place = name.rpartition(" (")
    file, colon, line = place.rpartition(":")
    return f"{head} ({file})" if bracket and colon and line.rstrip(")").isdigit() else name


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


def page(root: Node, title: str) -> str:
    """A page with a picture of the graph, which needs nothing else: hover shows names and shares."""
    boxes, depth = _boxes(root)
    height = (depth + 1) * _ROW
    drawn = "\n".join(boxes)
    shown = html.escape(title)
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{shown}</title>
<style>
body {{ font: 14px sans-serif; margin: 1em; background: #fff; color: #111 }}
text {{ font: 11px monospace; pointer-events: none }}
rect {{ stroke: #fff; stroke-width: 0.5 }} rect:hover {{ stroke: #000 }}
</style></head><body><h1>{shown}</h1>
<p>{root["value"]} samples. A box is as wide as its share of them; what it called is below it.</p>
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" aria-label="{shown}">
{drawn}
</svg></body></html>
"""


def _boxes(root: Node) -> tuple[list[str], int]:
    boxes: list[str] = []
    whole, deepest = max(root["value"], 1), 0
    waiting: list[tuple[Node, float, int]] = [(root, 0.0, 0)]
    while waiting:
        node, left, level = waiting.pop()
        width = _WIDTH * node["value"] / whole
        if width < _NARROWEST:
            continue
        deepest = max(deepest, level)
        boxes.append(_box(str(node["name"]), node["value"] / whole, left, width, level))
        for child in node["children"]:
            waiting.append((child, left, level + 1))
            left += _WIDTH * child["value"] / whole
    return boxes, deepest


def _box(name: str, share: float, left: float, width: float, level: int) -> str:
    hue = 200 if name.startswith("[") else 20 + sum(map(ord, function_of(name))) % 40
    fits = int(width / 6.7) - 1
    label = name if len(name) <= fits else f"{name[: fits - 1]}…" if fits > 3 else ""
    told = html.escape(f"{name}: {100 * share:.1f} %")
    return (
        f'<g><title>{told}</title><rect x="{left:.2f}" y="{level * _ROW}" width="{width:.2f}" height="{_ROW - 1}" '
        f'fill="hsl({hue},75%,70%)"/><text x="{left + 3:.2f}" y="{level * _ROW + 12}">{html.escape(label)}</text></g>'
    )
