"""Where what an operator emits goes: batches and signals, to the next operators of its chain or out of the task.

An operator is handed one `Output` for its main stream, and one for each of its side outputs that is read. It
need not know where they lead: whatever it emits arrives there in the order in which it was emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.core.records.batches import MIN_TIMESTAMP, Batch, StreamSignal, Watermark

Emit = Callable[[Batch], None]
Send = Callable[[StreamSignal], None]


class Output(Protocol):
    """One output of an operator, or of a task."""

    @property
    def emit(self) -> Emit:
        """Takes a batch, which the operator neither keeps nor changes afterwards."""

    @property
    def signal(self) -> Send:
        """Takes a signal, behind everything emitted before it."""


class Passed:
    """What has left an operator through one of its outputs."""

    __slots__ = ("records", "watermark")

    def __init__(self) -> None:
        self.records = 0
        self.watermark = MIN_TIMESTAMP
        """The last."""


class LocalOutput:
    """An output inside of a task: `emit` spreads batches over its consumers, signals go to all of them.

    `passed` is counted by `emit`, a batch at a time.
    """

    __slots__ = ("_passed", "_targets", "emit")

    def __init__(self, emit: Emit, targets: Sequence[Send] = (), passed: Passed | None = None) -> None:
        self.emit = emit
        self._passed = passed or Passed()
        self._targets = targets

    def signal(self, signal: StreamSignal) -> None:
        """To every consumer."""
        if isinstance(signal, Watermark):
            self._passed.watermark = signal.timestamp
        for target in self._targets:
            target(signal)
