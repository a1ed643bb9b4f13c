"""Plays the shell around a `CheckpointCoordinator`, and checks after each step what must always hold."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TypeVar

from millstream.core.clock import Instant
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.failures import CheckpointFailureReason
from millstream.jobmanager.checkpoints.model import (
    CheckpointId,
    CompletedCheckpoint,
    SnapshotMetrics,
    SnapshotOptions,
    TaskRef,
    TriggerId,
)
from millstream.jobmanager.checkpoints.pending import Phase
from millstream.jobmanager.checkpoints.policies.requests import Origin
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.topology import Edge, JobTopology, Subtask

E = TypeVar("E")
METRICS = SnapshotMetrics(sync_ms=2, async_ms=5, checkpointed_bytes=10, state_bytes=20)


def topology(**parallelism: int) -> JobTopology:
    """A line of vertices, connected all to all."""
    vertices = [VertexId(v) for v in parallelism]
    edges = [Edge(a, b, "HASH") for a, b in pairwise(vertices)]
    return JobTopology({VertexId(v): p for v, p in parallelism.items()}, edges)


def of(kind: type[E], effects: list[ev.Effect]) -> list[E]:
    return [effect for effect in effects if isinstance(effect, kind)]


def only(kind: type[E], effects: list[ev.Effect]) -> E:
    """The one effect, which is of this kind."""
    (effect,) = effects
    assert isinstance(effect, kind)
    return effect


class CheckpointDriver:
    def __init__(
        self,
        settings: CheckpointSettings,
        job: JobTopology | None = None,
        retained: tuple[CompletedCheckpoint, ...] = (),
        next_id: int = 1,
        coordinated: bool = False,
        union: str = "",
    ) -> None:
        self.settings = settings
        self.union = union
        self.topology = job or topology(source=1, sink=1)
        self.coordinator = CheckpointCoordinator(
            self.topology, settings, retained=retained, next_id=next_id, coordinated=coordinated
        )
        self.restored = bool(retained)
        self.now = 0
        self.ahead = 1_700_000_000_000  # of the wall clock
        self.attempts: dict[Subtask, AttemptId] = {}
        self.finished: set[AttemptId] = set()
        self.ended: set[AttemptId] = set()
        self.generation = 0
        self.started: list[int] = []
        self.completed: list[int] = [c.checkpoint_id for c in retained]
        self.stored: set[int] = {c.checkpoint_id for c in retained}
        self.last_end: int | None = None
        self.writing: dict[int, ev.WriteMetadata] = {}
        self.storing: dict[int, str] = {}
        self.acknowledged: dict[str, int] = {}
        self.discarded: Counter[object] = Counter()
        self.deleted: Counter[object] = Counter()
        self.savepoints: dict[int, set[object]] = {}
        self.asked: set[str] = set()
        self.answered: Counter[str] = Counter()
        self.log: list[ev.Effect] = []
        self.options: dict[int, SnapshotOptions] = {}
        self.stopped: ev.StopOutcome | None = None

    # What the shell does

    @property
    def instant(self) -> Instant:
        return Instant(self.now + self.ahead, self.now)

    def tell(self, event: ev.Event) -> list[ev.Effect]:
        before = {p.id: p for p in self.coordinator.pending}
        effects = self.coordinator.handle(event, self.instant)
        self.log += effects
        for effect in effects:
            self._check(effect)
        ended = set(before) - {p.id for p in self.coordinator.pending}
        if ended:
            self.last_end = self.now
        self._check_new(set(before))
        self.validate()
        return effects

    def run_all(self) -> list[ev.Effect]:
        self.generation += 1
        tasks = []
        for subtask in self.topology.subtasks():
            if subtask not in self.attempts:
                attempt = AttemptId(f"{subtask.vertex_id}-{subtask.index}-{self.generation}")
                self.attempts[subtask] = attempt
                tasks.append(TaskRef(subtask, attempt))
        return self.tell(ev.TasksRunning(tuple(tasks)))

    def attempt(self, vertex: str, index: int = 0) -> AttemptId:
        return self.attempts[Subtask(VertexId(vertex), index)]

    def pass_time(self, milliseconds: int) -> list[ev.Effect]:
        """To the end of the time, waking up whenever the coordinator requests it."""
        effects: list[ev.Effect] = []
        end = self.now + milliseconds
        while (at := self.coordinator.next_wake_up()) is not None and at <= end:
            self.now = at
            effects += self.tell(ev.Tick())
        self.now = end
        return effects + self.tell(ev.Tick())

    def ack(self, checkpoint_id: int, attempt: AttemptId) -> list[ev.Effect]:
        state = f"{checkpoint_id}/{attempt}"
        self.acknowledged[state] = checkpoint_id
        places = [place for place, current in self.attempts.items() if current == attempt]
        union_list = "the union list 'u'" if any(place.vertex_id == self.union for place in places) else ""
        ended = attempt in self.ended
        return self.tell(ev.Acknowledged(CheckpointId(checkpoint_id), attempt, state, METRICS, ended, union_list))

    def ack_all(self, checkpoint_id: int) -> list[ev.Effect]:
        effects: list[ev.Effect] = []
        (pending,) = [p for p in self.coordinator.pending if p.id == checkpoint_id]
        for attempt in pending.expected:
            if attempt not in self.finished and attempt not in pending.snapshots:
                effects += self.ack(checkpoint_id, attempt)
        return effects

    def decline(self, checkpoint_id: int, attempt: AttemptId, reason: CheckpointFailureReason) -> list[ev.Effect]:
        return self.tell(ev.Declined(CheckpointId(checkpoint_id), attempt, reason, "no space left"))

    def metadata_written(self, checkpoint_id: int) -> list[ev.Effect]:
        content = self.writing.pop(checkpoint_id).content
        if content.options.is_savepoint and not content.options.is_stop:
            self.savepoints[checkpoint_id] = {s.state for s in content.snapshots}
        return self.tell(ev.MetadataWritten(CheckpointId(checkpoint_id), f"file:///chk-{checkpoint_id}"))

    def metadata_failed(self, checkpoint_id: int) -> list[ev.Effect]:
        del self.writing[checkpoint_id]
        return self.tell(ev.MetadataFailed(CheckpointId(checkpoint_id), "disk full"))

    def store(self, checkpoint_id: int) -> list[ev.Effect]:
        """From all tasks' acknowledgements until its pointer is being stored."""
        return self.ack_all(checkpoint_id) + self.metadata_written(checkpoint_id)

    def pointer_stored(self, checkpoint_id: int) -> list[ev.Effect]:
        del self.storing[checkpoint_id]
        self.stored.add(checkpoint_id)
        assert not self.completed or self.completed[-1] < checkpoint_id
        self.completed.append(checkpoint_id)
        return self.tell(ev.PointerStored(CheckpointId(checkpoint_id)))

    def pointer_failed(self, checkpoint_id: int) -> list[ev.Effect]:
        del self.storing[checkpoint_id]
        return self.tell(ev.PointerFailed(CheckpointId(checkpoint_id), "ZooKeeper refused"))

    def complete(self, checkpoint_id: int) -> list[ev.Effect]:
        """From wherever it is to its end."""
        effects: list[ev.Effect] = []
        if checkpoint_id in self.preparing:
            effects += self.tell(ev.EnumeratorsSnapshotted(CheckpointId(checkpoint_id), "splits"))
        if all(p.id != checkpoint_id for p in self.coordinator.pending):
            return effects
        effects += self.ack_all(checkpoint_id)
        if checkpoint_id not in self.writing:
            return effects
        effects += self.metadata_written(checkpoint_id)
        return effects + self.pointer_stored(checkpoint_id) if checkpoint_id in self.storing else effects

    def end_inputs(self, *attempts: AttemptId) -> list[ev.Effect]:
        self.ended.update(attempts)
        return self.tell(ev.InputsEnded(attempts))

    def finish(self, *attempts: AttemptId) -> list[ev.Effect]:
        self.ended.update(attempts)
        self.finished.update(attempts)
        return self.tell(ev.TasksFinished(attempts))

    def roll_back(self, subtasks: frozenset[Subtask] | None = None) -> list[ev.Effect]:
        for subtask in list(self.attempts) if subtasks is None else subtasks:
            self.attempts.pop(subtask, None)
        return self.tell(ev.TasksRolledBack(subtasks, "a task failed"))

    def savepoint(self, trigger: str, stop: bool = False, drain: bool = False) -> list[ev.Effect]:
        self.asked.add(trigger)
        return self.tell(ev.SavepointRequested(TriggerId(trigger), "file:///savepoints", stop, drain))

    def checkpoint(self, trigger: str, full: bool = False) -> list[ev.Effect]:
        self.asked.add(trigger)
        return self.tell(ev.CheckpointRequested(TriggerId(trigger), full))

    def stop(self, outcome: ev.StopOutcome) -> list[ev.Effect]:
        self.attempts.clear()
        self.stopped = self.stopped or outcome
        return self.tell(ev.Stopped(outcome))

    # What must hold

    @property
    def preparing(self) -> set[int]:
        return {p.id for p in self.coordinator.pending if p.phase is Phase.PREPARING}

    @property
    def active(self) -> set[AttemptId]:
        return set(self.attempts.values()) - self.finished

    def is_starting_point(self, attempt: AttemptId) -> bool:
        """Whether no barrier reaches the task by itself: it has ended, or all its producers have. All to all only."""
        (place,) = [place for place, current in self.attempts.items() if current == attempt]
        vertices = {e.source for e in self.topology.edges if e.target == place.vertex_id}
        producers = {a for p, a in self.attempts.items() if p.vertex_id in vertices}
        return attempt in self.ended or producers <= self.ended

    def _check(self, effect: ev.Effect) -> None:
        match effect:
            case ev.TriggerBarrier(checkpoint_id, attempts, options):
                assert attempts
                assert set(attempts) <= self.active
                assert all(map(self.is_starting_point, attempts))
                self.options[checkpoint_id] = options
            case ev.SnapshotEnumerators(checkpoint_id):
                assert checkpoint_id in self.preparing
            case ev.WriteMetadata(content):
                self.writing[content.checkpoint_id] = effect
                union = [s.ended for s in content.snapshots if s.task.subtask.vertex_id == self.union]
                assert len(set(union)) <= 1, "the ends of a union list's subtasks come together"
                assert not union or all(place.vertex_id != self.union for place in content.finished)
            case ev.StorePointer(checkpoint_id, pointer):
                assert not self.storing
                self.storing[checkpoint_id] = pointer
            case ev.NotifyComplete(checkpoint_id, attempts):
                assert checkpoint_id in self.stored
                assert attempts
                assert set(attempts) <= self.active
            case ev.NotifyAborted(checkpoint_id, attempts):
                assert checkpoint_id not in self.stored
                assert checkpoint_id not in self.storing
                assert attempts
                assert set(attempts) <= self.active
            case ev.DiscardState(checkpoint_id, states):
                if checkpoint_id in self.writing:
                    content = self.writing[checkpoint_id].content
                    assert effect.pointer is None
                    assert not {s.state for s in content.snapshots} & set(states)
                self.discarded.update(states)
            case ev.DeleteCheckpoint(checkpoint):
                assert checkpoint.owned
                assert not checkpoint.content.options.is_savepoint
                assert self.stopped or checkpoint.checkpoint_id < self.completed[-1]
                self.deleted.update(s.state for s in checkpoint.content.snapshots)
            case (
                ev.SavepointDone(trigger)
                | ev.SavepointFailed(trigger)
                | ev.CheckpointDone(trigger)
                | ev.CheckpointFailed(trigger)
            ):
                self.answered[trigger] += 1
            case ev.ReleasePointer() | ev.FailJob():
                pass

    def _check_new(self, before: set[CheckpointId]) -> None:
        for pending in self.coordinator.pending:
            if pending.id in before:
                continue
            assert not self.started or self.started[-1] < pending.id
            assert all(done < pending.id for done in self.completed)
            self.started.append(pending.id)
            others = [p for p in self.coordinator.pending if p.id < pending.id]
            if not pending.options.is_savepoint:
                assert len(others) < self.settings.max_concurrent
            if pending.request.origin is Origin.PERIODIC and self.last_end is not None:
                assert self.now >= self.last_end + self.settings.min_pause_ms
            assert self.stopped is None
            assert len(self.attempts) == len(list(self.topology.subtasks()))

    def validate(self) -> None:
        coordinator = self.coordinator
        wake_up = coordinator.next_wake_up()
        assert wake_up is None or wake_up > self.now
        assert coordinator.settled == (not self.storing)
        retained = coordinator.retained
        assert [c.checkpoint_id for c in retained] == sorted(c.checkpoint_id for c in retained)
        if self.stopped is None:
            owned = [i for i in self.completed if i not in self.options or not self.options[i].is_savepoint]
            assert sum(c.owned for c in retained) == min(len(owned), self.settings.num_retained) or self.restored
        if coordinator.settled and self.stopped is None and self.completed:
            latest = coordinator.latest_restorable()
            assert latest is not None
            assert latest.checkpoint_id == self.completed[-1]
        places: Counter[object] = Counter()
        for pending in coordinator.pending:
            places.update(s.state for s in pending.snapshots.values())
            if pending.phase is Phase.COLLECTING:
                asked = pending.triggered | set(pending.snapshots)
                assert all(a in asked for a in self.active & set(pending.expected) if self.is_starting_point(a))
            assert pending.deadline_ms > self.now or pending.phase is Phase.STORING
        for checkpoint_id, effect in self.writing.items():
            if checkpoint_id not in {p.id for p in coordinator.pending}:
                places.update(s.state for s in effect.content.snapshots)
        for completed in retained:
            places.update(s.state for s in completed.content.snapshots)
        for states in self.savepoints.values():
            places.update(states)
        places.update(self.discarded)
        places.update(self.deleted)
        for state in self.acknowledged:
            assert places[state] == 1 or self._is_released(state), (state, places[state])
        assert all(count == 1 for count in self.answered.values())
        counts = coordinator.statistics.counts
        assert counts.in_progress == len(coordinator.pending)
        assert counts.total == counts.in_progress + counts.completed + counts.failed

    @classmethod
    def with_history(cls) -> CheckpointDriver:
        """Checkpoint 1 completed, 2 failed, savepoint 3 completed, 4 in progress with one acknowledgement."""
        settings = CheckpointSettings(interval_ms=1000, tolerable_failures=100)
        driver = cls(settings, topology(source=1, sink=2))
        driver.run_all()
        driver.pass_time(1000)
        driver.now += 40
        driver.complete(1)
        driver.pass_time(1000)
        driver.decline(2, driver.attempt("sink", 1), CheckpointFailureReason.CHECKPOINT_DECLINED)
        driver.savepoint("t1")
        driver.complete(3)
        driver.pass_time(1000)
        driver.ack(4, driver.attempt("sink", 1))
        return driver

    def _is_released(self, state: str) -> bool:
        """A savepoint that stopped the job is the user's when its pointer is let go; a suspended job's is another's."""
        options = self.options.get(self.acknowledged[state])
        checkpoint_id = self.acknowledged[state]
        suspended = self.stopped is ev.StopOutcome.SUSPENDED and checkpoint_id in self.stored
        return suspended or (options is not None and options.is_stop and checkpoint_id in self.stored)
