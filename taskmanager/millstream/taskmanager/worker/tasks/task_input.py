"""Selects what a task takes next from its inputs: which gate, which channel, and how much of a batch.

Owned by the worker's loop. Gates take turns, and so do the channels of each. A batch that is too large for one step is
taken in slices before anything else; small ones that wait in the same gate are taken together. While a task has no room
for its output, it only takes what is ahead of an urgent barrier: see `InputGate.is_pressed`.
"""

from __future__ import annotations

from millstream.core.records.batches import Batch, Element, Signal, joined, may_join
from millstream.taskmanager.worker.network.inputs import InputChannel, InputGate
from millstream.taskmanager.worker.tasks.task_pacing import TaskPacing


class TaskInput:
    """The input of one task; `gate` and `channel` are those of the last element."""

    __slots__ = ("_begun", "_begun_from", "_gates", "_pacing", "_taken", "_turn", "channel", "gate", "is_over")

    def __init__(self, gates: list[InputGate], pacing: TaskPacing) -> None:
        self._gates = gates
        self._pacing = pacing
        self._turn = 0
        self._begun: Batch | None = None
        self._begun_from: InputChannel | None = None
        self._taken = 0  # rows taken of the current batch
        self.gate: InputGate | None = None
        self.channel: InputChannel | None = None
        self.is_over = False
        """Whether every channel has ended."""

    def next(self, pressed: bool = False) -> Element | None:
        """The next element, or as much of a batch as one step takes; None if there is none."""
        if pressed and not any(gate.is_pressed for gate in self._gates):
            return None
        if self._begun is not None:
            return self._slice(self._begun)
        gates = self._gates
        for _ in gates:
            gate = gates[self._turn]
            self._turn = (self._turn + 1) % len(gates)
            taken = gate.poll(pressed=True) if pressed else gate.poll()
            if taken is not None:
                self.gate = gate
                self.channel, element = taken
                if isinstance(element, Signal):
                    return element
                return self._cut(element, gate, pressed)
        return None

    def begun(self) -> tuple[InputChannel, Batch] | None:
        """The part of a batch that was taken and is yet to be processed, and its channel."""
        if self._begun is None or self._begun_from is None:
            return None
        return self._begun_from, self._begun.slice(self._taken, len(self._begun))

    def end_channel(self) -> None:
        """Closes the channel of the last element, which was its end."""
        assert self.gate is not None, "it came from one"
        assert self.channel is not None, "it came from one"
        self.gate.end(self.channel)
        self.is_over = all(gate.all_ended for gate in self._gates)

    def _cut(self, batch: Batch, gate: InputGate, pressed: bool) -> Batch:
        if len(batch) > self._pacing.rows_at_once(batch):
            self._begun, self._taken, self._begun_from = batch, 0, self.channel
            return self._slice(batch)
        return batch if pressed else self._with_more(batch, gate)

    def _slice(self, batch: Batch) -> Batch:
        start, end = self._taken, self._taken + self._pacing.rows_at_once(batch)
        self._taken = end
        if end >= len(batch):
            self._begun = None
        return batch.slice(start, end)

    def _with_more(self, batch: Batch, gate: InputGate) -> Batch:
        """Appends the batches that wait behind a small one: a function may have a fixed cost per call.

        A batch that does not fit any more is processed next. Large batches stay as they are: joining columns
        copies them.
        """
        most, rows = self._pacing.rows_together(batch), len(batch)
        if rows >= most:
            return batch
        batches = [batch]
        while rows < most and (taken := gate.poll(like=batch)) is not None:
            channel, more = taken
            assert not isinstance(more, Signal), "batches were requested"
            if rows + len(more) > most or not may_join(batch, more):
                self._begun, self._taken, self._begun_from = more, 0, channel
                break
            batches.append(more)
            rows += len(more)
        return joined(batches)
