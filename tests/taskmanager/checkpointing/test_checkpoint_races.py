"""The real coordinator and a real worker, with every message, write and step in random order.

Two vertices of bounded sources, of different lengths, feed counts by key, and these a sink. Messages keep their order
in each direction, as on the job manager's sessions; nothing else is ordered. In every order, each checkpoint contains
exactly the records before its barriers, and the job ends, with all records or where a savepoint stopped it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from checkpoint_rig import COUNTED, CheckpointRig, PositionedSource
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from thoroughness import cases
from worker_rig import chain, edge, writing, written

from millstream.core.clock import Instant
from millstream.core.jobs.ids import ChannelId, VertexId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.states import ExecutionState
from millstream.core.keys.key_groups import key_group_of
from millstream.core.messages.checkpoints import CheckpointAck, CheckpointDecline, CommitFailed, InputsEnded
from millstream.core.messages.deployment import InputChannel, InputGate, OutputChannel, ResultPartition, TaskDeployment
from millstream.core.messages.task_manager import TaskUpdate
from millstream.core.snapshot import StateSnapshot, read_rows, read_state
from millstream.core.snapshot.metadata.operator_json import operators_from_json
from millstream.datastream.functions import MapFunction
from millstream.jobmanager.checkpoint_messages import declined
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    SnapshotMetrics,
    TaskRef,
    TriggerId,
)
from millstream.jobmanager.checkpoints.settings import CheckpointingMode, CheckpointSettings
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask
from millstream.taskmanager.worker.checkpointing.writer_thread import SnapshotWritten, write_states

PARALLELISM = {VertexId("a"): 2, VertexId("b"): 1, VertexId("count"): 2, VertexId("sink"): 1}
EDGES = [("a", "count"), ("b", "count"), ("count", "sink")]
TOPOLOGY = JobTopology(PARALLELISM, [Edge(VertexId(s), VertexId(t), "HASH") for s, t in EDGES])
ROWS = {("a", 0): 40, ("a", 1): 4, ("b", 0): 16}
BY_KEY = plan.HashPartitioner(plan.KeySelector(function=str))
STEPS = 20_000


def rows_of(vertex: str, index: int) -> list[str]:
    return [f"word {(n * 7 + index) % 9}" for n in range(ROWS[vertex, index])]


class Committing(MapFunction):
    """Fails to commit now and then, never too often in a row."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._failed = 0

    def map(self, value: Any) -> Any:
        return value

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self._failed < 3 and self._chance.random() < 0.3:
            self._failed += 1
            raise OSError("the broker is away")
        self._failed = 0


class Simulation:
    def __init__(self, seed: int, options: CheckpointSettings, faults: float = 0.05) -> None:
        self.chance = Random(seed)
        self.faults = faults
        self.rig = CheckpointRig(**{"execution.checkpointing.interval": f"{options.interval_ms} ms"})
        self.coordinator = CheckpointCoordinator(TOPOLOGY, options)
        self.to_worker: deque[Callable[[], None]] = deque()
        self.writes: list[Any] = []
        self.metadata: deque[CheckpointContent] = deque()
        self.handled = 0
        self.effects: list[ev.Effect] = []
        self.contents: dict[CheckpointId, CheckpointContent] = {}
        self.finished: set[str] = set()
        worker = self.rig.worker
        worker.write_with(self.writes.append)
        self.tasks = {place: self._task(place) for place in TOPOLOGY.subtasks()}
        self.places = {task.attempt_id: place for place, task in self.tasks.items()}
        for place, task in self.tasks.items():
            self.rig.deploy(task)
            if (key := (str(place.vertex_id), place.index)) in ROWS:
                self.rig.feed(task, rows_of(*key), last=True)

    def _task(self, place: Subtask) -> TaskDeployment:
        vertex, address = str(place.vertex_id), self.rig.address
        numbers = {name: 1000 * n for n, name in enumerate(PARALLELISM)}

        def channel(source: str, producer: int, target: str, consumer: int) -> ChannelId:
            return ChannelId(numbers[source] + 100 * numbers[target] + 10 * producer + consumer + 1)

        spec = edge(BY_KEY)
        gates = [
            InputGate(0, spec, tuple(
                InputChannel(channel(s, n, t, place.index), address, s, producer_subtask=0)
                for n in range(PARALLELISM[VertexId(s)])
            ))
            for s, t in EDGES if t == vertex
        ]  # fmt: skip
        partitions = [
            ResultPartition(0, spec, tuple(
                OutputChannel(channel(s, place.index, t, n), address, t) for n in range(PARALLELISM[VertexId(t)])
            ), max_parallelism=128)
            for s, t in EDGES if s == vertex
        ]  # fmt: skip
        match vertex:
            case "count":
                made = chain(COUNTED, outputs=1, prefix=vertex)
            case "sink":
                made = chain(plan.MapSpec(Committing(self.chance)), writing("races"), prefix=vertex)
            case _:
                made = chain(plan.SourceSpec(PositionedSource(2)), outputs=1, prefix=vertex)
        parallelism = PARALLELISM[place.vertex_id]
        return self.rig.subtask(made, place.index, parallelism, inputs=gates, outputs=partitions)

    # What is random

    def run(self, until: Callable[[], bool]) -> None:
        for _ in range(STEPS):
            if until():
                return
            if self.chance.random() < 0.04:
                self._time_passes()
            elif possible := self._possible():
                self.chance.choice(possible)()
        raise AssertionError(f"the job does not end: {self.rig.all_states()}, {self.coordinator.pending}")

    def _possible(self) -> list[Callable[[], None]]:
        worker = self.rig.worker
        possible: list[Callable[[], None]] = [partial(worker.step, task) for task in worker.tasks.values()]
        possible += [self._write] if self.writes else []
        possible += [self._metadata_is_written] if self.metadata else []
        possible += [lambda: self.to_worker.popleft()()] if self.to_worker else []
        possible += [self._handle] if self.handled < len(self.rig.sent) else []
        return possible

    def _time_passes(self) -> None:
        self.rig.clock.advance(self.chance.choice([0.005, 0.05, 0.3]))
        self.coordinate(ev.Tick())

    def _write(self) -> None:
        write = self.writes.pop(self.chance.randrange(len(self.writes)))
        if write.func is write_states and self.chance.random() < self.faults:
            captured, target, ack, _, services = write.args
            captured.release()
            services.post(SnapshotWritten(ack.attempt_id, target.barrier, ack, error="disk full"))
        else:
            write()
        self.rig.worker.take_mails()

    def _metadata_is_written(self) -> None:
        content = self.metadata.popleft()
        if self.chance.random() < self.faults:
            self.coordinate(ev.MetadataFailed(content.checkpoint_id, "disk full"))
            return
        self.contents[content.checkpoint_id] = content
        self.coordinate(ev.MetadataWritten(content.checkpoint_id, f"pointer {content.checkpoint_id}"))

    def _handle(self) -> None:
        message = self.rig.sent[self.handled]
        self.handled += 1
        match message:
            case TaskUpdate(attempt_id=attempt, state=state):
                if state == ExecutionState.RUNNING:
                    self.coordinate(ev.TasksRunning((TaskRef(self.places[attempt], attempt),)))
                elif state == ExecutionState.FINISHED:
                    self.finished.add(attempt)
                    self.coordinate(ev.TasksFinished((attempt,)))
                assert state != ExecutionState.FAILED, message.failure
            case InputsEnded(attempt_id=attempt):
                self.coordinate(ev.InputsEnded((attempt,)))
            case CommitFailed(attempt_id=attempt, checkpoint_id=number):
                self.coordinate(ev.NotifyFailed(CheckpointId(number), attempt, ""))
            case CheckpointAck(attempt_id=attempt, checkpoint_id=number):
                self.coordinate(ev.Acknowledged(CheckpointId(number), attempt, message.operators, SnapshotMetrics()))
            case CheckpointDecline():
                self.coordinate(declined(message))

    def coordinate(self, event: ev.Event) -> None:
        for effect in self.coordinator.handle(event, Instant.of(self.rig.clock)):
            self.effects.append(effect)
            match effect:
                case ev.TriggerBarrier(number, attempts, options):
                    tasks = [self.tasks[self.places[a]] for a in attempts]
                    kinds = {"savepoint": options.is_savepoint, "full": options.full, "stop": options.stop}
                    self._send(partial(self.rig.trigger, number, *tasks, alignment=options.alignment, **kinds))
                case ev.NotifyComplete(number, attempts):
                    self._send(partial(self.rig.notice, number, True, *(self.tasks[self.places[a]] for a in attempts)))
                case ev.NotifyAborted(number, attempts):
                    self._send(partial(self.rig.notice, number, False, *(self.tasks[self.places[a]] for a in attempts)))
                case ev.WriteMetadata(content):
                    self.metadata.append(content)
                case ev.StorePointer(number):
                    self.coordinate(ev.PointerStored(number))
                case ev.FailJob(message):
                    raise AssertionError(message)

    def _send(self, command: Callable[[], None]) -> None:
        self.to_worker.append(command)

    # What a checkpoint contains

    def stored(self, content: CheckpointContent, place: Subtask, name: str) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        storages = self.rig.worker.storages
        location = self.rig.location(content.checkpoint_id)
        for snapshot in content.snapshots:
            if snapshot.task.subtask != place:
                continue
            assert isinstance(snapshot.state, bytes)
            states: list[StateSnapshot] = [s for o in operators_from_json(snapshot.state, "ack") for s in o.states]
            for state in states:
                for file in state.files if state.name == name else ():
                    rows = read_rows(read_state(storages.at(location), location, state, file), state, unpickle=True)
                    found.update(zip(rows.keys or rows.detail, rows.content, strict=True))
        return found

    def read_before(self, content: CheckpointContent) -> Counter[str]:
        """The records before the barriers, by the positions of the sources."""
        words: Counter[str] = Counter()
        for vertex, index in ROWS:
            splits = list(self.stored(content, Subtask(VertexId(vertex), index), "splits").values())
            rows = rows_of(vertex, index)
            words.update(rows[: splits[0][1]] if splits else rows)
        return words

    def check(self, content: CheckpointContent) -> None:
        read = self.read_before(content)
        for index in range(2):
            place = Subtask(VertexId("count"), index)
            if place not in content.finished:
                mine = {word: n for word, n in read.items() if key_group_of(word, 128) * 2 // 128 == index}
                assert self.stored(content, place, "count") == mine, content.checkpoint_id


PHASES = [Phase.explicit, Phase.reuse, Phase.generate]  # a smaller seed is not a simpler schedule
SETTINGS = st.builds(
    CheckpointSettings,
    interval_ms=st.sampled_from([20, 300, 3_600_000]),
    mode=st.sampled_from(CheckpointingMode),
    timeout_ms=st.sampled_from([5_000, 600_000]),
    max_concurrent=st.integers(1, 3),
    tolerable_failures=st.just(1_000_000),
)


def all_written() -> Counter[str]:
    return Counter(row[0] for row in written("races"))


@settings(max_examples=cases(40), phases=PHASES)
@given(seed=st.integers(0, 2**32), options=SETTINGS)
def test_a_bounded_job_ends_with_consistent_checkpoints(seed: int, options: CheckpointSettings) -> None:
    simulation = Simulation(seed, options)
    try:
        simulation.run(lambda: len(simulation.finished) == len(simulation.tasks))
        for content in simulation.contents.values():
            if options.mode is CheckpointingMode.EXACTLY_ONCE:
                simulation.check(content)
        assert all_written() == sum((Counter(rows_of(*source)) for source in ROWS), Counter())
        completed = {e.checkpoint_id for e in simulation.effects if isinstance(e, ev.NotifyComplete)}
        assert completed, "no task finishes without one"
    finally:
        simulation.rig.close()


@settings(max_examples=cases(40), phases=PHASES)
@given(seed=st.integers(0, 2**32), options=SETTINGS, drain=st.booleans(), after=st.integers(0, 600))
def test_a_stopped_job_ends_where_its_savepoint_is(
    seed: int, options: CheckpointSettings, drain: bool, after: int
) -> None:
    if drain:  # its failure would be a restart, which is not simulated here
        options = replace(options, timeout_ms=600_000)
    simulation = Simulation(seed, options, 0 if drain else 0.05)
    try:
        steps = iter(range(after))
        all_finished = lambda: len(simulation.finished) == len(simulation.tasks)  # noqa: E731  # used twice below
        simulation.run(lambda: next(steps, None) is None or all_finished())
        simulation.coordinate(ev.SavepointRequested(TriggerId("stop"), "memory://", stop=True, drain=drain))
        simulation.run(all_finished)
        simulation.coordinate(ev.Stopped(ev.StopOutcome.FINISHED))
        outcomes = [e for e in simulation.effects if isinstance(e, ev.SavepointDone | ev.SavepointFailed)]
        (outcome,) = outcomes
        if isinstance(outcome, ev.SavepointDone):
            content = simulation.contents[outcome.checkpoint_id]
            simulation.check(content)
            assert all_written() == simulation.read_before(content), "nothing comes behind the savepoint"
        else:
            assert all_written() == sum((Counter(rows_of(*source)) for source in ROWS), Counter())
    finally:
        simulation.rig.close()
