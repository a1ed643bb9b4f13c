"""Unaligned checkpoints through real channels, under backpressure, and restored under any parallelism."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from checkpoint_rig import COUNTED, SOURCE, CheckpointRig, Remembering, counted, merged, operators
from msgspec.structs import replace
from worker_rig import DEBLOAT, chain, edge, local_pair, turn_all_until, wire

from millstream.core.jobs.barriers import Alignment
from millstream.core.jobs.failure_kinds import DeclineReason
from millstream.core.jobs.ids import ChannelId
from millstream.core.jobs.plan import plan
from millstream.core.messages.checkpoints import CheckpointAck
from millstream.core.messages.deployment import InputChannel, InputGate, OutputChannel, ResultPartition
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import END_OF_INPUT, Barrier, Element, RowBatch
from millstream.core.records.types import PICKLED
from millstream.core.snapshot import StateKind, read_rows, read_state, storage_at
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.datastream.functions import KeyedProcessFunction, RuntimeContext
from millstream.taskmanager.worker.checkpointing.checkpoint_records import Stage
from millstream.taskmanager.worker.network.codecs import Codec, PickledRows
from millstream.taskmanager.worker.tasks.task_life import Phase
from millstream.taskmanager.worker.tasks.task_pacing import StepResult

WORDS = [f"word {n % 37} {'x' * 100}" for n in range(1200)]
BY_WORD = plan.HashPartitioner(plan.KeySelector(function=str))


def stored(location: str, acks: Iterable[CheckpointAck], kind: StateKind) -> list[tuple[str, str, Any]]:
    """The elements of all states of a kind, each with its operator and its state."""
    storage, folder = storage_at(location)
    return [
        (operator.operator_id, state.name, element)
        for ack in acks
        for operator in operators(ack)
        for state in operator.states
        if state.kind is kind
        for file in state.files
        for element in read_rows(read_state(storage, folder, state, file), state, unpickle=True).content
    ]


def rows_on_their_way(location: str, acks: Iterable[CheckpointAck]) -> list[Any]:
    found = stored(location, acks, StateKind.IN_FLIGHT)
    pickled = (Codec.PICKLE, Codec.PLAIN)
    return [row for _, _, (_, _, codec, payload) in found if codec in pickled for row in pickle.loads(payload)[1]]


class Pipeline:
    """Sources on the first worker; counters on all, or on the other; what they emit waits until the test takes it."""

    def __init__(
        self, workers: list[CheckpointRig], sources: int, counters: int, first_channel: int, restore: bytes = b"",
        checkpoint: int = 1, mixed: bool = True, sources_restore: bytes | None = None,
    ) -> None:  # fmt: skip
        self.workers = workers
        self.rig_of = [workers[n % len(workers) if mixed else -1] for n in range(counters)]
        self.outputs = [first_channel + n for n in range(counters)]
        spec = edge(BY_WORD, source="source-0")

        def channel(producer: int, consumer: int) -> ChannelId:
            return ChannelId(first_channel + counters + producer * counters + consumer + 1)

        outputs = [
            ResultPartition(0, spec, tuple(
                OutputChannel(channel(producer, consumer), rig.address, "count")
                for consumer, rig in enumerate(self.rig_of)
            ), max_parallelism=128)
            for producer in range(sources)
        ]  # fmt: skip
        gates = [
            InputGate(0, spec, tuple(
                InputChannel(channel(producer, consumer), workers[0].address, f"source {producer}", producer)
                for producer in range(sources)
            ))
            for consumer in range(counters)
        ]  # fmt: skip
        ends = [local_pair(rig, out)[0] for rig, out in zip(self.rig_of, self.outputs, strict=True)]
        self.counters = [
            rig.subtask(
                chain(COUNTED, outputs=1, prefix="count"), n, counters, restore, checkpoint, [gates[n]], [ends[n]]
            )
            for n, rig in enumerate(self.rig_of)
        ]
        source = chain(SOURCE, outputs=1, prefix="source")
        from_snapshot = restore if sources_restore is None else sources_restore
        self.sources = [
            workers[0].subtask(source, n, sources, from_snapshot, checkpoint, outputs=[outputs[n]])
            for n in range(sources)
        ]
        for rig, task in zip(self.rig_of, self.counters, strict=True):
            rig.deploy(task)
        for task in self.sources:
            workers[0].deploy(task)

    def turn_until(self, done: Callable[[], bool]) -> None:
        turn_all_until(self.workers, done)

    def read(self, *words: list[str]) -> None:
        for task, share in zip(self.sources, words, strict=True):
            self.workers[0].feed(task, share)

    def until_stuck(self) -> None:
        """Runs until nothing moves any more, and no source can continue: the output is not taken."""
        tasks = self.workers[0].worker.tasks
        sources = [tasks[source.attempt_id] for source in self.sources if source.attempt_id in tasks]
        stuck = (StepResult.BACKPRESSURED, StepResult.ENDED)
        self.turn_until(lambda: all(t.steps.last_result in stuck for t in sources) and self.is_quiet())

    def is_quiet(self) -> bool:
        """Whether no buffer and no credit is in flight between the workers, and no task has anything to do."""
        tasks = [task for rig in self.workers for task in rig.worker.tasks.values()]
        gates = [gate for task in tasks for gate in task.gates]
        sent = {c.channel_id: c for task in tasks for p in task.partitions for c in p.channels if c.peer}
        for gate in gates:
            for channel_id, received in gate._credited.items():
                sender = sent.pop(channel_id)
                if sender._sequence != received._sequence or (sender.queue and sender.credit.credit):
                    return False
                if sender.credit.credit != gate._credit._rooms[channel_id].promised:
                    return False
        has_input = (any(c.queue and not c.blocked for g in task.gates for c in g.channels) for task in tasks)
        return not sent and not any(
            last is StepResult.WORKED or (more and last is not StepResult.BACKPRESSURED)
            for last, more in zip([task.steps.last_result for task in tasks], has_input, strict=True)
        )

    def queue(self, counter: int) -> Any:
        return self.rig_of[counter].channel(self.outputs[counter]).queue

    def out(self) -> list[Any]:
        """Takes what the counters emitted."""
        seen: list[Any] = []
        for n in range(len(self.outputs)):
            queue = self.queue(n)
            while queue:
                element = queue.popleft()
                seen += element.rows if isinstance(element, RowBatch) else [element]
        return seen

    def records(self) -> list[Any]:
        """The same without signals."""
        return [element for element in self.out() if isinstance(element, tuple)]

    def trigger(self, checkpoint: int, **options: Any) -> None:
        self.workers[0].trigger(checkpoint, *self.sources, **options)

    def acks(self, checkpoint: int) -> list[CheckpointAck]:
        return [ack for rig in self.workers for ack in rig.acks(checkpoint)]

    def acknowledged(self, checkpoint: int) -> list[CheckpointAck]:
        wanted = len(self.sources) + len(self.counters)
        self.turn_until(lambda: len(self.acks(checkpoint)) == wanted)
        return self.acks(checkpoint)

    def overtake(self, checkpoint: int = 1) -> list[CheckpointAck]:
        """An unaligned checkpoint while nothing moves any more."""
        self.until_stuck()
        self.trigger(checkpoint, alignment=Alignment.UNALIGNED)
        return self.acknowledged(checkpoint)

    def run_out(self) -> list[Any]:
        """Lets everything end; returns all records that were emitted."""
        seen: list[Any] = []
        for task in self.sources:
            self.workers[0].feed(task, last=True)

        def ended() -> bool:
            seen.extend(self.records())
            return all(rig.ended(task)() for rig, task in zip(self.rig_of, self.counters, strict=True))

        self.turn_until(ended)
        assert {rig.state(task) for rig, task in zip(self.rig_of, self.counters, strict=True)} == {"FINISHED"}
        return seen + self.records()

    def cancel(self) -> None:
        self.workers[0].cancel(*(task.attempt_id for task in self.sources))
        for rig, task in zip(self.rig_of, self.counters, strict=True):
            rig.cancel(task.attempt_id)


@pytest.fixture
def workers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[CheckpointRig]]:
    options = {
        "taskmanager.memory.segment-size": "1 kb",
        "taskmanager.network.memory.floating-buffers-per-gate": "0",
        DEBLOAT: getattr(request, "param", "false"),
    }
    made = [CheckpointRig(tmp_path, True, **options) for _ in range(2)]
    yield made
    for rig in made:
        rig.close()


PARALLELISMS = {"source-0": 2, "count-0": 2}


def reading_words(workers: list[CheckpointRig], mixed: bool = True) -> Pipeline:
    """Two sources with all the words, whose output is not taken."""
    job = Pipeline(workers, 2, 2, 1000, mixed=mixed)
    job.read(WORDS[:600], WORDS[600:])
    return job


@pytest.mark.parametrize("workers", ["false", "true"], indirect=True, ids=["as is", "debloated"])
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize(("sources", "counters"), [(2, 2), (3, 2), (1, 3), (2, 1)])
def test_a_stuck_pipeline_is_stored_at_once_and_restored(
    workers: list[CheckpointRig], sources: int, counters: int, mixed: bool
) -> None:
    job = reading_words(workers, mixed)
    acks = job.overtake()
    assert all(ack.unaligned for ack in acks)
    assert sum(ack.persisted_bytes for ack in acks) > 0
    before = job.out()
    barriers = [element for element in before if isinstance(element, Barrier)]
    assert [(barrier.checkpoint_id, barrier.unaligned) for barrier in barriers] == [(1, True), (1, True)]
    done = [element for element in before if isinstance(element, tuple)]
    assert len(done) < len(WORDS) / 2, "it completed while most records could not be processed"
    found = {(owner, name) for owner, name, _ in stored(workers[0].location(1), acks, StateKind.IN_FLIGHT)}
    everywhere = {("source-0", "in-flight-0-queued"), ("source-0", "in-flight-0-received")}
    assert found <= everywhere if mixed else found == everywhere  # a full local channel may stop the source first

    job.turn_until(lambda: len(job.out()) > 0)  # it continues, and this is lost with it
    job.cancel()
    again = Pipeline(workers, sources, counters, 2000, merged(acks, PARALLELISMS))
    assert Counter(done + again.run_out()) == counted(WORDS)


@pytest.mark.parametrize("sources", [1, 2, 3])
def test_records_of_a_producer_that_had_finished_are_sent_again(workers: list[CheckpointRig], sources: int) -> None:
    job = reading_words(workers)
    acks = job.overtake()
    done = job.records()
    on_their_way = rows_on_their_way(workers[0].location(1), acks)
    job.cancel()
    whole = merged(acks, PARALLELISMS)
    ended = [
        replace(operator, finished=True, states=tuple(s for s in operator.states if s.kind is StateKind.IN_FLIGHT))
        for operator in operators_from_json(whole, "restore")
        if operator.operator_id == "source-0"
    ]
    again = Pipeline(workers, sources, 2, 2000, whole, sources_restore=operators_to_json(ended))
    results = again.run_out()
    assert on_their_way
    assert Counter(word for word, *_ in results) == Counter(on_their_way)
    words = Counter(word for word, *_ in done) + Counter(on_their_way)
    assert Counter(done + results) == counted(words.elements())


@pytest.mark.parametrize("restored", [False, True])
def test_several_checkpoints_lose_and_duplicate_nothing(workers: list[CheckpointRig], restored: bool) -> None:
    """In one attempt, or each restored from the one before: restored records are in flight again in the next."""
    job = reading_words(workers)
    done: list[Any] = []
    for checkpoint in (1, 2, 3):
        acks = job.overtake(checkpoint)
        done += job.records()
        if restored:
            job.cancel()
            job = Pipeline(workers, 2, 2, 1000 * (checkpoint + 1), merged(acks, PARALLELISMS), checkpoint)
        else:
            for rig in workers:
                rig.notice(checkpoint, True, *job.sources, *job.counters)
    assert Counter(done + job.run_out()) == counted(WORDS)


def test_aligned_checkpoints_wait_where_unaligned_ones_do_not(workers: list[CheckpointRig]) -> None:
    job = reading_words(workers)
    job.until_stuck()
    job.trigger(1)
    job.turn_until(lambda: len(job.acks(1)) == 2 and job.is_quiet())
    assert {ack.attempt_id for ack in job.acks(1)} == {source.attempt_id for source in job.sources}
    seen = job.run_out()
    assert len(job.acks(1)) == 4
    assert not any(ack.unaligned or ack.persisted_bytes for ack in job.acks(1))
    assert Counter(seen) == counted(WORDS)


@pytest.mark.parametrize(("behind", "set_by"), [(0, 0), (0, -3600), (0, 3600), (3600, 0)])
def test_a_timeout_makes_stuck_barriers_unaligned(workers: list[CheckpointRig], behind: int, set_by: int) -> None:
    """However the system clocks are set meanwhile, even if they are behind the coordinator's."""
    job = reading_words(workers)
    job.until_stuck()
    job.trigger(1, timestamp=workers[0].clock.now_ms() + behind * 1000, timeout=100)
    tasks = [workers[0].running(source) for source in job.sources]
    beside = workers[0].running(job.counters[0]).checkpoints  # its timeout starts with the first barrier
    held = {Stage.HELD}
    job.turn_until(
        lambda: (
            all(held <= {r.stage for r in task.checkpoints.records} for task in tasks)
            and Stage.ARRIVED in {r.stage for r in beside.records}
            and job.is_quiet()
        )
    )
    for rig in workers:
        rig.clock.set_wall_clock(set_by)
        rig.clock.advance(0.09)
    job.turn_until(job.is_quiet)
    assert not job.acks(1), "the sources wait as well: their barriers may have to overtake"
    for rig in workers:
        rig.clock.advance(0.01)
    acks = job.acknowledged(1)
    done = job.records()
    assert len(done) < len(WORDS) / 2
    assert sum(ack.persisted_bytes for ack in acks) > 0
    job.cancel()
    again = Pipeline(workers, 3, 2, 2000, merged(acks, PARALLELISMS))
    assert Counter(done + again.run_out()) == counted(WORDS)


def test_without_backpressure_a_timeout_changes_nothing(workers: list[CheckpointRig]) -> None:
    job = Pipeline(workers, 2, 2, 1000)
    job.read(WORDS[:10], WORDS[10:20])
    job.turn_until(lambda: sum(len(b) for n in range(2) for b in job.queue(n)) == 20)
    job.trigger(1, timestamp=workers[0].clock.now_ms(), timeout=100)
    acks = job.acknowledged(1)
    assert not any(ack.unaligned or ack.persisted_bytes for ack in acks)
    assert stored(workers[0].location(1), acks, StateKind.IN_FLIGHT) == []


def test_an_aborted_checkpoint_keeps_nothing_and_the_next_one_is_complete(
    workers: list[CheckpointRig], tmp_path: Path
) -> None:
    job = reading_words(workers)
    job.until_stuck()
    workers[0].trigger(1, job.sources[0], alignment=Alignment.UNALIGNED)  # the other is never triggered
    gates = [gate for rig in workers for task in rig.worker.tasks.values() for gate in task.gates]
    job.turn_until(lambda: bool(job.acks(1)) and all(any(c.recording for c in gate.channels) for gate in gates))
    assert {ack.attempt_id for ack in job.acks(1)} == {job.sources[0].attempt_id}
    for rig in workers:
        rig.notice(1, False, *job.sources, *job.counters)
    assert not any(channel.recording for gate in gates for channel in gate.channels)
    job.trigger(2, alignment=Alignment.UNALIGNED)
    acks = job.acknowledged(2)
    assert len(job.acks(1)) == 1
    assert not [file for file in tmp_path.rglob("chk-1/*") if file.is_file()]
    done = job.records()
    job.cancel()
    again = Pipeline(workers, 2, 2, 2000, merged(acks, PARALLELISMS))
    assert Counter(done + again.run_out()) == counted(WORDS)


def test_ends_in_flight_are_awaited(workers: list[CheckpointRig]) -> None:
    """A source has finished meanwhile: its last records are in flight, and its end counts as the barrier."""
    job = Pipeline(workers[:1], 2, 1, 1000)
    job.read(WORDS[:40], WORDS[600:])
    workers[0].feed(job.sources[0], last=True)
    job.until_stuck()
    assert workers[0].states(job.sources[0])[-1] == "FINISHED"
    job.workers[0].trigger(1, job.sources[1], alignment=Alignment.UNALIGNED)
    job.turn_until(lambda: len(job.acks(1)) == 2)
    acks = job.acks(1)
    done = job.records()
    job.cancel()
    again = Pipeline(workers[:1], 2, 2, 2000, merged(acks, PARALLELISMS))
    assert Counter(done + again.run_out()) == counted(WORDS[:40] + WORDS[600:])


def test_records_overtaken_by_a_declined_checkpoint_are_in_no_later_one(workers: list[CheckpointRig]) -> None:
    """There is no consumer, so nothing is sent.

    After the end no barrier follows: the next checkpoint of the task has no records of its own in flight.
    """
    output, _ = wire(1, workers[0].address, workers[1].address)
    spec = chain(SOURCE, plan.MapSpec(Remembering()), outputs=1)
    source = workers[0].subtask(spec, outputs=[output])
    workers[0].deploy(source)
    workers[0].feed(source, WORDS[:20])
    task = workers[0].running(source)
    workers[0].turn_until(lambda: task.counts.metrics().records_out == 20)
    Remembering.fails = True
    try:
        workers[0].trigger(1, source, alignment=Alignment.UNALIGNED)
    finally:
        Remembering.fails = False
    assert len(workers[0].declines(1)) == 1
    workers[0].feed(source, last=True)
    workers[0].turn_until(lambda: task.life.phase is Phase.ENDED)
    workers[0].trigger(2, source, alignment=Alignment.UNALIGNED)
    acks = workers[0].acknowledged(2, source)
    assert rows_on_their_way(workers[0].location(2), acks) == []


@pytest.mark.parametrize("chained", [True, False])
def test_records_in_flight_follow_their_edge_into_a_task_with_another_chain(
    workers: list[CheckpointRig], chained: bool
) -> None:
    """The operator that had emitted them is not the first of its task any more, and the edge the second output, or
    none.
    """
    job = reading_words(workers)
    acks = job.overtake()
    along = plan.ChainedOutput(operator=2, edge="0") if chained else plan.ChainedOutput(output=1)
    last = plan.MapSpec(lambda word: word.upper())
    task_chain = plan.Chain(
        (
            plan.ChainedOperator("first", "first", last, PICKLED, (plan.ChainedOutput(operator=1),)),
            plan.ChainedOperator("source-0", "second", last, PICKLED, (plan.ChainedOutput(output=0), along)),
            plan.ChainedOperator("last", "last", last, PICKLED, (plan.ChainedOutput(output=1),) if chained else ()),
        )
    )
    rig = workers[0]
    specs = {
        3000: edge(source="source-0", name="other"),
        3001: edge(source="last", name="after") if chained else edge(source="source-0"),
    }
    outputs = [replace(local_pair(rig, channel)[0], spec=spec) for channel, spec in specs.items()]
    rig.deploy(rig.subtask(to_bytes(task_chain), restore=merged(acks, PARALLELISMS), outputs=outputs))
    other, found = ([row for b in rig.channel(n).queue for row in b.rows] for n in (3000, 3001))
    on_their_way = rows_on_their_way(rig.location(1), acks)
    assert on_their_way
    assert Counter(found) == Counter(word.upper() if chained else word for word in on_their_way)
    assert other == []


def test_a_graph_that_has_changed_is_refused(workers: list[CheckpointRig]) -> None:
    job = reading_words(workers)
    restore = merged(job.overtake(), PARALLELISMS)
    alone = workers[0].subtask(chain(SOURCE, prefix="source"), restore=restore)
    workers[0].deploy(alone)
    failure = workers[0].updates(alone)[-1].failure
    assert "holds records in flight" in failure.exception
    assert "restore from a savepoint" in failure.exception


# One task


class Slow(KeyedProcessFunction):
    """Keeps what it has seen."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_list_state("seen", int)

    def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
        self.seen.add(value)
        yield value


class Single:
    """A task whose channels the test fills, and whose output it sees."""

    def __init__(self, rig: CheckpointRig, *partitioners: plan.Partitioner) -> None:
        self.rig = rig
        gates = [
            InputGate(0, edge(by, source=f"producer-{n}"), (InputChannel(ChannelId(n), rig.address, "test", 0),))
            for n, by in enumerate(partitioners)
        ]
        spec = plan.KeyedProcessSpec(Slow(), plan.KeySelector(function=lambda v: 0))
        self.deployment = rig.start(spec, inputs=gates, outputs=[local_pair(rig, 1000)[0]])
        self.out = rig.channel(1000).queue
        self.task = rig.running(self.deployment)

    def put(self, channel: int, *elements: Element) -> None:
        for element in elements:
            self.rig.channel(channel).put(element)
        self.rig.turns(20)

    def barrier(self, checkpoint: int, **options: Any) -> Barrier:
        return Barrier(checkpoint, 77, location=self.rig.location(checkpoint), alignment=Alignment.UNALIGNED, **options)

    def seen(self, checkpoint: int) -> list[int]:
        (ack,) = self.rig.acknowledged(checkpoint, self.deployment)
        return [element for _, _, element in stored(self.rig.location(checkpoint), [ack], StateKind.LIST)]

    def caught(self, checkpoint: int) -> list[int]:
        return rows_on_their_way(self.rig.location(checkpoint), self.rig.acknowledged(checkpoint, self.deployment))


@pytest.fixture
def options() -> dict[str, str]:
    return {"execution.batch.max-rows": "4"}


def test_an_input_that_cannot_be_overtaken_is_processed_without_room_up_to_the_barrier(rig: CheckpointRig) -> None:
    task = Single(rig, plan.ForwardPartitioner())
    task.put(0, RowBatch(list(range(100))), RowBatch([100]))
    assert len(task.out) == 8
    task.put(0, task.barrier(1), RowBatch([101]))
    *batches, barrier = task.out
    assert [row for batch in batches for row in batch.rows] == list(range(101))
    assert barrier == task.barrier(1)
    assert task.seen(1) == list(range(101))


def test_the_rest_of_a_batch_that_is_being_processed_is_in_flight(rig: CheckpointRig) -> None:
    task = Single(rig, plan.RebalancePartitioner(), plan.RebalancePartitioner())
    task.put(0, RowBatch(list(range(100)), list(range(1000, 1100))), RowBatch([100]))
    assert len(task.out) == 8
    processed = [row for batch in task.out for row in batch.rows]
    assert 0 < len(processed) < 100
    task.put(0, task.barrier(1), RowBatch([101]))
    assert not rig.acks(1)
    task.put(1, RowBatch([200]))
    task.put(1, END_OF_INPUT)
    assert task.seen(1) == processed
    assert task.caught(1) == [*range(len(processed), 101), 200]
    (_, _, first), *_ = stored(rig.location(1), rig.acks(1), StateKind.IN_FLIGHT)
    assert list(PickledRows(*first[2:]).next().timestamps or ()) == list(range(1000 + len(processed), 1100))


def test_a_forward_input_is_aligned_beside_one_that_is_not(rig: CheckpointRig) -> None:
    task = Single(rig, plan.ForwardPartitioner(), plan.RebalancePartitioner())
    task.out.extend([RowBatch([])] * 8)  # no room
    task.put(1, RowBatch([1]), task.barrier(1), RowBatch([3]))
    task.put(0, RowBatch([2]))
    assert len(task.out) == 8
    task.out.clear()
    task.put(0)
    assert sorted(row for batch in task.out for row in batch.rows) == [1, 2], "what is behind the barrier waits"
    assert not rig.acks(1)
    task.put(0, RowBatch([4]), task.barrier(1), RowBatch([5]))
    assert sorted(task.seen(1)) == [1, 2, 4]
    assert task.caught(1) == []
    position = [type(element) for element in task.out].index(Barrier)
    assert sorted(row for batch in list(task.out)[:position] for row in batch.rows) == [1, 2, 4]


def test_a_record_that_cannot_be_stored_declines_the_checkpoint(rig: CheckpointRig) -> None:
    task = Single(rig, plan.RebalancePartitioner())
    task.out.extend([RowBatch([])] * 8)
    task.put(0, RowBatch([(n for n in [1])]), task.barrier(1))
    rig.turn_until(rig.responded(1, 1))
    (decline,) = rig.declines(1)
    assert decline.reason == DeclineReason.NOT_WRITTEN
    assert "records in flight: cannot be stored" in decline.message


def test_the_end_of_a_channel_does_not_complete_a_recording_that_a_newer_barrier_stopped(rig: CheckpointRig) -> None:
    """The records before the end are in no recording of the older checkpoint: it must not be acknowledged."""
    task = Single(rig, plan.RebalancePartitioner(), plan.RebalancePartitioner())
    task.put(0, task.barrier(1))
    rig.notice(2, False, task.deployment)
    task.put(1, RowBatch([200]), task.barrier(2), RowBatch([201]), END_OF_INPUT)
    rig.turn_until(rig.responded(1, 1))
    assert not rig.acks(1)
    (decline,) = rig.declines(1)
    assert decline.reason == DeclineReason.SUBSUMED
    task.put(0, task.barrier(3), END_OF_INPUT)
    assert sorted(task.seen(3) + task.caught(3)) == [200, 201]
