"""Flame graphs: stack samples aggregated to a tree, in the shape of Flink's REST API. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from millstream.core.messages.inspection import SampledStack

Node = dict[str, Any]
"""`name`, `value` (the number of samples that contain it) and `children`."""


class FlameGraphType(StrEnum):
    """The kind of samples that a flame graph shows."""

    FULL = "full"
    ON_CPU = "on_cpu"
    OFF_CPU = "off_cpu"

    def counts(self, stack: SampledStack) -> bool:
        """Whether a stack is counted."""
        return self is FlameGraphType.FULL or stack.on_cpu == (self is FlameGraphType.ON_CPU)


def flame_graph(stacks: Iterable[SampledStack], kind: FlameGraphType) -> Node:
    """Returns the tree, with the most frequent children first."""
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
    """Sorts without recursion, since a stack may exceed Python's recursion limit."""
    waiting = [root]
    while waiting:
        children = waiting.pop()["children"]
        children.sort(key=lambda node: (-node["value"], node["name"]))
        waiting += children
