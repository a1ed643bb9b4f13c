"""A flame graph as a self-contained HTML page. Pure; trees are deep, so nothing here is recursive."""

from __future__ import annotations

import html

from millstream.core.inspection.flame_graph import Node

_ROW = 18  # pixels
_WIDTH = 1200
_NARROWEST = 0.5  # minimum width in pixels of a box that is drawn


def function_of(name: str) -> str:
    """Returns the function and file of a frame's name, without the line."""
    head, bracket, place = name.rpartition(" (")
    file, colon, line = place.rpartition(":")
    return f"{head} ({file})" if bracket and colon and line.rstrip(")").isdigit() else name


def page(root: Node, title: str) -> str:
    """Returns a self-contained page with the graph; names and shares are shown on hover."""
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
    title = html.escape(f"{name}: {100 * share:.1f} %")
    return (
        f'<g><title>{title}</title><rect x="{left:.2f}" y="{level * _ROW}" width="{width:.2f}" height="{_ROW - 1}" '
        f'fill="hsl({hue},75%,70%)"/><text x="{left + 3:.2f}" y="{level * _ROW + 12}">{html.escape(label)}</text></g>'
    )
