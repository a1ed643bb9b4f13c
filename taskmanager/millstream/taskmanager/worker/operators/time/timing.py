"""Operators whose function is called back when the watermark, or processing time, reaches the time of a timer.

Timers are keyed state. Those that are due fire in the order of their timestamps, before the watermark that made them
due is forwarded; timers that a callback registers or deletes take effect immediately. An overdue timer, because the job
was not running at its time, fires once.
"""

from __future__ import annotations

from typing import Any

from millstream.core.jobs.progress import OperatorProgress, TimedKind
from millstream.core.overriding import override
from millstream.core.records.batches import MAX_TIMESTAMP, StreamSignal, Watermark
from millstream.datastream.functions import Function
from millstream.datastream.time_domain import TimeDomain
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, OperatorError
from millstream.taskmanager.worker.operators.processing import ProcessingOperator
from millstream.taskmanager.worker.operators.record_context import TimerContext
from millstream.taskmanager.worker.operators.results import Results
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.machine_clock import fire_due, waiting
from millstream.taskmanager.worker.operators.time.timer_service import OperatorTimers
from millstream.taskmanager.worker.state.timers import Timer, TimerQueue, Timers

NAME = "user-timers"


class TimingOperator(ProcessingOperator):
    """Base of operators around process functions. `on_timer` of a function without keys is never called."""

    def __init__(self, setup: OperatorSetup, function: Any) -> None:
        super().__init__(setup, function)
        self._clock = setup.services.clock
        self._timers: Timers | None = None
        self.timer_service = OperatorTimers(self._clock, "timers can be set on keyed streams only: call key_by")

    def set_up_timers(self, context: TimerContext) -> None:
        """Called by the constructors of operators on keyed streams, whose state exists by then."""
        if not _has_on_timer(self.function):
            name = type(self.function).__qualname__
            self.timer_service.refuse(f"{name} has no method on_timer that a timer could call")
            return
        assert self.keyed_state is not None, "timers are keyed state"
        self._timers = self.keyed_state.timers(NAME)
        self._timer_context = context
        self.timer_service.use(self._timers)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Forwards a watermark after all timers that it makes due have fired."""
        if isinstance(signal, Watermark):
            self.timer_service.watermark = signal.timestamp
            if self._timers is not None:
                self._fire(self._timers.event, signal.timestamp, TimeDomain.EVENT_TIME)
        super().on_signal(signal, input_index)

    def on_time(self, now: float) -> float | None:
        """Fires the timers that are due in processing time."""
        if self._timers is None:
            return None
        queue = self._timers.processing
        return fire_due(queue, self._clock, now, lambda until: self._fire(queue, until, TimeDomain.PROCESSING_TIME))

    @property
    def ends_keys(self) -> bool:
        """True if timers can be registered."""
        return self._timers is not None

    def end_key(self) -> None:
        """Fires all timers, those of event time first."""
        if self._timers is not None:
            with self.timer_service.at_the_end():
                self._fire(self._timers.event, MAX_TIMESTAMP, TimeDomain.EVENT_TIME)
                self._fire(self._timers.processing, MAX_TIMESTAMP, TimeDomain.PROCESSING_TIME)

    @override
    def progress(self) -> OperatorProgress | None:
        return None if self._timers is None else OperatorProgress(self.name, waiting(self._timers, TimedKind.TIMERS))

    def _fire(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        assert self.keyed_state is not None, "timers are keyed state"
        results = Results(self, stamped=domain is TimeDomain.EVENT_TIME)
        add = results.add
        ctx, call, set_key = self._timer_context, self.function.on_timer, self.keyed_state.set_current_key
        ctx.domain = domain
        timer: Timer | None = None
        try:
            for timer in queue.due(until):
                timestamp, key, _ = timer
                set_key(key)
                ctx.key, ctx.current = key, timestamp
                result = call(timestamp, ctx)
                if result is not None:
                    add(result, timestamp)
        except (TaskInterrupted, OperatorError):
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD if timer is None else timer, error) from error
        finally:
            self.leave_key()
        results.emit()


def _has_on_timer(function: Any) -> bool:
    """Whether the class defines `on_timer` itself."""
    method = getattr(type(function), "on_timer", None)
    return method is not None and not any(vars(base).get("on_timer") is method for base in _bases(function))


def _bases(function: Any) -> list[type]:
    """The classes of the API that it derives from."""
    module = Function.__module__
    return [base for base in type(function).__mro__ if base.__module__ == module]
