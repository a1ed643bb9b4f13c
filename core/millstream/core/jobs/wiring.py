"""Computes which subtasks of two vertices an edge connects. Pure; used by the job manager and the plan."""

from __future__ import annotations

POINTWISE = frozenset({"FORWARD", "RESCALE"})


def consumers_of(strategy: str, producer: int, producers: int, consumers: int) -> list[int]:
    """Returns the consumer subtasks of one producer subtask, in the order of its channels."""
    if strategy not in POINTWISE:
        return list(range(consumers))
    if producers == consumers:
        return [producer]
    if producers < consumers:
        start = producer * consumers // producers
        end = (producer + 1) * consumers // producers
        return list(range(start, end))
    return [producer * consumers // producers]
