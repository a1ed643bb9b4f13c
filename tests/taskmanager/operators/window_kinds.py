"""Shared by tests of windows against models: kinds of windows, in the API and in a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from millstream.common import Watermark
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.testing.operator_harness import Snapshot


@dataclass(frozen=True)
class Kind:
    """A kind of windows, and its implementation in a model."""

    size: int = 0
    slide: int | None = None
    gap: int | None = None
    offset: int = 0

    def assigner(self) -> Any:
        if self.gap is not None:
            return EventTimeSessionWindows.with_gap(self.gap)
        if self.slide is not None:
            return SlidingEventTimeWindows.of(self.size, self.slide, self.offset)
        return TumblingEventTimeWindows.of(self.size, self.offset)

    def windows(self, timestamp: int) -> list[tuple[int, int]]:
        if self.gap is not None:
            return [(timestamp, timestamp + self.gap)]
        step = self.slide or self.size
        last = timestamp - (timestamp - self.offset) % step
        return [(start, start + self.size) for start in range(last, timestamp - self.size, -step)]


def snapshot_of(harnesses: Iterable[OperatorHarness]) -> Snapshot:
    """The snapshot of all subtasks: small states are in the metadata completely."""
    snapshots = [harness.snapshot() for harness in harnesses]
    (merged,), *others = [operators_from_json(snapshot.operators, "a subtask") for snapshot in snapshots]
    for (operator,) in others:
        states = zip(merged.states, operator.states, strict=True)
        merged = replace(merged, states=tuple(replace(a, files=a.files + b.files) for a, b in states))
    return replace(snapshots[0], operators=operators_to_json([merged]))


def advanced(harnesses: Iterable[OperatorHarness], watermark: Watermark) -> list[Any]:
    """What all subtasks emit when event time advances."""
    out: list[Any] = []
    for harness in harnesses:
        before = len(harness.out.rows)
        harness.signal(watermark)
        out += harness.out.rows[before:]
    return out
