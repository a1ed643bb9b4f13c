"""The slot worker's loop, turn by turn: deployments, states, failures, cancelling, backpressure and metrics."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace
from worker_rig import (
    ALLOCATION,
    READERS,
    WRITTEN,
    NamedSink,
    RowsSource,
    WorkerRig,
    chain,
    local_pair,
    turn_all_until,
    wire,
)

from millstream.core.jobs import plan
from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.ids import AttemptId, ChannelId
from millstream.core.jobs.plan import FilterSpec, FlatMapSpec, MapSpec, SinkSpec, SourceSpec
from millstream.core.messages.deployment import DeployTasks, OutputChannel, TaskDeployment
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import Custom, NoMoreSplits, ReaderEvent, Registered, SplitRequest, Splits, Stop
from millstream.core.messages.task_manager import TaskMetricsReport, WorkerReady
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.datastream.functions import IntCounter, MapFunction, RuntimeContext
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.network.data_plane import FrameArrived, PeerLost
from millstream.taskmanager.worker.network.frames import Data
from millstream.taskmanager.worker.network.inputs import LocalInputChannel


@pytest.fixture
def small() -> Iterator[WorkerRig]:
    """A worker whose batches have eight rows."""
    made = WorkerRig(**{"execution.batch.max-rows": "8"})
    yield made
    made.close()


def deploy_three(rig: WorkerRig, rows: Any, function: Any, sink: str) -> tuple[TaskDeployment, ...]:
    """Source, map and sink as three tasks of one worker."""
    out_a, in_a = local_pair(rig, 1)
    out_b, in_b = local_pair(rig, 2)
    tasks = (
        rig.task(chain(SourceSpec(RowsSource(rows)), outputs=1), outputs=[out_a]),
        rig.task(chain(MapSpec(function), outputs=1), [in_a], [out_b]),
        rig.task(chain(SinkSpec(NamedSink(sink))), [in_b]),
    )
    rig.deploy(*tasks)
    return tasks


LIFE = ["INITIALIZING", "RUNNING", "FINISHED"]


def test_a_chained_job_runs_to_its_end(rig: WorkerRig) -> None:
    specs = (SourceSpec(RowsSource(range(10))), MapSpec(lambda n: n * 2), FilterSpec(lambda n: n > 4))
    task = rig.task(chain(*specs, SinkSpec(NamedSink("chained"))))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    assert WRITTEN["chained"] == [6, 8, 10, 12, 14, 16, 18, "flushed", "closed"]
    assert rig.states(task) == LIFE
    assert all(update.allocation_id == "allocation" for update in rig.updates(task))


@pytest.mark.parametrize("backwards", [False, True], ids=["producers first", "consumers first"])
def test_tasks_of_one_worker_hand_over_by_reference(rig: WorkerRig, backwards: bool) -> None:
    out_a, in_a = local_pair(rig, 1)
    out_b, in_b = local_pair(rig, 2)
    tasks = [
        rig.task(chain(SourceSpec(RowsSource(range(5000))), outputs=1), outputs=[out_a]),
        rig.task(chain(MapSpec(lambda n: n + 1), outputs=1), [in_a], [out_b]),
        rig.task(chain(SinkSpec(NamedSink("three"))), [in_b]),
    ]
    for task in reversed(tasks) if backwards else tasks:
        rig.deploy(task)
        for _ in range(3):
            rig.worker.turn()
    rig.turn_until(rig.ended(*tasks))
    assert WRITTEN["three"] == [*range(1, 5001), "flushed", "closed"]
    for task in tasks:
        assert rig.states(task) == LIFE
    metrics = [rig.updates(task)[-1].metrics for task in tasks]
    assert [(m.records_in, m.records_out) for m in metrics] == [(0, 5000), (5000, 5000), (5000, 0)]


def failing_at_seven(number: int) -> int:
    return 1 // (7 - number)


def test_a_failure_is_reported_with_the_users_frames_only(rig: WorkerRig) -> None:
    source, mapper, sink = deploy_three(rig, range(20), failing_at_seven, "failing")
    rig.turn_until(rig.ended(mapper))
    assert rig.states(mapper) == ["INITIALIZING", "RUNNING", "FAILED"]
    failure = rig.updates(mapper)[-1].failure
    assert failure.exception == "ZeroDivisionError: integer division or modulo by zero"
    assert failure.operator_name == "op 0 MapSpec"
    assert failure.record == "7"
    assert (failure.job_id, failure.vertex_id, failure.task_name) == ("job", mapper.vertex_id, mapper.task_name)
    assert failure.timestamp == rig.clock.now_ms()
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in failing_at_seven" in lines[1]
    assert "millstream/taskmanager" not in failure.traceback
    assert lines[-1] == failure.exception
    assert rig.states(sink)[-1] == "RUNNING"
    rig.cancel(source.attempt_id, sink.attempt_id)
    assert rig.states(sink)[-1] == "CANCELED"
    assert WRITTEN["failing"][-1] == "closed"
    assert "flushed" not in WRITTEN["failing"]


def test_a_record_whose_repr_fails_is_still_reported(rig: WorkerRig) -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError("no picture")

        def __reduce__(self) -> Any:
            return Shy, ()

    task = rig.task(
        chain(SourceSpec(RowsSource([Shy()])), MapSpec(lambda row: row.missing), SinkSpec(NamedSink("shy")))
    )
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    failure = rig.updates(task)[-1].failure
    assert "Shy" in failure.record
    assert failure.exception.startswith("AttributeError")


def test_long_records_are_shortened(rig: WorkerRig) -> None:
    task = rig.task(
        chain(SourceSpec(RowsSource(["x" * 100_000])), MapSpec(lambda row: row + 1), SinkSpec(NamedSink("long")))
    )
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    assert len(rig.updates(task)[-1].failure.record) <= 1000


def test_a_key_selector_that_fails_is_blamed_with_its_record(rig: WorkerRig) -> None:
    selector = plan.KeySelector(function=lambda row: row["missing"])
    out, _ = wire(1, "", "", plan.HashPartitioner(selector))
    second = OutputChannel(ChannelId(2), consumer_address="", consumer_name="second")
    out = replace(out, channels=(*out.channels, second))
    task = rig.task(chain(SourceSpec(RowsSource([{"a": 1}])), outputs=1), outputs=[out])
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    failure = rig.updates(task)[-1].failure
    assert failure.exception == "KeyError: 'missing'"
    assert "key selector" in failure.operator_name
    assert failure.record == "{'a': 1}"
    assert "in <lambda>" in failure.traceback
    assert "partitioning.py" not in failure.traceback


class Rich(MapFunction):
    """Fails where it is told to."""

    def __init__(self, fail_in: str) -> None:
        self._fail_in = fail_in

    def open(self, runtime_context: RuntimeContext) -> None:
        self._counter = runtime_context.get_metrics_group().counter("rows")
        self._sum = IntCounter()
        runtime_context.add_accumulator("sum", self._sum)
        self._check("open")

    def close(self) -> None:
        self._check("close")

    def map(self, value: Any) -> Any:
        self._check("map")
        self._counter.inc()
        self._sum.add(value)
        return value

    def _check(self, step: str) -> None:
        if self._fail_in == step:
            raise OSError(f"failed in {step}")


@pytest.mark.parametrize(
    ("step", "states"),
    [
        ("open", ["INITIALIZING", "FAILED"]),
        ("map", ["INITIALIZING", "RUNNING", "FAILED"]),
        ("close", ["INITIALIZING", "RUNNING", "FAILED"]),
    ],
)
def test_a_failure_in_each_phase(rig: WorkerRig, step: str, states: list[str]) -> None:
    task = rig.task(chain(SourceSpec(RowsSource([1])), MapSpec(Rich(step)), SinkSpec(NamedSink("phase"))))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    assert rig.states(task) == states
    failure = rig.updates(task)[-1].failure
    assert failure.exception == f"OSError: failed in {step}"
    assert failure.operator_name == "op 1 MapSpec"
    if step != "open":
        assert WRITTEN["phase"][-1] == "closed"


@pytest.mark.parametrize(
    ("code", "named"),
    [
        (b"no pickle", "invalid load key"),
        (b"cnowhere_to_be_found\nFunction\n.", "nowhere_to_be_found"),
        (b"cmillstream.core.jobs.plan\nGone\n.", "Gone"),
    ],
)
def test_a_chain_that_cannot_be_loaded_fails_its_task_for_good(rig: WorkerRig, code: bytes, named: str) -> None:
    task = rig.task(code)
    rig.deploy(task)
    assert rig.states(task) == ["INITIALIZING", "FAILED"]
    failure = rig.updates(task)[-1].failure
    assert failure.final
    assert "the code of task" in failure.exception
    assert named in failure.exception


def test_counters_and_accumulators_are_reported(rig: WorkerRig) -> None:
    task = rig.task(chain(SourceSpec(RowsSource([1, 2, 3])), MapSpec(Rich("")), SinkSpec(NamedSink("counted"))))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    last = rig.updates(task)[-1]
    assert dict(last.metrics.counters) == {"op 1 MapSpec.rows": 3}
    (accumulator,) = last.accumulators
    assert (accumulator.name, accumulator.kind) == ("sum", "IntCounter")
    assert pickle.loads(accumulator.value).get_local_value() == 6


class CountsAnything(MapFunction):
    def __init__(self, name: str = "n", amount: Any = 1) -> None:
        self._name, self._amount = name, amount

    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_metrics_group().counter(self._name).inc(self._amount)

    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("amount", "reported"), [(1.5, 1), (-(10**400), 1 - 2**63), (float("inf"), 2**63 - 1), (float("nan"), 0)]
)
def test_a_counter_is_reported_whatever_was_added_to_it(rig: WorkerRig, amount: Any, reported: int) -> None:
    function = CountsAnything(amount=amount)
    task = rig.task(chain(SourceSpec(RowsSource([1])), MapSpec(function), SinkSpec(NamedSink("any"))))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    assert dict(rig.updates(task)[-1].metrics.counters) == {"op 1 MapSpec.n": reported}


def test_a_counter_that_cannot_be_named_fails_its_function(rig: WorkerRig) -> None:
    task = rig.task(chain(SourceSpec(RowsSource([1])), MapSpec(CountsAnything("\udc80")), SinkSpec(NamedSink("none"))))
    rig.deploy(task)
    failure = rig.updates(task)[-1].failure
    assert failure.exception.startswith("ValueError: the counter 'op 1 MapSpec.\\udc80' cannot be written")
    assert failure.operator_name == "op 1 MapSpec"


def metrics_reports(rig: WorkerRig) -> list[TaskMetricsReport]:
    return rig.said(TaskMetricsReport)


def test_metrics_are_reported_at_their_interval(rig: WorkerRig) -> None:
    task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("metrics"))))
    rig.deploy(task)
    rig.worker.turn()
    first = len(metrics_reports(rig))
    assert first == 1
    for _ in range(5):
        rig.worker.turn()
    assert len(metrics_reports(rig)) == first
    rig.clock.advance(10)
    rig.worker.turn()
    report = metrics_reports(rig)[-1]
    assert len(metrics_reports(rig)) == first + 1
    assert [t.attempt_id for t in report.tasks] == [task.attempt_id]
    assert report.tasks[0].metrics.idle_ms == 10_000


def test_readers_speak_with_their_enumerator(rig: WorkerRig) -> None:
    task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("events"))))
    rig.deploy(task)
    events = rig.said(ReaderEvent)
    assert [e.kind for e in events] == [Registered(), SplitRequest("127.0.0.1")]
    assert all((e.job_id, e.vertex_id, e.subtask) == ("job", task.vertex_id, 0) for e in events)
    assert all(e.attempt_id == task.attempt_id for e in events)
    rig.worker.turn()
    rig.tell(task, Splits(to_bytes([5, 6])))
    rig.turn_until(lambda: WRITTEN["events"] == [5, 6])
    rig.tell(task, Custom(to_bytes("hello")))
    assert pickle.loads(rig.said(ReaderEvent)[-1].kind.event) == ("echo", "hello")
    rig.tell(task, NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert rig.states(task) == LIFE


def test_an_enumerators_event_may_fail_its_reader(rig: WorkerRig) -> None:
    task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("event failure"))))
    rig.deploy(task)
    rig.tell(task, Custom(to_bytes("fail")))
    assert rig.states(task)[-1] == "FAILED"
    assert rig.updates(task)[-1].failure.exception == "OSError: the broker is gone"
    rig.tell(task, Custom(to_bytes("fail")))  # the task is gone: nothing happens


def test_a_reader_is_polled_again_when_it_asks_for_it(rig: WorkerRig) -> None:
    task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("woken"))))
    rig.deploy(task)
    reader = READERS[-1]
    rig.worker.turn()
    reader._rows = [1]
    rig.worker.turn()
    assert WRITTEN["woken"] == []
    reader.context.wake_up()
    rig.turn_until(lambda: WRITTEN["woken"] == [1], turns=3)
    rig.worker.turn()
    reader._rows = [2]
    reader.context.poll_again_in(5)
    rig.clock.advance(4)
    for _ in range(3):
        rig.worker.turn()
    assert WRITTEN["woken"] == [1]
    rig.clock.advance(1)
    rig.turn_until(lambda: WRITTEN["woken"] == [1, 2], turns=3)


class TestCancelling:
    def test_an_idle_source(self, rig: WorkerRig) -> None:
        task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("idle"))))
        rig.deploy(task)
        rig.worker.turn()
        rig.cancel(task.attempt_id)
        assert rig.states(task) == ["INITIALIZING", "RUNNING", "CANCELED"]
        assert WRITTEN["idle"] == ["closed"]
        rig.cancel(task.attempt_id)
        assert len(rig.states(task)) == 3

    def test_a_backpressured_task(self, small: WorkerRig) -> None:
        out, _ = local_pair(small, 1)
        task = small.task(chain(SourceSpec(RowsSource(range(10_000))), outputs=1), outputs=[out])
        small.deploy(task)
        for _ in range(30):
            small.worker.turn()
        small.cancel(task.attempt_id)
        assert small.states(task)[-1] == "CANCELED"

    @pytest.mark.parametrize(("cancelled", "state"), [(True, "CANCELED"), (False, "FAILED")])
    def test_an_interrupt_that_nobody_asked_for_is_the_users_error(
        self, rig: WorkerRig, cancelled: bool, state: str
    ) -> None:
        def interrupted(value: Any) -> Any:
            raise TaskInterrupted

        WRITTEN.pop("interrupted", None)
        task = rig.task(chain(SourceSpec(RowsSource([1])), MapSpec(interrupted), SinkSpec(NamedSink("interrupted"))))
        rig.deploy(task)
        if cancelled:
            rig.worker.cancelling.add(task.attempt_id)
        rig.turn_until(rig.ended(task))
        assert rig.states(task)[-1] == state
        failure = rig.updates(task)[-1].failure
        if cancelled:
            assert failure is None
        else:
            assert "TaskInterrupted" in failure.exception
            assert "raise TaskInterrupted" in failure.traceback
        assert WRITTEN["interrupted"] == ["closed"]

    def test_what_is_cancelled_before_its_turn_to_be_deployed(self, rig: WorkerRig) -> None:
        """While others of its slot were restored, say."""
        WRITTEN.pop("never", None)
        task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("never"))))
        rig.worker.cancelling.add(task.attempt_id)
        rig.deploy(task)
        assert rig.states(task) == ["INITIALIZING", "CANCELED"]
        assert "never" not in WRITTEN
        rig.cancel(task.attempt_id)
        assert rig.states(task) == ["INITIALIZING", "CANCELED"]

    def test_a_failure_while_cancelling_is_no_failure(self, rig: WorkerRig) -> None:
        task = rig.task(chain(SourceSpec(RowsSource([7])), MapSpec(failing_at_seven), SinkSpec(NamedSink("late"))))
        rig.deploy(task)
        rig.worker.cancelling.add(task.attempt_id)
        rig.turn_until(rig.ended(task))
        assert rig.states(task)[-1] == "CANCELED"

    def test_a_close_that_fails_does_not_stop_it(self, rig: WorkerRig) -> None:
        task = rig.task(
            chain(SourceSpec(RowsSource(waits=True)), MapSpec(Rich("close")), SinkSpec(NamedSink("bad close")))
        )
        rig.deploy(task)
        rig.cancel(task.attempt_id)
        assert rig.states(task)[-1] == "CANCELED"
        assert WRITTEN["bad close"] == ["closed"]


class TestBackpressure:
    def test_a_full_local_channel_stops_the_producer(self, small: WorkerRig) -> None:
        out, gate = local_pair(small, 1)
        producer = small.task(chain(SourceSpec(RowsSource(range(1000))), outputs=1), outputs=[out])
        small.deploy(producer)
        for _ in range(50):
            small.worker.turn()
        running = small.running(producer)
        first_steps = [2, 4]
        emitted = sum(first_steps) + (LocalInputChannel.CAPACITY - len(first_steps)) * 8
        assert running.counts.metrics().records_out == emitted
        small.clock.advance(3)
        small.worker.turn()
        assert running.counts.metrics().backpressured_ms == 3000
        consumer = small.task(chain(SinkSpec(NamedSink("pressed"))), [gate])
        small.deploy(consumer)
        small.turn_until(small.ended(producer, consumer))
        assert WRITTEN["pressed"] == [*range(1000), "flushed", "closed"]

    def test_an_exploding_flat_map_is_fed_in_small_slices(self, small: WorkerRig) -> None:
        out_a, in_a = local_pair(small, 1)
        out_b, in_b = local_pair(small, 2)
        source = small.task(chain(SourceSpec(RowsSource(range(64))), outputs=1), outputs=[out_a])
        explode = small.task(chain(FlatMapSpec(lambda n: [n] * 40), outputs=1), [in_a], [out_b])
        sink = small.task(chain(SinkSpec(NamedSink("exploded"))), [in_b])
        small.deploy(source, explode, sink)
        running = small.running(explode)
        produced: list[int] = []
        while small.worker.tasks:
            for task in reversed(list(small.worker.tasks.values())):
                before = running.counts.metrics().records_out
                small.worker.step(task)
                if task is running:
                    produced.append(running.counts.metrics().records_out - before)
        assert WRITTEN["exploded"][:-2] == [n for n in range(64) for _ in range(40)]
        assert sum(produced) == 64 * 40
        assert max(produced) <= 8 * 40
        assert max(produced[-20:]) <= 4 * 8 + 40  # learnt: about four batches a step at most

    def test_a_large_emission_is_cut_into_batches(self, small: WorkerRig) -> None:
        out, _ = local_pair(small, 1)
        task = small.task(
            chain(SourceSpec(RowsSource([1])), FlatMapSpec(lambda n: range(100)), outputs=1), outputs=[out]
        )
        small.deploy(task)
        small.turn_until(lambda: small.running(task).counts.metrics().records_out == 100, turns=10)
        queued = small.channel(1).queue
        assert {len(batch) for batch in list(queued)[:12]} == {8}

    def test_the_client_that_does_not_collect_stops_the_task(self, rig: WorkerRig) -> None:
        rows = [f"{n:0100}" for n in range(50_000)]
        task = rig.task(chain(SourceSpec(RowsSource(rows)), plan.CollectSpec()))
        rig.deploy(task)
        collector = rig.operator(task, 1)
        rig.turn_until(lambda: not collector.has_room)
        for _ in range(20):
            rig.worker.turn()
        assert collector._waiting <= 2 * collector.CAPACITY
        received: list[str] = []
        version = ""
        while not rig.ended(task)():
            answer = rig.collect(task.attempt_id, "op-1", version, len(received))
            version = answer.version
            received += [row for raw in answer.batches for row in pickle.loads(raw)]
            rig.worker.turn()
        assert received == rows


def test_collecting_from_a_task_that_is_not_there_is_answered(rig: WorkerRig) -> None:
    assert rig.collect(AttemptId("nobody")) == CollectResponse("q", error="the collecting task is not running")


def test_a_result_that_cannot_be_pickled_fails_the_task(rig: WorkerRig) -> None:
    task = rig.task(
        chain(SourceSpec(RowsSource([1, 2])), MapSpec(lambda n: threading.Lock() if n == 2 else n), plan.CollectSpec())
    )
    rig.deploy(task)
    rig.worker.turn()
    rig.collect(task.attempt_id, "op-2")
    assert rig.states(task)[-1] == "FAILED"
    failure = rig.updates(task)[-1].failure
    assert failure.operator_name == "op 2 CollectSpec"
    assert "lock" in failure.record


def test_side_outputs_go_to_their_own_operators(rig: WorkerRig) -> None:
    from millstream.datastream.functions import OutputTag, ProcessFunction

    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value
            yield OutputTag("odd"), {"n": value}

    outputs = (plan.ChainedOutput(operator=2), plan.ChainedOutput(operator=3, tag="odd"))
    operators = (
        plan.ChainedOperator("a", "source", SourceSpec(RowsSource([1, 3])), t.LONG, (plan.ChainedOutput(operator=1),)),
        plan.ChainedOperator("b", "split", plan.ProcessSpec(Split()), t.LONG, outputs),
        plan.ChainedOperator("c", "main", SinkSpec(NamedSink("main")), t.LONG, ()),
        plan.ChainedOperator(
            "d",
            "columns",
            plan.MapBatchesSpec(lambda batch: batch, "arrow"),
            t.PICKLED,
            (plan.ChainedOutput(operator=4),),
        ),
        plan.ChainedOperator("e", "side", SinkSpec(NamedSink("side")), t.PICKLED, ()),
    )
    task = rig.task(to_bytes(plan.Chain(operators)))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    assert rig.states(task) == LIFE
    assert WRITTEN["main"][:2] == [1, 3]
    assert [row.as_dict() for row in WRITTEN["side"][:2]] == [{"n": 1}, {"n": 3}]


class Watching(MapFunction):
    """Has a look when it is opened."""

    look: ClassVar[Callable[[], None]]

    def open(self, runtime_context: RuntimeContext) -> None:
        Watching.look()

    def map(self, value: Any) -> Any:
        return value


class TestTwoWorkers:
    """Two workers on loopback, both driven by this thread."""

    @pytest.fixture
    def pair(self) -> Iterator[tuple[WorkerRig, WorkerRig]]:
        options = {"taskmanager.memory.segment-size": "4 kb", "execution.batch.max-rows": "64"}
        left, right = WorkerRig(network=True, **options), WorkerRig(network=True, **options)
        yield left, right
        left.close()
        right.close()

    def deploy(
        self, pair: tuple[WorkerRig, WorkerRig], rows: Any, sink: str, kind: t.TypeInformation = t.PICKLED
    ) -> tuple[TaskDeployment, TaskDeployment]:
        left, right = pair
        out, gate = wire(1, left.address, right.address, kind=kind)
        producer = left.task(chain(SourceSpec(RowsSource(rows)), outputs=1), outputs=[out])
        consumer = right.task(chain(SinkSpec(NamedSink(sink))), [gate])
        right.deploy(consumer)
        left.deploy(producer)
        return producer, consumer

    def test_records_cross_in_order(self, pair: tuple[WorkerRig, WorkerRig]) -> None:
        left, right = pair
        producer, consumer = self.deploy(pair, range(5000), "crossed", t.LONG)
        turn_all_until(pair, lambda: left.ended(producer)() and right.ended(consumer)())
        assert WRITTEN["crossed"] == [*range(5000), "flushed", "closed"]
        sent, received = left.updates(producer)[-1].metrics, right.updates(consumer)[-1].metrics
        assert (sent.records_out, received.records_in) == (5000, 5000)
        assert sent.bytes_out == received.bytes_in > 5000

    def test_a_consumer_that_comes_late_is_waited_for(self, pair: tuple[WorkerRig, WorkerRig]) -> None:
        left, right = pair
        out, gate = wire(1, left.address, right.address)
        producer = left.task(
            chain(SourceSpec(RowsSource([f"{n:02000}" for n in range(300)])), outputs=1), outputs=[out]
        )
        left.deploy(producer)
        for _ in range(100):
            left.worker.turn()
        task = left.running(producer)
        assert task.counts.metrics().records_out < 300
        consumer = right.task(chain(SinkSpec(NamedSink("late consumer"))), [gate])
        right.deploy(consumer)
        turn_all_until(pair, lambda: left.ended(producer)() and right.ended(consumer)())
        assert len(WRITTEN["late consumer"]) == 302

    def test_peers_are_connected_to_before_anything_that_takes_time(self, pair: tuple[WorkerRig, WorkerRig]) -> None:
        """A peer waits for so long only, and the state of a task that is deployed first may take longer."""
        left, right = pair
        known: list[str] = []
        Watching.look = lambda: known.extend(left.worker.peers)
        first = left.task(chain(SourceSpec(RowsSource()), MapSpec(Watching()), SinkSpec(NamedSink("first"))))
        out, _ = wire(1, left.address, right.address)
        _, gate = wire(2, "127.0.0.1:9", left.address)
        second = left.task(chain(MapSpec(lambda row: row), outputs=1), [gate], [out])
        left.deploy(first, second)
        assert sorted(known) == sorted([right.address, "127.0.0.1:9"])

    def test_records_of_another_type_than_declared_arrive_as_they_are(self, pair: tuple[WorkerRig, WorkerRig]) -> None:
        _, right = pair
        _, consumer = self.deploy(pair, ["no number"], "another", t.LONG)
        turn_all_until(pair, right.ended(consumer))
        assert right.states(consumer)[-1] == "FINISHED"
        assert WRITTEN["another"] == ["no number", "flushed", "closed"]

    def test_a_worker_that_vanishes_fails_its_consumers_with_who_and_where(
        self, pair: tuple[WorkerRig, WorkerRig]
    ) -> None:
        left, right = pair
        out, gate = wire(1, left.address, right.address)
        producer = left.task(chain(SourceSpec(RowsSource([1], waits=True)), outputs=1), outputs=[out])
        consumer = right.task(chain(SinkSpec(NamedSink("orphan"))), [gate])
        right.deploy(consumer)
        left.deploy(producer)
        turn_all_until(pair, lambda: WRITTEN.get("orphan") == [1])
        left.worker.hang_up()
        right.turn_until(right.ended(consumer))
        failure = right.updates(consumer)[-1].failure
        assert f"lost the producer producer of 1 at {left.address}" in failure.exception
        assert failure.kind == FailureKind.PEER_LOST

    def test_a_peer_that_has_sent_everything_may_vanish(self, pair: tuple[WorkerRig, WorkerRig]) -> None:
        left, right = pair
        producer, consumer = self.deploy(pair, range(10), "orderly")
        gate = right.running(consumer).gates[0]
        self.turn_until_all_arrived(pair, gate)
        right.post(PeerLost(left.address, "it stopped"))
        right.turn_until(right.ended(consumer))
        assert right.states(consumer) == LIFE
        assert WRITTEN["orderly"][:10] == list(range(10))
        left.turn_until(left.ended(producer))
        assert left.states(producer)[-1] == "FINISHED"

    @staticmethod
    def turn_until_all_arrived(pair: tuple[WorkerRig, WorkerRig], gate: Any) -> None:
        left, right = pair

        def has_all() -> bool:
            right.worker.take_mails(0.001)
            return bool(gate.channels[0].has_all)

        left.turn_until(has_all)

    def test_a_frame_out_of_place_costs_the_peer_its_stream_and_nothing_else(
        self, pair: tuple[WorkerRig, WorkerRig]
    ) -> None:
        left, right = pair
        bystander = right.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("bystander"))))
        right.deploy(bystander)
        _, consumer = self.deploy(pair, range(10), "innocent")
        right.post(FrameArrived(left.address, Data(ChannelId(99))))
        right.turn_until(right.ended(consumer))
        assert "data on channel 99, which this worker does not have" in right.updates(consumer)[-1].failure.exception
        right.worker.turn()
        assert right.states(bystander)[-1] == "RUNNING"


def test_stop_ends_the_loop_and_closes_the_tasks() -> None:
    rig = WorkerRig()
    task = rig.task(chain(SourceSpec(RowsSource(waits=True)), SinkSpec(NamedSink("stopped"))))
    rig.worker.mailbox.put(DeployTasks(ALLOCATION, (task,)))
    rig.worker.mailbox.put(Stop())
    rig.worker.run()
    assert rig.sent[0] == WorkerReady(ALLOCATION, rig.address)
    assert rig.address.startswith("127.0.0.1:")
    assert WRITTEN["stopped"] == ["closed"]
