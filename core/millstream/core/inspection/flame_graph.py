"""Flame graphs: what was seen on stacks, added up to a tree, in the shape of Flink's REST API. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from millstream.core.messages.inspection import SampledStack

Node = dict[str, Any]
"""`name`, `value` (in how many samples it was seen) and `children`."""


class FlameGraphType(StrEnum):
    """Which samples count."""

    FULL = "full"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"

    def counts(self, stack: SampledStack) -> bool:
        """Whether a stack does."""
        return self is FlameGraphType.FULL or stack.on_cpu == (self is FlameGraphType.ON_CPU)


def flame_graph(stacks: Iterable[SampledStack], kind: FlameGraphType) -> Node:
    """The tree, with the most frequent of children first."""
    root = _node("root")
    index: dict[int, dict[str, Node]] = {}
    for stack in stacks:
        if not kind.counts(stack):
            continue
        node = root
        node["value"] += stack.count
        for name in stack.frames:
            known = index.setdefault(id(node), {})
            child = known.get(name)
            if child is None:
                child = known[name] = _node(name)
                node["children"].append(child)
            node = child
            node["value"] += stack.count
    _sort(root)
    return root


def _node(name: str) -> Node:
    return {"name": name, "value": 0, "children": []}


def _sort(root: Node) -> None:
    """Not by recursion: a stack may be deeper than Python's own."""
    waiting = [root]
    while waiting:
        children = waiting.pop()["children"]
        children.sort(key=lambda node: (-node["value"], node["name"]))
        waiting += children
