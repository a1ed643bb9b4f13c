"""The operator of asynchronous functions: takes records, starts calls up to its capacity, and emits the results.

Owned by the worker's loop, except for the calls themselves: see `AsyncCalls`. Outcomes arrive as mails, and are emitted
in the next `on_time`: not at once, because nothing may be emitted after the barrier of a savepoint that stops the job.
Records whose results were not emitted are in the snapshot, and are processed again after a restore.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Any, assert_never

from millstream.core.jobs.plan.async_plan import AsyncSpec
from millstream.core.jobs.progress import OperatorProgress, PendingCalls
from millstream.core.records.batches import Barrier, Batch, RowBatch, StreamSignal
from millstream.core.records.copying import private_copy
from millstream.core.records.handover import RecordCopyError
from millstream.core.records.types import PICKLED
from millstream.datastream.state import ListState
from millstream.taskmanager.worker.operators.async_io.calls import AsyncCalls, Completed, Failed, Start, TryAgain
from millstream.taskmanager.worker.operators.async_io.results_queue import (
    Call,
    OrderedQueue,
    ResultsQueue,
    UnorderedQueue,
)
from millstream.taskmanager.worker.operators.base import FunctionOperator, OperatorError
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.state.backend import OperatorStateBackend

_STATE = "records in flight"
_OUTCOMES = object()  # the mail that outcomes are available


@builds(AsyncSpec)
class AsyncOperator(FunctionOperator):
    """The operator in one subtask. A batch may exceed the capacity: records not started yet block further input."""

    operator_state: OperatorStateBackend

    def __init__(self, setup: OperatorSetup, spec: AsyncSpec) -> None:
        super().__init__(setup, spec.function)
        self.operator_state = setup.operator_state()
        self._spec = spec
        self._clock = setup.services.clock
        self._calls = AsyncCalls(spec.function, spec.retry_strategy, setup.name, lambda: setup.post(_OUTCOMES))
        self._queue: ResultsQueue = OrderedQueue() if spec.ordered else UnorderedQueue()
        self._waiting: deque[Call] = deque()  # records waiting to be started
        self._under_way: dict[int, Call] = {}
        self._held = 0  # started and not emitted: results that wait for others count
        self._deadlines: deque[tuple[float, Call]] = deque()  # ascending: every call has the same timeout
        self._retries: list[tuple[float, int]] = []
        self._numbers = 0
        self._left_at = 0  # when results were emitted last, or none were outstanding

    def initialize_state(self, restored_checkpoint_id: int | None) -> None:
        """Restores the records that were in flight."""
        super().initialize_state(restored_checkpoint_id)
        for value, timestamp in self._state().get():
            self._take(value, timestamp)

    def open(self) -> None:
        """Opens the function, and calls it for the restored records."""
        super().open()
        self._left_at = self._clock.now_ms()
        self._start_calls()

    def process(self, batch: Batch) -> None:
        """Starts as many calls as the capacity allows."""
        rows, times = self.rows_of(batch), batch.row_times()
        if self._queue.is_empty:
            self._left_at = self._clock.now_ms()
        for position, value in enumerate(rows):
            self._take(value, None if times is None else times[position])
        self._start_calls()

    def on_signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Queues the signal behind the results of the records before it."""
        if self._queue.is_empty:
            super().on_signal(signal)
        else:
            self._queue.add(signal)

    def on_mail(self, mail: Any) -> Any:
        """Takes outcomes; they are emitted in the next `on_time`."""
        if mail is not _OUTCOMES:
            return None
        for outcome in self._calls.outcomes():
            call = self._under_way.get(outcome.number)
            if call is None:
                continue
            match outcome:
                case Completed(number, results):
                    del self._under_way[number]
                    call.results = results
                    self._queue.completed(call)
                case Failed(_, error):
                    raise OperatorError(self.name, call.value, error) from error
                case TryAgain(number, seconds):
                    if not call.is_late:
                        heapq.heappush(self._retries, (self._clock.monotonic() + seconds, number))
                case _:
                    assert_never(outcome)
        return True

    def on_time(self, now: float) -> float | None:
        """Emits results, times out calls, and starts calls that have capacity or whose retry is due."""
        has_emitted = self._emit_results()
        if has_emitted:
            self._left_at = self._clock.now_ms()
        self._give_up_late(now)
        self._begin([call for call in self._due_retries(now) if not call.is_late])
        self._start_calls()
        if has_emitted:
            return now  # what was emitted may be for a task that the worker's loop has yet to visit
        dues = [self._deadlines[0][0]] if self._deadlines else []
        return min([*dues, *(at for at, _ in self._retries[:1])], default=None)

    @property
    def has_room(self) -> bool:
        """Whether a call for another record would start at once."""
        return not self._waiting and self._held < self._spec.capacity

    def progress(self) -> OperatorProgress | None:
        """The calls that have not completed."""
        since = self._left_at if self._under_way else 0
        return OperatorProgress(self.name, PendingCalls(len(self._under_way), not self.has_room, since))

    @property
    def is_settled(self) -> bool:
        """Whether all results were emitted."""
        return self._queue.is_empty

    def prepare_snapshot(self, barrier: Barrier) -> None:
        """Adds the records whose results were not emitted to the snapshot."""
        super().prepare_snapshot(barrier)
        self._state().update([(call.value, call.timestamp) for call in self._queue.calls()])

    def close(self) -> None:
        """Closes the function on its own thread, and ends the thread."""
        self._calls.cancel()
        try:
            super().close()
        finally:
            self._calls.stop()

    def _guarded(self, call: Any) -> None:
        super()._guarded(lambda: self._calls.run(call))

    def _take(self, value: Any, timestamp: int | None) -> None:
        call = Call(value, timestamp)
        self._queue.add(call)
        self._waiting.append(call)

    def _start_calls(self) -> None:
        room = self._spec.capacity - self._held
        if room <= 0 or not self._waiting:
            return
        started = [self._waiting.popleft() for _ in range(min(room, len(self._waiting)))]
        self._held += len(started)
        for call in started:
            call.number = self._numbers
            self._numbers += 1
            self._under_way[call.number] = call
        if self._spec.timeout is not None:
            deadline = self._clock.monotonic() + self._spec.timeout
            self._deadlines.extend([(deadline, call) for call in started])
        self._begin(started)

    def _begin(self, calls: list[Call]) -> None:
        """Starts attempts with copies of the records: the function may change what it gets."""
        if not calls:
            return
        attempts = []
        for call in calls:
            call.attempts += 1
            attempts.append(Start(call.number, private_copy(call.value, []), call.attempts))
        self._calls.start(attempts)

    def _give_up_late(self, now: float) -> None:
        deadlines = self._deadlines
        while deadlines and (deadlines[0][0] <= now or deadlines[0][1].results is not None):
            _, call = deadlines.popleft()
            if call.results is None:
                call.is_late = True
                self._calls.time_out(call.number, private_copy(call.value, []))

    def _due_retries(self, now: float) -> Iterator[Call]:
        while self._retries and self._retries[0][0] <= now:
            _, number = heapq.heappop(self._retries)
            if number in self._under_way:
                yield self._under_way[number]

    def _emit_results(self) -> bool:
        """Emits consecutive results in one batch."""
        rows: list[Any] = []
        times: list[int] | None = None
        has_emitted = False

        def flush() -> None:
            nonlocal rows, times
            if rows:
                self.output.emit(RowBatch(rows, times))
            rows, times = [], None

        for departure in self._queue.leaving():
            has_emitted = True
            if not isinstance(departure, Call):
                flush()
                super().on_signal(departure)
                continue
            self._held -= 1
            handed = self._handed_over(departure)
            if not rows or (times is None) != (departure.timestamp is None):
                flush()
                times = None if departure.timestamp is None else []
            rows += handed
            if times is not None and departure.timestamp is not None:
                times += [departure.timestamp] * len(handed)
        flush()
        return has_emitted

    def _handed_over(self, call: Call) -> list[Any]:
        assert call.results is not None, "it is emitted with its results"
        try:
            return self.handover.all(_taken_out(call.results), (call.value,))
        except RecordCopyError as error:
            raise OperatorError(self.name, call.value, error) from error

    def _state(self) -> ListState[Any]:
        return self.operator_state.store.get_list_state(_STATE, PICKLED)


def _taken_out(results: list[Any]) -> Iterator[Any]:
    """Takes results out of the list one by one, so that it holds no reference to an emitted one."""
    results.reverse()
    while results:
        yield results.pop()
