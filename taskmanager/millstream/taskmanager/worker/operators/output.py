"""Where the batches and signals of an operator are sent: to the next operators of its chain, or out of the task.

An operator has one `Output` for its main stream, and one for each of its side outputs that is consumed. It need not
know where they lead: elements arrive in the order in which they were emitted.
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
    """Counts what has left an operator through one of its outputs."""

    __slots__ = ("records", "watermark")

    def __init__(self) -> None:
        self.records = 0
        self.watermark = MIN_TIMESTAMP
        """The last watermark."""


class LocalOutput:
    """An output inside of a task: `emit` distributes batches to its consumers, signals go to all of them.

    `passed` is updated by `emit`, once per batch.
    """

    __slots__ = ("_passed", "_targets", "emit")

    def __init__(self, emit: Emit, targets: Sequence[Send] = (), passed: Passed | None = None) -> None:
        self.emit = emit
        self._passed = passed or Passed()
        self._targets = targets

    def signal(self, signal: StreamSignal) -> None:
        """Sends a signal to every consumer."""
        if isinstance(signal, Watermark):
            self._passed.watermark = signal.timestamp
        for target in self._targets:
            target(signal)
