"""The steps of a task: each passes one element, or one poll of a source, through the whole chain.

Owned by the worker's loop. A task whose outputs have no room takes no step: it is backpressured. `TaskInput` selects
what a step takes, and `TaskPacing` how much of it. Batches are processed by the operators. Signals are handled by the
task or forwarded; event time is that of all channels combined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from millstream.core.clock import Clock
from millstream.core.records.batches import (
    Barrier,
    Element,
    EndOfInput,
    RowBatch,
    Signal,
    StreamSignal,
    Watermark,
    WatermarkStatus,
)
from millstream.datastream.connectors.base import PollStatus
from millstream.taskmanager.worker.network.inputs import InputGate
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.tasks.chain import OperatorChain
from millstream.taskmanager.worker.tasks.pacing import Outlet
from millstream.taskmanager.worker.tasks.task_input import TaskInput
from millstream.taskmanager.worker.tasks.task_life import Phase
from millstream.taskmanager.worker.tasks.task_pacing import StepResult, TaskPacing
from millstream.taskmanager.worker.tasks.watermark_valve import WatermarkValve

if TYPE_CHECKING:
    from millstream.taskmanager.worker.tasks.task import Task

_RELEASED = 2048  # restored records emitted in a step
_TOGETHER = 0.005  # seconds for which a step continues with watermarks and small batches: mails wait meanwhile
_MOST_TOGETHER = 64  # elements of one step


class TaskSteps:
    """The steps of one task. Without operators, if the task had finished, it forwards the end of its input."""

    __slots__ = (
        "_chain", "_clock", "_exhausted", "_has_more", "_ready", "_receivers", "_task", "event_time", "input",
        "last_result",
        "next_flush", "pacing",
    )  # fmt: skip

    def __init__(self, task: Task, pacing: TaskPacing, clock: Clock) -> None:
        self._task = task
        self._clock = clock
        self._chain = OperatorChain([], ())
        self._receivers: dict[InputGate, Emit] = {}
        self.event_time = WatermarkValve()
        """The event time of the task's inputs."""
        self._ready = True  # of a source: it is to be polled
        self._has_more = False
        self._exhausted = False  # of a source: it has no more records
        self.pacing = pacing
        self.input = TaskInput(task.gates, pacing)
        self.last_result = StepResult.IDLE
        self.next_flush: float | None = None

    def attach(self, chain: OperatorChain, outlet: Outlet) -> None:
        """Called before the first step, when the gates have their channels."""
        gates, receivers = self._task.gates, chain.head.receivers()
        self._chain = chain
        self._receivers = {gate: receivers[gate.input_index] for gate in gates}
        channels = (channel.channel_id for gate in gates for channel in gate.channels)
        self.event_time = WatermarkValve(channels, at=self._clock.now_ms())
        self.pacing.attach(outlet, chain.head.polls_columns)

    @property
    def may_go_on(self) -> bool:
        """Whether the last step may be followed by another before the producers take their turn.

        True if there are producers, and for a source that stopped early only to keep the batches of its consumers
        small.
        """
        return self.last_result is StepResult.WORKED and (self._has_more or bool(self._task.gates))

    def wake_up(self) -> None:
        """The source has records to poll."""
        self._ready = True

    def step(self) -> None:
        """Takes one bounded step; `last_result` is its result."""
        self.pacing.begin()
        if self._task.life.phase is Phase.ENDED:
            self.last_result = self._drain()
        elif self._task.checkpoints.awaits_results:
            self.last_result = StepResult.WORKED if self._task.checkpoints.go_on() else StepResult.IDLE
        elif self._is_over and not self._chain.holds_back:
            self.last_result = self._end()
        elif not self._has_room():
            self.last_result = self._take_input(pressed=True)
        elif self._is_over:
            self.last_result = self._release()
        elif self._chain.source is not None:
            self.last_result = self._poll(self._chain.source)
        else:
            self.last_result = self._take_input()

    def flush_due(self, now: float) -> None:
        """Flushes the outputs whose buffer timeout has expired, and runs the timed actions that are due.

        These are barriers behind records, and operators that depend on the time. `next_flush` is when to call this
        again, if at all.
        """
        task = self._task
        dues = [task.checkpoints.barriers_due(now), *[partition.flush_due(now) for partition in task.partitions]]
        if task.life.phase is Phase.RUNNING:  # nothing may follow the end, nor a savepoint that stops the job
            dues += [operator.on_time(now) for operator in self._chain.timed]
            dues.append(self._chain.mark(now))
        self.next_flush = min([due for due in dues if due is not None], default=None)

    @property
    def _is_over(self) -> bool:
        """Whether no more input will come, or none is wanted."""
        phase = self._task.life.phase
        if self._chain.source is not None:
            return phase is Phase.STOPPED or (self._exhausted and phase is not Phase.SUSPENDED)
        return self.input.is_over and phase is not Phase.SUSPENDED

    def _has_room(self) -> bool:
        for partition in self._task.partitions:
            if not partition.has_room():
                return False
        bounded = self._chain.bounded
        return not bounded or all(operator.has_room for operator in bounded)

    def _end(self) -> StepResult:
        """Ends the task, unless an operator still waits for results, whose mails wake the worker."""
        return StepResult.WORKED if self._task.end() else StepResult.IDLE

    def _release(self) -> StepResult:
        """Releases held-back records after the input has ended."""
        self._chain.head.release(_RELEASED)
        return StepResult.WORKED

    def _poll(self, source: Operator) -> StepResult:
        if source.is_paused:
            return StepResult.PAUSED
        if not self._ready or self._task.life.phase is Phase.SUSPENDED:
            return StepResult.IDLE
        wanted, most = self.pacing.rows_to_poll()
        self._has_more = False
        result = source.poll(min(wanted, most))
        if result is PollStatus.END_OF_INPUT:
            self._exhausted = True
            return self._end()
        if result is PollStatus.NOTHING_AVAILABLE:
            self._ready = False
            return StepResult.IDLE
        assert not isinstance(result, PollStatus)
        if len(result):
            self.pacing.polled(result)
            self._task.counts.records_polled += len(result)
            self._has_more = most < wanted and len(result) >= most
            source.emit_polled(result)
        return StepResult.WORKED

    def _take_input(self, pressed: bool = False) -> StepResult:
        element = self.input.next(pressed)
        if element is None:
            return StepResult.BACKPRESSURED if pressed else StepResult.IDLE
        self._take(element)
        if not pressed and len(self._receivers) == 1:
            self._take_more(element)
        return StepResult.WORKED

    def _take_more(self, element: Element) -> None:
        """Continues with waiting watermarks and small batches: if they alternate, a step for each is expensive."""
        until = self._clock.monotonic() + _TOGETHER
        for _ in range(_MOST_TOGETHER):
            if not isinstance(element, Watermark | WatermarkStatus | RowBatch) or not self.pacing.is_short:
                return
            if not self._has_room() or self._clock.monotonic() >= until:
                return
            following = self.input.next()
            if following is None:
                return
            self._take(following)
            element = following

    def _take(self, element: Element) -> None:
        gate = self.input.gate
        assert gate is not None, "an element came from one"
        if isinstance(element, Signal):
            self._take_signal(gate, element)
            return
        self._task.counts.records_in += len(element)
        self.pacing.processing(element, gate)
        if gate.keys is not None:
            gate.keys.look(element)
        self._receivers[gate](element)

    def _take_signal(self, gate: InputGate, signal: Signal) -> None:
        channel = self.input.channel
        assert channel is not None, "an element came from one"
        match signal:
            case EndOfInput():
                self.input.end_channel()
                if self._is_over:
                    self._task.end()  # first, so that a snapshot that waits for this channel holds the task's end
                self._task.checkpoints.channel_ended(channel.channel_id)
            case Barrier():
                channel.passed(signal)
                self._task.checkpoints.arrived(channel.channel_id, signal)
            case StreamSignal() if self._task.had_finished:
                pass  # it only forwards the end
            case Watermark(timestamp):
                self._send_on(self.event_time.watermark(channel.channel_id, timestamp, self._clock.now_ms()))
            case WatermarkStatus(is_idle):
                self._send_on(self.event_time.status(channel.channel_id, is_idle, self._clock.now_ms()))
            case StreamSignal():
                self._chain.signal(signal, gate.input_index)
            case _:
                assert_never(signal)

    def _send_on(self, signals: list[StreamSignal]) -> None:
        """Emits event time, combined from all channels."""
        for signal in signals:
            self._chain.signal(signal, 0)

    def _drain(self) -> StepResult:
        task = self._task
        drained = all(p.is_drained() for p in task.partitions) and all(o.is_drained for o in self._chain.draining)
        if not drained or task.checkpoints.is_writing:
            return StepResult.BACKPRESSURED
        return StepResult.ENDED if task.had_finished or task.life.may_finish else StepResult.IDLE
