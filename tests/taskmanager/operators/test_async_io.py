"""Asynchronous functions: the order of results, capacity, timeouts, retries, snapshots, failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from async_gates import Gates
from waiting import wait_until

from millstream.common import Watermark
from millstream.core.jobs.plan.async_plan import AsyncSpec
from millstream.core.jobs.progress import PendingCalls
from millstream.core.records.batches import LAST_WATERMARK, RowBatch
from millstream.datastream import AsyncFunction, AsyncRetryStrategy, RuntimeContext
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError

NO_RETRY = AsyncRetryStrategy.no_restart()


class Gated(AsyncFunction[Any, Any]):
    """Doubles a number once its gate is open."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates

    async def async_invoke(self, value: Any) -> list[Any]:
        await self.gates.pass_through(value)
        return [value, value * 10]

    def timeout(self, value: Any) -> list[Any]:
        return [-value]


class Rig:
    """An operator and its gates; closed by the fixture."""

    def __init__(
        self,
        ordered: bool,
        capacity: int = 10,
        timeout: float | None = None,
        function: Callable[[Gates], AsyncFunction[Any, Any]] = Gated,
        strategy: AsyncRetryStrategy[Any] = NO_RETRY,
        restored: Any = None,
    ) -> None:
        self.gates = Gates()
        self.function = function(self.gates)
        spec = AsyncSpec(self.function, timeout, capacity, strategy, ordered)
        self.harness = OperatorHarness(spec, restored=restored).open()

    @property
    def rows(self) -> list[Any]:
        return self.harness.out.rows

    @property
    def elements(self) -> list[Any]:
        """Rows and signals, in order."""
        seen: list[Any] = []
        for element in self.harness.out.elements:
            seen += element.rows if isinstance(element, RowBatch) else [element]
        return seen

    def feed(self, *values: Any, times: list[int] | None = None) -> None:
        self.harness.process(RowBatch(list(values), times))

    def await_begun(self, *values: Any) -> None:
        wait_until(lambda: self.gates.begun == list(values), f"calls for {values}")

    def let_through(self, *values: Any) -> None:
        """Each call completes before the next; then everything that may leave has left."""
        for value in values:
            self.gates.open(value)
            self.await_outcome()

    def await_outcome(self) -> None:
        wait_until(lambda: self.harness.mails, "a call to complete")
        self.harness.deliver()
        self.harness.advance()


@pytest.fixture
def make() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def rig(*args: Any, **kwargs: Any) -> Rig:
        made.append(Rig(*args, **kwargs))
        return made[-1]

    yield rig
    for one in made:
        assert one.harness.close() == []


Make = Callable[..., Rig]


def test_ordered_results_leave_in_the_order_of_their_records(make: Make) -> None:
    rig = make(ordered=True)
    rig.feed(1, 2, 3, times=[11, 12, 13])
    rig.await_begun(1, 2, 3)
    rig.let_through(3, 2)
    assert rig.rows == []
    rig.let_through(1)
    assert rig.rows == [1, 10, 2, 20, 3, 30]
    assert list(rig.harness.out.batches[0].timestamps) == [11, 11, 12, 12, 13, 13]


def test_unordered_results_are_emitted_as_they_complete(make: Make) -> None:
    rig = make(ordered=False)
    rig.feed(1, 2, 3)
    rig.await_begun(1, 2, 3)
    rig.let_through(3, 1)
    assert rig.rows == [3, 30, 1, 10]
    rig.let_through(2)
    assert rig.rows == [3, 30, 1, 10, 2, 20]


def test_no_result_overtakes_a_watermark(make: Make) -> None:
    rig = make(ordered=False)
    rig.feed(1, 2, times=[1, 2])
    rig.harness.signal(Watermark(2))
    rig.feed(3, 4, times=[3, 4])
    rig.harness.signal(Watermark(4))
    rig.await_begun(1, 2, 3, 4)
    rig.let_through(4, 2)
    assert rig.elements == [2, 20]
    rig.let_through(1)
    assert rig.elements == [2, 20, 1, 10, Watermark(2), 4, 40]
    rig.let_through(3)
    assert rig.elements[-3:] == [3, 30, Watermark(4)]


def test_a_watermark_waits_for_the_records_before_it_even_if_ordered(make: Make) -> None:
    rig = make(ordered=True)
    rig.harness.signal(Watermark(0))
    assert rig.elements == [Watermark(0)], "with nothing in flight it passes"
    rig.feed(1, times=[1])
    rig.harness.signal(Watermark(1))
    rig.await_begun(1)
    assert rig.elements == [Watermark(0)]
    rig.let_through(1)
    assert rig.elements == [Watermark(0), 1, 10, Watermark(1)]


@pytest.mark.parametrize("ordered", [True, False])
def test_no_more_calls_than_the_capacity_are_in_flight(make: Make, ordered: bool) -> None:
    rig = make(ordered=ordered, capacity=2)
    rig.feed(1)
    assert rig.harness.operator.has_room
    rig.feed(2, 3, 4)
    rig.await_begun(1, 2)
    assert not rig.harness.operator.has_room
    rig.let_through(1)
    rig.await_begun(1, 2, 3)
    rig.let_through(2)
    rig.await_begun(1, 2, 3, 4)
    assert not rig.harness.operator.has_room, "two are in flight again"
    rig.let_through(3)
    assert rig.harness.operator.has_room
    rig.let_through(4)
    assert rig.rows == [1, 10, 2, 20, 3, 30, 4, 40]


def test_results_that_wait_for_an_earlier_one_count_against_the_capacity(make: Make) -> None:
    rig = make(ordered=True, capacity=2)
    rig.feed(1, 2, 3)
    rig.await_begun(1, 2)
    rig.let_through(2)
    assert rig.gates.begun == [1, 2]
    rig.let_through(1)
    rig.await_begun(1, 2, 3)


def test_it_reports_for_how_long_no_result_was_emitted(make: Make) -> None:
    rig = make(ordered=True, capacity=2)

    def pending() -> Any:
        progress = rig.harness.operator.progress()
        assert progress is not None
        return progress.kind

    assert pending() == PendingCalls()
    rig.harness.clock.advance(1)
    rig.feed(1, 2, 3)
    rig.await_begun(1, 2)
    assert pending() == PendingCalls(2, True, 1000)
    rig.harness.clock.advance(1)
    rig.let_through(2)
    assert pending() == PendingCalls(1, True, 1000), "it waits for the first"
    rig.let_through(1)
    since = rig.harness.clock.now_ms()
    assert pending() == PendingCalls(1, False, since)
    rig.await_begun(1, 2, 3)
    rig.let_through(3)
    assert pending() == PendingCalls()


def test_a_call_that_times_out_gets_the_result_of_timeout(make: Make) -> None:
    rig = make(ordered=True, timeout=5.0)
    rig.feed(1)
    rig.harness.advance(2.0)
    rig.feed(2)
    rig.await_begun(1, 2)
    assert rig.harness.advance() == pytest.approx(3.0)
    assert rig.harness.advance(3.0) == pytest.approx(2.0)
    rig.await_outcome()
    assert rig.rows == [-1]
    rig.let_through(2)
    assert rig.rows == [-1, 2, 20]
    assert rig.harness.advance(10.0) is None


class Unhurried(Gated):
    def timeout(self, value: Any) -> list[Any]:
        return AsyncFunction.timeout(self, value)


def test_without_a_timeout_method_a_function_fails(make: Make) -> None:
    rig = make(ordered=True, timeout=1.0, function=Unhurried)
    rig.feed(7)
    rig.await_begun(7)
    rig.harness.advance(1.0)
    with pytest.raises(OperatorError, match="did not complete in time") as caught:
        rig.await_outcome()
    assert caught.value.record == 7
    assert isinstance(caught.value.__cause__, TimeoutError)


class Flaky(AsyncFunction[Any, Any]):
    """Fails, returns nothing, then a result."""

    def __init__(self, gates: Gates) -> None:
        self.attempts = 0

    async def async_invoke(self, value: list[int]) -> list[Any]:
        self.attempts += 1
        value.append(self.attempts)  # a copy of its own
        if self.attempts == 1:
            raise ConnectionError("not yet")
        return [] if self.attempts == 2 else [value]

    def timeout(self, value: list[int]) -> list[Any]:
        return ["too late"]


def is_lost(error: Exception) -> bool:
    return isinstance(error, ConnectionError)


def is_empty(results: list[Any]) -> bool:
    return not results


def test_rejected_outcomes_are_retried_with_the_original_record(make: Make) -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(5, 1000, 10_000, 3.0, is_empty, is_lost)
    rig = make(ordered=True, timeout=60.0, function=Flaky, strategy=strategy)
    rig.feed([0])
    rig.await_outcome()
    assert rig.harness.advance() == pytest.approx(1.0)
    rig.harness.advance(1.0)
    rig.await_outcome()
    assert rig.harness.advance() == pytest.approx(3.0)
    rig.harness.advance(3.0)
    rig.await_outcome()
    assert rig.rows == [[0, 3]]


def test_the_timeout_covers_all_attempts_together(make: Make) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(5, 1000, is_empty, is_lost)
    rig = make(ordered=True, timeout=1.0, function=Flaky, strategy=strategy)
    rig.feed([0])
    rig.await_outcome()
    rig.harness.advance(1.0)
    rig.await_outcome()
    assert rig.rows == ["too late"]
    assert rig.function.attempts == 1  # type: ignore[attr-defined]


def test_the_outcome_of_the_last_attempt_is_final(make: Make) -> None:
    strategy = AsyncRetryStrategy.fixed_delay(1, 1000, is_empty, is_lost)
    rig = make(ordered=True, timeout=60.0, function=Flaky, strategy=strategy)
    rig.feed([0])
    rig.await_outcome()
    rig.harness.advance(1.0)
    rig.await_outcome()
    assert rig.rows == []
    assert rig.harness.operator.is_settled


class Returning(AsyncFunction[Any, Any]):
    """Returns what the record requests."""

    def __init__(self, gates: Gates) -> None:
        pass

    async def async_invoke(self, value: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ValueError("broken"), "broken"),
        (SystemExit(3), "SystemExit"),
        (asyncio.CancelledError("given up"), "given up"),
        (None, "The result of AsyncFunction cannot be none"),
        (7, "The result of AsyncFunction should be of list type"),
        ("abc", "The result of AsyncFunction should be of list type"),
    ],
)
def test_a_failure_names_the_record(make: Make, value: Any, message: str) -> None:
    rig = make(ordered=False, function=Returning)
    rig.feed(value)
    with pytest.raises(OperatorError, match=message) as caught:
        rig.await_outcome()
    assert caught.value.record is value


@pytest.mark.parametrize("ordered", [True, False])
def test_calls_in_flight_are_in_the_snapshot_and_are_repeated(make: Make, ordered: bool) -> None:
    rig = make(ordered=ordered, capacity=2)
    rig.feed(1, 2, 3, times=[1, 2, 3])
    rig.harness.signal(Watermark(3))
    rig.await_begun(1, 2)
    rig.let_through(1)
    rig.await_begun(1, 2, 3)
    snapshot = rig.harness.snapshot()
    rig.let_through(2, 3)
    assert rig.elements == [1, 10, 2, 20, 3, 30, Watermark(3)], "a snapshot changes nothing"
    again = make(ordered=ordered, capacity=2, restored=snapshot)
    again.await_begun(2, 3)
    again.let_through(2, 3)
    assert again.elements == [2, 20, 3, 30]
    assert [list(b.timestamps) for b in again.harness.out.batches] == [[2, 2], [3, 3]]
    assert make(ordered=ordered, restored=again.harness.snapshot()).gates.begun == []


def test_completed_but_unemitted_results_are_computed_again(make: Make) -> None:
    rig = make(ordered=True)
    rig.feed(1, 2)
    rig.await_begun(1, 2)
    rig.let_through(2)
    again = make(ordered=True, restored=rig.harness.snapshot())
    again.await_begun(1, 2)


def test_nothing_is_emitted_between_a_mail_and_the_next_on_time(make: Make) -> None:
    """A task does not call on_time behind a savepoint that stops the job."""
    rig = make(ordered=True)
    rig.feed(1)
    rig.await_begun(1)
    rig.gates.open(1)
    wait_until(lambda: rig.harness.mails, "the call to complete")
    rig.harness.deliver()
    assert rig.rows == []
    rig.harness.advance()
    assert rig.rows == [1, 10]


def test_the_end_waits_for_calls_in_flight(make: Make) -> None:
    rig = make(ordered=True)
    rig.feed(1)
    rig.harness.signal(LAST_WATERMARK)
    rig.await_begun(1)
    assert not rig.harness.finish()
    rig.let_through(1)
    assert rig.harness.finish()
    assert rig.elements == [1, 10, LAST_WATERMARK]


class Sessions(AsyncFunction[Any, Any]):
    """Records the threads of its calls."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.threads: list[threading.Thread] = []
        self.closed = False

    def open(self, runtime_context: RuntimeContext) -> None:
        self.loop = asyncio.get_running_loop()
        self.threads.append(threading.current_thread())

    async def async_invoke(self, value: Any) -> list[Any]:
        assert asyncio.get_running_loop() is self.loop
        self.threads.append(threading.current_thread())
        try:
            await self.gates.pass_through(value)
        finally:
            assert not self.closed, "calls are cancelled before the function is closed"
            self.gates.begun.append("cancelled")
        return []

    def timeout(self, value: Any) -> list[Any]:
        self.threads.append(threading.current_thread())
        return [value]

    def close(self) -> None:
        self.threads.append(threading.current_thread())
        self.closed = True


def test_all_calls_run_on_the_thread_of_the_loop() -> None:
    rig = Rig(ordered=True, timeout=1.0, function=Sessions)
    rig.feed(1)
    rig.await_begun(1)
    rig.harness.advance(1.0)
    rig.await_outcome()
    rig.feed(2)
    wait_until(lambda: 2 in rig.gates.begun, "the second call")
    assert rig.harness.close() == []
    function = rig.function
    assert isinstance(function, Sessions)
    assert function.closed
    assert rig.gates.begun == [1, "cancelled", 2, "cancelled"]
    (thread,) = set(function.threads)
    assert thread is not threading.current_thread()
    assert not thread.is_alive(), "nothing is left of it"


class Asynchronous(Returning):
    """Its `open` is asynchronous as well."""

    async def open(self, runtime_context: RuntimeContext) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.is_open = True

    async def async_invoke(self, value: Any) -> Any:
        return [self.is_open]


def test_open_may_be_a_coroutine(make: Make) -> None:
    rig = make(ordered=True, function=Asynchronous)
    rig.feed(1)
    rig.await_outcome()
    assert rig.rows == [True]
