"""What tests of windows against models share: kinds of windows, as the API and as a model has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from millstream.common import Watermark
from millstream.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from millstream.taskmanager.testing import OperatorHarness


@dataclass(frozen=True)
class Kind:
    """A kind of windows, and how a model has it."""

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


def advanced(harnesses: Iterable[OperatorHarness], watermark: Watermark) -> list[Any]:
    """What comes out of all subtasks when event time goes on."""
    out: list[Any] = []
    for harness in harnesses:
        before = len(harness.out.rows)
        harness.signal(watermark)
        out += harness.out.rows[before:]
    return out
