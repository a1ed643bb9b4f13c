"""`assign_timestamps_and_watermarks`: downstream event time is determined by this strategy."""

from __future__ import annotations

from millstream.core.jobs.plan import plan
from millstream.core.jobs.progress import OperatorProgress, WatermarkOrigin
from millstream.core.overriding import override
from millstream.core.records.batches import LAST_WATERMARK, Batch, StreamSignal, Watermark, WatermarkStatus
from millstream.core.settings.configuration import Configuration
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, Operator, OperatorError
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.event_time import INTERVAL, GeneratedWatermarks, Rhythm, Timestamps
from millstream.taskmanager.worker.operators.time.timed_output import TimedOutput


@builds(plan.TimestampsSpec)
class TimestampsOperator(Operator):
    """Assigns timestamps and emits watermarks after the records.

    Watermarks of its input are dropped, except the last.
    """

    only_reads = True

    def __init__(self, setup: OperatorSetup, spec: plan.TimestampsSpec) -> None:
        super().__init__(setup)
        self._timestamps = Timestamps(spec.strategy, self.input_type, self.name)
        self._strategy = spec.strategy
        self._rhythm = Rhythm(Configuration(setup.services.options).get(INTERVAL))
        self._timed = TimedOutput(self.name, self.output.emit, super().on_signal, self.rows_of)
        self._watermarks: GeneratedWatermarks | None = None
        self._clock, self._held_up = setup.services.clock, setup.services.held_up

    @override
    def open(self) -> None:
        try:
            self._watermarks = GeneratedWatermarks(self._strategy, self.context, self._timed.signal, self._clock)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    def process(self, batch: Batch) -> None:
        """Emits each record before the watermarks that it causes."""
        assert self._watermarks is not None, "open is called first"
        self._timed.emit(self._timestamps.of(batch), self._watermarks)

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Drops the watermarks of the input, except for the end of event time."""
        if signal == LAST_WATERMARK or not isinstance(signal, Watermark | WatermarkStatus):
            super().on_signal(signal, input_index)

    def on_time(self, now: float) -> float | None:
        """Checks at every interval whether event time has advanced."""
        if self._rhythm.is_due(now) and self._watermarks is not None:
            guarded_look(self, self._watermarks, now - self._held_up())
        return self._rhythm.next

    def progress(self) -> OperatorProgress | None:
        """The progress of event time."""
        assert self._watermarks is not None, "open is called first"
        origin = WatermarkOrigin(self._watermarks.progress(), idle_timeout_ms=self._strategy.idle_timeout_ms)
        return OperatorProgress(self.name, origin)


def guarded_look(operator: Operator, watermarks: GeneratedWatermarks, now: float) -> None:
    """Calls the generator's periodic emission; what it raises is the operator's error."""
    try:
        watermarks.look(now)
    except (TaskInterrupted, OperatorError):
        raise
    except BaseException as error:
        raise OperatorError(operator.name, NO_RECORD, error) from error
