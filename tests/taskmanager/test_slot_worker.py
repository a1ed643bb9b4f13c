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
    WorkerRig,
    chain,
    local_pair,
    reading,
    turn_all_until,
    wire,
    writing,
)

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.ids import AttemptId, ChannelId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.plan.function_ends_plan import SinkFunctionSpec
from millstream.core.jobs.plan.plan import FilterSpec, FlatMapSpec, MapSpec
from millstream.core.messages.deployment import DeployTasks, OutputChannel, TaskDeployment
from millstream.core.messages.results import CollectResponse
from millstream.core.messages.sources import Custom, NoMoreSplits, ReaderEvent, Registered, SplitRequest, Splits, Stop
from millstream.core.messages.task_manager import TaskMetricsReport, WorkerReady
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.datastream.functions import IntCounter, MapFunction, RuntimeContext, SinkContext, SinkFunction
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


def three_tasks(rig: WorkerRig, rows: Any, function: Any, sink: str) -> tuple[TaskDeployment, ...]:
    """Source, map and sink as tasks of one worker."""
    out_a, in_a = local_pair(rig, 1)
    out_b, in_b = local_pair(rig, 2)
    return (
        rig.task(chain(reading(rows), outputs=1), outputs=[out_a]),
        rig.task(chain(MapSpec(function), outputs=1), [in_a], [out_b]),
        rig.task(chain(writing(sink)), [in_b]),
    )


LIFE = ["INITIALIZING", "RUNNING", "FINISHED"]


@pytest.mark.parametrize("backwards", [False, True], ids=["producers first", "consumers first"])
def test_tasks_of_one_worker_pass_records_by_reference(rig: WorkerRig, backwards: bool) -> None:
    tasks = three_tasks(rig, range(5000), lambda n: n + 1, "three")
    for task in reversed(tasks) if backwards else tasks:
        rig.deploy(task)
        rig.turns(3)
    rig.turn_until(rig.ended(*tasks))
    assert WRITTEN["three"] == [*range(1, 5001), "flushed", "closed"]
    for task in tasks:
        assert rig.states(task) == LIFE
        assert all(update.allocation_id == "allocation" for update in rig.updates(task))
    metrics = [rig.updates(task)[-1].metrics for task in tasks]
    assert [(m.records_in, m.records_out) for m in metrics] == [(5000, 5000), (5000, 5000), (5000, 5000)]


def even(number: int) -> bool:
    return number % 2 == 0


def test_a_task_of_one_chain_counts_what_its_source_emits_and_its_sink_writes(rig: WorkerRig) -> None:
    task = rig.task(chain(reading(range(5000)), FilterSpec(even), writing("fused")))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    metrics = rig.updates(task)[-1].metrics
    assert (metrics.records_in, metrics.records_out) == (5000, 2500)


class FailingAtTwenty(SinkFunction[int]):
    def invoke(self, value: int, context: SinkContext) -> None:
        if value == 20:
            raise OSError("the disk is full")


def test_records_that_a_sink_could_not_write_are_not_counted(small: WorkerRig) -> None:
    task = small.task(chain(reading(range(64)), SinkFunctionSpec(FailingAtTwenty())))
    small.deploy(task)
    small.turn_until(small.ended(task))
    metrics = small.updates(task)[-1].metrics
    assert small.states(task)[-1] == "FAILED"
    assert 0 < metrics.records_out <= 20 < metrics.records_in


def failing_at_seven(number: int) -> int:
    return 1 // (7 - number)


def test_a_failure_is_reported_with_the_users_frames_only(rig: WorkerRig) -> None:
    source, mapper, sink = tasks = three_tasks(rig, range(20), failing_at_seven, "failing")
    rig.deploy(*tasks)
    rig.turn_until(rig.ended(mapper))
    assert rig.states(mapper) == ["INITIALIZING", "RUNNING", "FAILED"]
    failure = rig.failure(mapper)
    assert failure.exception == "ZeroDivisionError: integer division or modulo by zero"
    assert failure.operator_name == "op 0"
    assert failure.record == "7"
    assert (failure.job_id, failure.vertex_id, failure.task_name) == ("job", mapper.vertex_id, mapper.task_name)
    assert failure.timestamp == rig.clock.now_ms()
    lines = failure.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "in failing_at_seven" in lines[1]
    assert "millstream/taskmanager" not in failure.traceback
    assert lines[-1] == failure.exception
    assert rig.state(sink) == "RUNNING"
    rig.cancel(source.attempt_id, sink.attempt_id)
    assert rig.state(sink) == "CANCELED"
    assert WRITTEN["failing"][-1] == "closed"
    assert "flushed" not in WRITTEN["failing"]


def test_long_records_are_shortened(rig: WorkerRig) -> None:
    task = rig.run(reading(["x" * 100_000]), MapSpec(lambda row: row + 1), writing("long"))
    assert len(rig.failure(task).record) <= 1000


def test_a_key_selector_that_fails_is_reported_with_its_record(rig: WorkerRig) -> None:
    selector = plan.KeySelector(function=lambda row: row["missing"])
    out, _ = wire(1, "", "", plan.HashPartitioner(selector))
    second = OutputChannel(ChannelId(2), consumer_address="", consumer_name="second")
    out = replace(out, channels=(*out.channels, second))
    task = rig.start(reading([{"a": 1}]), outputs=[out])
    rig.turn_until(rig.ended(task))
    failure = rig.failure(task)
    assert failure.exception == "KeyError: 'missing'"
    assert "key selector" in failure.operator_name
    assert failure.record == "{'a': 1}"
    assert "in <lambda>" in failure.traceback
    assert "partitioning.py" not in failure.traceback


class Rich(MapFunction):
    """Fails where requested."""

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
    task = rig.run(reading([1]), MapSpec(Rich(step)), writing("phase"))
    assert rig.states(task) == states
    failure = rig.failure(task)
    assert failure.exception == f"OSError: failed in {step}"
    assert failure.operator_name == "op 1"
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
def test_a_chain_that_cannot_be_loaded_fails_its_task_permanently(rig: WorkerRig, code: bytes, named: str) -> None:
    task = rig.task(code)
    rig.deploy(task)
    assert rig.states(task) == ["INITIALIZING", "FAILED"]
    failure = rig.failure(task)
    assert failure.final
    assert "the code of task" in failure.exception
    assert named in failure.exception


def test_counters_and_accumulators_are_reported(rig: WorkerRig) -> None:
    task = rig.run(reading([1, 2, 3]), MapSpec(Rich("")), writing("counted"))
    last = rig.updates(task)[-1]
    assert dict(last.metrics.counters) == {"op 1.rows": 3}
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
    task = rig.run(reading([1]), MapSpec(function), writing("any"))
    assert dict(rig.updates(task)[-1].metrics.counters) == {"op 1.n": reported}


def test_a_counter_with_an_invalid_name_fails_its_function(rig: WorkerRig) -> None:
    task = rig.start(reading([1]), MapSpec(CountsAnything("\udc80")), writing("none"))
    failure = rig.failure(task)
    assert failure.exception.startswith("ValueError: the counter 'op 1.\\udc80' cannot be written")
    assert failure.operator_name == "op 1"


def test_metrics_are_reported_at_their_interval(rig: WorkerRig) -> None:
    task = rig.start(reading(waits=True), writing("metrics"))
    rig.turns()
    assert len(rig.messages(TaskMetricsReport)) == 1
    rig.turns(5)
    assert len(rig.messages(TaskMetricsReport)) == 1
    rig.clock.advance(10)
    rig.turns()
    _, report = rig.messages(TaskMetricsReport)
    assert [t.attempt_id for t in report.tasks] == [task.attempt_id]
    assert report.tasks[0].metrics.idle_ms == 10_000


def test_readers_communicate_with_their_enumerator(rig: WorkerRig) -> None:
    task = rig.start(reading(waits=True), writing("events"))
    events = rig.messages(ReaderEvent)
    assert [e.kind for e in events] == [Registered(), SplitRequest("127.0.0.1")]
    assert all((e.job_id, e.vertex_id, e.subtask) == ("job", task.vertex_id, 0) for e in events)
    assert all(e.attempt_id == task.attempt_id for e in events)
    rig.turns()
    rig.send_event(task, Splits(to_bytes([5, 6])))
    rig.turn_until(lambda: WRITTEN["events"] == [5, 6])
    rig.send_event(task, Custom(to_bytes("hello")))
    assert pickle.loads(rig.messages(ReaderEvent)[-1].kind.event) == ("echo", "hello")
    rig.send_event(task, NoMoreSplits())
    rig.turn_until(rig.ended(task))
    assert rig.states(task) == LIFE


def test_an_enumerators_event_may_fail_its_reader(rig: WorkerRig) -> None:
    task = rig.start(reading(waits=True), writing("event failure"))
    rig.send_event(task, Custom(to_bytes("fail")))
    assert rig.state(task) == "FAILED"
    assert rig.failure(task).exception == "OSError: the broker is gone"
    rig.send_event(task, Custom(to_bytes("fail")))  # the task is gone: nothing happens


def test_a_reader_is_polled_again_when_it_requests_it(rig: WorkerRig) -> None:
    rig.start(reading(waits=True), writing("woken"))
    reader = READERS[-1]
    rig.turns()
    reader._rows = [1]
    rig.turns()
    assert WRITTEN["woken"] == []
    reader.context.wake_up()
    rig.turn_until(lambda: WRITTEN["woken"] == [1], turns=3)
    rig.turns()
    reader._rows = [2]
    reader.context.poll_again_in(5)
    rig.clock.advance(4)
    rig.turns(3)
    assert WRITTEN["woken"] == [1]
    rig.clock.advance(1)
    rig.turn_until(lambda: WRITTEN["woken"] == [1, 2], turns=3)


class TestCancelling:
    def test_an_idle_source(self, rig: WorkerRig) -> None:
        task = rig.start(reading(waits=True), writing("idle"))
        rig.turns()
        rig.cancel(task.attempt_id)
        assert rig.states(task) == ["INITIALIZING", "RUNNING", "CANCELED"]
        assert WRITTEN["idle"] == ["closed"]
        rig.cancel(task.attempt_id)
        assert len(rig.states(task)) == 3

    def test_a_backpressured_task(self, small: WorkerRig) -> None:
        task = small.start(reading(range(10_000)), outputs=[local_pair(small, 1)[0]])
        small.turns(30)
        small.cancel(task.attempt_id)
        assert small.state(task) == "CANCELED"

    @pytest.mark.parametrize(("cancelled", "state"), [(True, "CANCELED"), (False, "FAILED")])
    def test_an_unrequested_interrupt_is_an_error_of_user_code(
        self, rig: WorkerRig, cancelled: bool, state: str
    ) -> None:
        def interrupted(value: Any) -> Any:
            raise TaskInterrupted

        WRITTEN.pop("interrupted", None)
        task = rig.start(reading([1]), MapSpec(interrupted), writing("interrupted"))
        if cancelled:
            rig.worker.cancelling.add(task.attempt_id)
        rig.turn_until(rig.ended(task))
        assert rig.state(task) == state
        failure = rig.failure(task)
        if cancelled:
            assert failure is None
        else:
            assert "TaskInterrupted" in failure.exception
            assert "raise TaskInterrupted" in failure.traceback
        assert WRITTEN["interrupted"] == ["closed"]

    def test_a_task_cancelled_before_it_is_deployed(self, rig: WorkerRig) -> None:
        """For example, while other tasks of its slot were restored."""
        WRITTEN.pop("never", None)
        task = rig.task(chain(reading(waits=True), writing("never")))
        rig.worker.cancelling.add(task.attempt_id)
        rig.deploy(task)
        assert rig.states(task) == ["INITIALIZING", "CANCELED"]
        assert "never" not in WRITTEN
        rig.cancel(task.attempt_id)
        assert rig.states(task) == ["INITIALIZING", "CANCELED"]

    def test_a_failure_while_cancelling_is_not_reported_as_failure(self, rig: WorkerRig) -> None:
        task = rig.start(reading([7]), MapSpec(failing_at_seven), writing("late"))
        rig.worker.cancelling.add(task.attempt_id)
        rig.turn_until(rig.ended(task))
        assert rig.state(task) == "CANCELED"

    def test_a_close_that_fails_does_not_stop_it(self, rig: WorkerRig) -> None:
        task = rig.start(reading(waits=True), MapSpec(Rich("close")), writing("bad close"))
        rig.cancel(task.attempt_id)
        assert rig.state(task) == "CANCELED"
        assert WRITTEN["bad close"] == ["closed"]


class TestBackpressure:
    def test_a_full_local_channel_stops_the_producer(self, small: WorkerRig) -> None:
        out, gate = local_pair(small, 1)
        producer = small.start(reading(range(1000)), outputs=[out])
        small.turns(50)
        running = small.running(producer)
        first_steps = [2, 4]
        emitted = sum(first_steps) + (LocalInputChannel.CAPACITY - len(first_steps)) * 8
        assert running.counts.metrics().records_out == emitted
        small.clock.advance(3)
        small.turns()
        assert running.counts.metrics().backpressured_ms == 3000
        consumer = small.start(writing("pressed"), inputs=[gate])
        small.turn_until(small.ended(producer, consumer))
        assert WRITTEN["pressed"] == [*range(1000), "flushed", "closed"]

    def test_an_exploding_flat_map_is_fed_in_small_slices(self, small: WorkerRig) -> None:
        out_a, in_a = local_pair(small, 1)
        out_b, in_b = local_pair(small, 2)
        small.start(reading(range(64)), outputs=[out_a])
        explode = small.start(FlatMapSpec(lambda n: [n] * 40), inputs=[in_a], outputs=[out_b])
        small.start(writing("exploded"), inputs=[in_b])
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
        task = small.start(reading([1]), FlatMapSpec(lambda n: range(100)), outputs=[local_pair(small, 1)[0]])
        small.turn_until(lambda: small.running(task).counts.metrics().records_out == 100, turns=10)
        assert {len(batch) for batch in list(small.channel(1).queue)[:12]} == {8}

    def test_a_client_that_does_not_collect_stops_the_task(self, rig: WorkerRig) -> None:
        rows = [f"{n:0100}" for n in range(50_000)]
        task = rig.start(reading(rows), plan.CollectSpec())
        collector = rig.operator(task, 1)
        rig.turn_until(lambda: not collector.has_room)
        rig.turns(20)
        assert collector._waiting <= 2 * collector.CAPACITY
        received: list[str] = []
        version = ""
        while not rig.ended(task)():
            response = rig.collect(task.attempt_id, "op-1", version, len(received))
            version = response.version
            received += [row for raw in response.batches for row in pickle.loads(raw)]
            rig.turns()
        assert received == rows


def test_collecting_from_a_missing_task_gets_a_response(rig: WorkerRig) -> None:
    assert rig.collect(AttemptId("unknown")) == CollectResponse("q", error="the collecting task is not running")


def test_a_result_that_cannot_be_pickled_fails_the_task(rig: WorkerRig) -> None:
    task = rig.start(reading([1, 2]), MapSpec(lambda n: threading.Lock() if n == 2 else n), plan.CollectSpec())
    rig.turns()
    rig.collect(task.attempt_id, "op-2")
    assert rig.state(task) == "FAILED"
    failure = rig.failure(task)
    assert failure.operator_name == "op 2"
    assert "lock" in failure.record


def test_side_outputs_go_to_their_own_operators(rig: WorkerRig) -> None:
    from millstream.datastream.functions import OutputTag, ProcessFunction

    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield value
            yield OutputTag("odd"), {"n": value}

    outputs = (plan.ChainedOutput(operator=2), plan.ChainedOutput(operator=3, tag="odd"))
    columns = plan.MapBatchesSpec(lambda batch: batch, "arrow")
    operators = (
        plan.ChainedOperator("a", "source", reading([1, 3]), t.LONG, (plan.ChainedOutput(operator=1),)),
        plan.ChainedOperator("b", "split", plan.ProcessSpec(Split()), t.LONG, outputs),
        plan.ChainedOperator("c", "main", writing("main"), t.LONG, ()),
        plan.ChainedOperator("d", "columns", columns, t.PICKLED, (plan.ChainedOutput(operator=4),)),
        plan.ChainedOperator("e", "side", writing("side"), t.PICKLED, ()),
    )
    task = rig.task(to_bytes(plan.Chain(operators)))
    rig.deploy(task)
    rig.turn_until(rig.ended(task))
    assert rig.states(task) == LIFE
    assert WRITTEN["main"][:2] == [1, 3]
    assert [row.as_dict() for row in WRITTEN["side"][:2]] == [{"n": 1}, {"n": 3}]


class Watching(MapFunction):
    """Inspects its surroundings when it is opened."""

    look: ClassVar[Callable[[], None]]

    def open(self, runtime_context: RuntimeContext) -> None:
        Watching.look()

    def map(self, value: Any) -> Any:
        return value


Pair = tuple[WorkerRig, WorkerRig]


class TestTwoWorkers:
    """Two workers on loopback, both driven by this thread."""

    @pytest.fixture
    def pair(self) -> Iterator[Pair]:
        options = {"taskmanager.memory.segment-size": "4 kb", "execution.batch.max-rows": "64"}
        left, right = WorkerRig(network=True, **options), WorkerRig(network=True, **options)
        yield left, right
        left.close()
        right.close()

    def deploy(
        self, pair: Pair, sink: str, rows: Any = range(10), kind: t.TypeInformation = t.PICKLED, waits: bool = False
    ) -> tuple[TaskDeployment, TaskDeployment]:
        left, right = pair
        out, gate = wire(1, left.address, right.address, kind=kind)
        consumer = right.start(writing(sink), inputs=[gate])
        return left.start(reading(rows, waits), outputs=[out]), consumer

    def test_records_cross_in_order(self, pair: Pair) -> None:
        left, right = pair
        producer, consumer = self.deploy(pair, "crossed", range(5000), t.LONG)
        turn_all_until(pair, lambda: left.ended(producer)() and right.ended(consumer)())
        assert WRITTEN["crossed"] == [*range(5000), "flushed", "closed"]
        sent, received = left.updates(producer)[-1].metrics, right.updates(consumer)[-1].metrics
        assert (sent.records_out, received.records_in) == (5000, 5000)
        assert sent.bytes_out == received.bytes_in > 5000

    def test_a_consumer_that_comes_late_is_waited_for(self, pair: Pair) -> None:
        left, right = pair
        out, gate = wire(1, left.address, right.address)
        producer = left.start(reading([f"{n:02000}" for n in range(300)]), outputs=[out])
        left.turns(100)
        assert left.running(producer).counts.metrics().records_out < 300
        consumer = right.start(writing("late consumer"), inputs=[gate])
        turn_all_until(pair, lambda: left.ended(producer)() and right.ended(consumer)())
        assert len(WRITTEN["late consumer"]) == 302

    def test_peers_are_connected_to_before_anything_that_takes_time(self, pair: Pair) -> None:
        """A peer waits for a limited time only, and restoring the state of another task may take longer."""
        left, right = pair
        known: list[str] = []
        Watching.look = lambda: known.extend(left.worker.peers)
        out, _ = wire(1, left.address, right.address)
        _, gate = wire(2, "127.0.0.1:9", left.address)
        left.deploy(
            left.task(chain(reading(), MapSpec(Watching()), writing("first"))),
            left.task(chain(MapSpec(lambda row: row), outputs=1), [gate], [out]),
        )
        assert sorted(known) == sorted([right.address, "127.0.0.1:9"])

    def test_a_worker_that_vanishes_fails_its_consumers_with_its_tasks_and_address(self, pair: Pair) -> None:
        left, right = pair
        _, consumer = self.deploy(pair, "orphan", [1], waits=True)
        turn_all_until(pair, lambda: WRITTEN.get("orphan") == [1])
        left.worker.hang_up()
        right.turn_until(right.ended(consumer))
        failure = right.failure(consumer)
        assert f"lost the producer producer of 1 at {left.address}" in failure.exception
        assert failure.kind == FailureKind.PEER_LOST

    def test_a_peer_that_has_sent_everything_may_vanish(self, pair: Pair) -> None:
        left, right = pair
        producer, consumer = self.deploy(pair, "orderly")
        (channel,) = right.running(consumer).gates[0].channels

        def has_all() -> bool:
            right.worker.take_mails(0.001)
            return bool(channel.has_all)

        left.turn_until(has_all)
        right.post(PeerLost(left.address, "it stopped"))
        right.turn_until(right.ended(consumer))
        assert right.states(consumer) == LIFE
        assert WRITTEN["orderly"][:10] == list(range(10))
        left.turn_until(left.ended(producer))
        assert left.state(producer) == "FINISHED"

    def test_an_invalid_frame_costs_the_peer_its_stream_only(self, pair: Pair) -> None:
        left, right = pair
        bystander = right.start(reading(waits=True), writing("bystander"))
        _, consumer = self.deploy(pair, "innocent")
        right.post(FrameArrived(left.address, Data(ChannelId(99))))
        right.turn_until(right.ended(consumer))
        assert "data on channel 99, which this worker does not have" in right.failure(consumer).exception
        right.turns()
        assert right.state(bystander) == "RUNNING"


def test_stop_ends_the_loop_and_closes_the_tasks() -> None:
    rig = WorkerRig()
    task = rig.task(chain(reading(waits=True), writing("stopped")))
    rig.worker.mailbox.put(DeployTasks(ALLOCATION, (task,)))
    rig.worker.mailbox.put(Stop())
    rig.worker.run()
    assert rig.sent[0] == WorkerReady(ALLOCATION, rig.address)
    assert rig.address.startswith("127.0.0.1:")
    assert WRITTEN["stopped"] == ["closed"]
