"""Where what an operator emits goes: batches and signals, to the next operators of its chain or out of the task.

An operator is handed one `Output` for its main stream, and one for each of its side outputs that somebody reads. It
need not know where they lead: whatever it emits arrives there in the order in which it was emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.core.records.batches import Batch, StreamSignal

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


class LocalOutput:
    """An output inside of a task: `emit` spreads batches over its consumers, signals go to all of them."""

    __slots__ = ("_targets", "emit")

    def __init__(self, emit: Emit, targets: Sequence[Send] = ()) -> None:
        self.emit = emit
        self._targets = targets

    def signal(self, signal: StreamSignal) -> None:
        """To every consumer."""
        for target in self._targets:
            target(signal)
