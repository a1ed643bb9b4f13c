"""Windows over rows of one key: an assigner assigns each record to windows, a trigger determines when they fire.

A window is kept until its end has passed, in event time plus the allowed lateness: then a cleanup timer removes its
state. A record whose windows were all removed is late; it is emitted to the side output for late records, or counted.
The most common windows, event-time windows that fire once at their end and keep one value, are processed a batch at a
time (`millstream.taskmanager.worker.operators.windows.aligned`); they use the same state, so that a late record among
them can be processed singly.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from millstream.core.jobs.plan.window_plan import Buffered, WindowSpec
from millstream.core.jobs.progress import OperatorProgress, TimedKind
from millstream.core.overriding import override
from millstream.core.records.batches import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    TIMESTAMP,
    Batch,
    RowBatch,
    StreamSignal,
    Watermark,
)
from millstream.core.records.function_code import getter, picked
from millstream.datastream.window import MergingWindowAssigner, TriggerResult
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, FunctionOperator, KeyOf, OperatorError
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.results import Results
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.machine_clock import fire_due, waiting
from millstream.taskmanager.worker.operators.time.timer_service import OperatorTimers
from millstream.taskmanager.worker.operators.windows.aligned import AlignedWindows, aligned_windows
from millstream.taskmanager.worker.operators.windows.contents import BufferedContents, make_contents
from millstream.taskmanager.worker.operators.windows.contexts import (
    AssignerContext,
    WindowStates,
    WindowTriggerContext,
)
from millstream.taskmanager.worker.operators.windows.evicting import Evicting
from millstream.taskmanager.worker.operators.windows.firing import ProcessContext, firing
from millstream.taskmanager.worker.operators.windows.merging import MergingWindows
from millstream.taskmanager.worker.operators.windows.spaces import window_space
from millstream.taskmanager.worker.partitioning import key_function
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.state.timers import Timer, TimerQueue

TIMERS = "window-timers"
LATE = "numLateRecordsDropped"


@builds(WindowSpec)
class WindowOperator(FunctionOperator):
    """The windows of one keyed stream, in one subtask."""

    def __init__(self, setup: OperatorSetup, spec: WindowSpec) -> None:
        super().__init__(setup, spec.function)
        backend = setup.keyed_state(spec.key_type)
        self.keyed_state: KeyedStateBackend = backend
        self._clock = setup.services.clock
        self._select_keys(key_function(spec.key_selector))
        self._assigner, self._trigger = spec.assigner, spec.trigger
        self._lateness, self._late_tag = spec.allowed_lateness, spec.late_tag
        self._is_event_time = bool(spec.assigner.is_event_time())
        self._space = window_space(spec.assigner)
        self._timers = backend.timers(TIMERS, self._space.type)
        self._clocks = OperatorTimers(self._clock)
        self._contents = make_contents(spec.contents, backend, self._space.type, spec.evictor is not None)
        self._assigner_context = AssignerContext(self._clocks, setup.context)
        states = WindowStates(backend, self._space, "trigger.")
        self._trigger_context = WindowTriggerContext(self._clocks, self._timers, states, setup.context)
        self._process_context = ProcessContext(
            self._clocks, WindowStates(backend, self._space, "window."), setup.context
        )
        self._fire_function, self._clear_function = firing(spec.function, self._process_context)
        self._combine = spec.contents.combine if isinstance(spec.contents, Buffered) else None
        self._merging: MergingWindows | None = None
        if isinstance(spec.assigner, MergingWindowAssigner):
            self._merging = MergingWindows(spec.assigner, self._space, backend)
        self._evicting: Evicting | None = None
        if spec.evictor is not None:
            assert isinstance(self._contents, BufferedContents), "the API ensures it"
            self._evicting = Evicting(spec.evictor, self._contents, self._clocks, setup.context)
        self._aligned: AlignedWindows | None = aligned_windows(spec, self._contents, self._timers.event)
        self._late_dropped = setup.context.get_metrics_group().counter(LATE)
        self._results = Results(self, stamped=True)
        self._waiting_records = 0  # records since a window fired last

    # Records

    def _select_keys(self, key_of: KeyOf) -> None:
        """Sets the key selector for the records passed to `process`."""
        self._key_of, self._getter = key_of, getter(key_of)

    def process(self, batch: Batch) -> None:
        """Assigns each record to its windows."""
        rows, times = self.rows_of(batch), batch.row_times()
        self._waiting_records += len(rows)
        if self._aligned is not None and times is not None:
            rows, times = self._take_aligned(self._aligned, rows, times)
        source = iter(rows)
        try:
            for position, row in enumerate(source):
                self.keyed_state.set_current_key(self._key_of(row))
                self._take(row, MIN_TIMESTAMP if times is None else times[position])
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, self._key_of) from error
        finally:
            self.leave_key()
        self._results.emit()

    def _take_aligned(
        self, aligned: AlignedWindows, rows: list[Any], times: array[int]
    ) -> tuple[list[Any], array[int]]:
        source = iter(rows)
        try:
            keys = picked(self._getter, rows)
            if keys is None:
                keys = [self._key_of(row) for row in source]
                source = iter(rows)
            late = aligned.take(keys, rows, times, source, self._clocks.watermark)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise self.failed(error, rows, source, self._key_of) from error
        return [rows[i] for i in late], array(TIMESTAMP, [times[i] for i in late])

    def _take(self, row: Any, timestamp: int) -> None:
        windows = self._assigner.assign_windows(row, timestamp, self._assigner_context)
        if self._merging is not None:
            is_late = self._take_merging(self._merging, row, timestamp, windows)
        else:
            is_late = True
            for window in windows:
                if not self._is_gone(window):
                    is_late = False
                    name = self._space.name_of(window)
                    self._put(row, timestamp, window, name, name)
        if is_late and self._is_event_time and timestamp + self._lateness <= self._clocks.watermark:
            self._drop(row, timestamp)

    def _take_merging(self, merging: MergingWindows, row: Any, timestamp: int, windows: Iterable[Any]) -> bool:
        is_late = True
        merging.load()
        for window in windows:
            merged = merging.add(window, self._merge)
            if self._is_gone(merged):
                merging.retire(merged)
                continue
            is_late = False
            self._put(row, timestamp, merged, self._space.name_of(merged), merging.state_of(merged))
        merging.store()
        return is_late

    def _put(self, row: Any, timestamp: int, window: Any, name: Any, state: Any) -> None:
        self._contents.add(state, row, timestamp)
        self._trigger_context.namespace = name
        result = self._trigger.on_element(row, timestamp, window, self._trigger_context)
        self._follow(result, window, name, state)
        self._set_removal(window, name)

    def _drop(self, row: Any, timestamp: int) -> None:
        output = None if self._late_tag is None else self.side_outputs.get(self._late_tag)
        if output is not None:
            output.emit(RowBatch([self.handover.one(row)], [timestamp]))
        elif self._late_tag is None:
            self._late_dropped.inc()

    # Time

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Forwards a watermark after all windows that it ends have fired."""
        if isinstance(signal, Watermark):
            self._clocks.watermark = signal.timestamp
            if self._aligned is not None:
                self._fire_aligned(self._aligned, signal.timestamp)
            else:
                self._fire_timers(self._timers.event, signal.timestamp, event_time=True)
        super().on_signal(signal, input_index)

    def on_time(self, now: float) -> float | None:
        """Fires the timers that are due in processing time."""
        queue = self._timers.processing
        return fire_due(queue, self._clock, now, lambda until: self._fire_timers(queue, until, event_time=False))

    @property
    def ends_keys(self) -> bool:
        """True: its windows fire at the end of a key."""
        return True

    def end_key(self) -> None:
        """Fires all timers, those of event time first."""
        with self._clocks.at_the_end():
            if self._aligned is not None:
                self._fire_aligned(self._aligned, MAX_TIMESTAMP)
            self._fire_timers(self._timers.event, MAX_TIMESTAMP, event_time=True)
            self._fire_timers(self._timers.processing, MAX_TIMESTAMP, event_time=False)

    @override
    def progress(self) -> OperatorProgress | None:
        return OperatorProgress(self.name, waiting(self._timers, TimedKind.WINDOWS, self._waiting_records))

    def _fire_timers(self, queue: TimerQueue, until: int, event_time: bool) -> None:
        timer: Timer | None = None
        try:
            for timer in queue.due(until):
                self.keyed_state.set_current_key(timer.key)
                self._on_timer(timer, event_time)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD if timer is None else timer, error) from error
        finally:
            self.leave_key()
        self._results.emit()

    def _on_timer(self, timer: Timer, event_time: bool) -> None:
        window, state = self._space.window_of(timer.namespace), timer.namespace
        if self._merging is not None:
            self._merging.load()
            state = self._merging.state_of(window)
            if state is None:
                return  # it was merged into another since
        self._trigger_context.namespace = timer.namespace
        call = self._trigger.on_event_time if event_time else self._trigger.on_processing_time
        self._follow(call(timer.timestamp, window, self._trigger_context), window, timer.namespace, state)
        if event_time == self._is_event_time and timer.timestamp == self._removal_of(window):
            self._remove(window, timer.namespace, state)
        if self._merging is not None:
            self._merging.store()

    def _fire_aligned(self, aligned: AlignedWindows, until: int) -> None:
        """Fires all windows that end at the same time together."""
        at: Any = NO_RECORD
        try:
            for fired in aligned.fire(until):
                self._waiting_records = 0
                window = self._space.window_of(fired.window)
                timestamp = window.max_timestamp()
                if self.function is None:
                    self._results.add_all(fired.results, timestamp)
                    continue
                for key, result in zip(fired.keys, fired.results, strict=True):
                    at = (key, window)
                    self.keyed_state.set_current_key(key)
                    self._call(key, window, fired.window, [result], timestamp)
                    if fired.is_removed and self._clear_function is not None:
                        self._clear_function()
        except TaskInterrupted:
            raise
        except OperatorError:
            raise
        except BaseException as error:
            raise OperatorError(self.name, at, error) from error
        finally:
            self.leave_key()
        self._results.emit()

    # Trigger results

    def _follow(self, result: TriggerResult, window: Any, name: Any, state: Any) -> None:
        if result.is_fire():
            self._waiting_records = 0
            elements = self._contents.elements(state)
            if elements is not None:
                if self._evicting is not None:
                    elements = self._evicting.before(window, elements)
                if self._combine is not None and elements:
                    elements = [self._combine(elements)]
                key = self.keyed_state.get_current_key()
                self._call(key, window, name, elements, window.max_timestamp())
                if self._evicting is not None:
                    self._evicting.after(window, state)
        if result.is_purge():
            self._contents.clear(state)

    def _call(self, key: Any, window: Any, name: Any, elements: list[Any], timestamp: int) -> None:
        self._process_context.enter(window, name)
        results = self._fire_function(key, window, elements)
        if results is not None:
            self._results.add(results, timestamp)

    def _remove(self, window: Any, name: Any, state: Any) -> None:
        self._contents.clear(state)
        self._trigger_context.namespace = name
        self._trigger.clear(window, self._trigger_context)
        if self._clear_function is not None:
            self._process_context.enter(window, name)
            self._clear_function()
        if self._merging is not None:
            self._merging.retire(window)

    def _merge(self, merged: Any, parts: list[Any], state: Any, others: list[Any]) -> None:
        if self._is_gone(merged):
            raise RuntimeError(f"windows were merged into {merged}, which ends at or before the watermark")
        context, name_of = self._trigger_context, self._space.name_of
        context.namespace, context.merged = name_of(merged), [name_of(p) for p in parts if p != merged]
        self._trigger.on_merge(merged, context)
        for part in parts:
            if part != merged:
                context.namespace = name_of(part)
                self._trigger.clear(part, context)
                queue = self._timers.event if self._is_event_time else self._timers.processing
                queue.delete(self._removal_of(part), name_of(part))
        self._contents.merge(state, others)

    def _removal_of(self, window: Any) -> int:
        """When the state of a window is removed."""
        end = int(window.max_timestamp())
        return min(end + self._lateness, MAX_TIMESTAMP) if self._is_event_time else end

    def _is_gone(self, window: Any) -> bool:
        return self._is_event_time and self._removal_of(window) <= self._clocks.watermark

    def _set_removal(self, window: Any, name: Any) -> None:
        at = self._removal_of(window)
        if at < MAX_TIMESTAMP:
            (self._timers.event if self._is_event_time else self._timers.processing).register(at, name)
