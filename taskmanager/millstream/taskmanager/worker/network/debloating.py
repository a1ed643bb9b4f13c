"""How much data a task allows its senders to have in flight, as a pure machine.

What is queued in front of a task has to be processed before a barrier behind it is reached. So processing it should
take about a target time, however slow the task's functions are. A `Debloater` learns from the task's steps what a
record costs, including the time that the task waits for its thread or for room in its outputs. The records that fit
into the target time are its window. They are distributed over the buffers that may be in flight, each of at most so
many rows; if there are fewer records than buffers, shared buffers are withheld. Rows are counted instead of bytes,
because the cost of a function depends on its records, and because batches passed inside of a worker have no bytes.

The window starts at its minimum. It grows at most sixteenfold each time, after it has been consumed once: a fast task
has its full window after a few round trips. It is never so small that a function with a fixed cost per batch, such as a
round trip to a database, would get smaller batches than the pace of its task requires.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

FIRST_ROWS = 1
"""The rows of a buffer, before anything is known of its consumer."""

SENDING = 2
"""The buffers of a channel that wait at its sender: one that is ready, and one that is being filled."""

_GROWTH = 16
_STEPS = 6  # steps of the task's own pace that the window holds at least
_MOST_ROWS = 1 << 20  # in a buffer: no limit, in effect


class Allowance(Struct, frozen=True):
    """What one input may have in flight: the rows of a buffer, and the credit that its channels share."""

    rows: int
    floating: int


class Debloater:
    """The debloater of one input of a task."""

    def __init__(
        self, channels: int, exclusive: int, floating: int, target: float, period: float, samples: int, threshold: float
    ) -> None:
        self._own = max(1, channels) * (exclusive + SENDING)
        self._floating = floating
        self._target = target
        self._period = period
        self._threshold = threshold
        self._places = self._own + floating
        self._samples: deque[tuple[int, float]] = deque(maxlen=samples)
        self._window = float(FIRST_ROWS * self._places)
        self._rows = 0
        self._seconds = 0.0
        self._step = 0
        self.allowance = self._allow()

    def stepped(self, rows: int, seconds: float, wanted: int) -> Allowance | None:
        """The task has processed rows, in a time that includes its waiting; its pace prefers `wanted` rows in a step.

        Returns the new allowance if it has changed by more than the threshold.
        """
        self._rows += rows
        self._seconds += seconds
        self._step = max(self._step, min(rows, wanted))
        if not self._rows or (self._seconds < self._period and self._rows < self._window):
            return None
        self._samples.append((self._rows, self._seconds))
        window = self._next_window()
        self._rows, self._seconds, self._step = 0, 0.0, 0
        if abs(window - self._window) < self._threshold * self._window:
            return None
        self._window = window
        before, self.allowance = self.allowance, self._allow()
        return self.allowance if self.allowance != before else None

    def _next_window(self) -> float:
        most = min(_GROWTH * self._window, float(_MOST_ROWS * self._places))
        rows, seconds = map(sum, zip(*self._samples, strict=True))
        fitting = most if seconds == 0 else min(most, self._target * rows / seconds)
        needed = _STEPS * self._step if self._step > 1 else 1
        return max(1.0, fitting, min(most, needed))

    def _allow(self) -> Allowance:
        if self._window >= self._places:
            return Allowance(int(self._window) // self._places, self._floating)
        # One stays, so that a step of two rows is possible at all: see `Pace`.
        return Allowance(1, max(int(self._window) - self._own, min(1, self._floating)))
