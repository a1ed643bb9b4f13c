"""Two sink subtasks, the checkpoint coordinator and the stores outside, one step at a time, with crashes between steps.

The coordinator, the sinks' operator and its bookkeeping are real. Everything that one of them does, and everything that
reaches a store, is a step with a number; a crash comes just after a step. What is stored survives, what is in flight
to or from the dead does not. The subtasks read numbers from a source that goes back to the restored position.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.core.clock import Instant
from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier, Batch, RowBatch
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    CompletedCheckpoint,
    SnapshotMetrics,
    TaskRef,
)
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.failover.topology import JobTopology, Subtask
from millstream.taskmanager.testing import GivenElements, OperatorHarness
from millstream.taskmanager.worker.checkpointing.task_commits import TaskCommits
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.tasks.task_life import Phase, TaskLife

SUBTASKS = 2
INTERVAL_MS = 1_000
KINDS = ("job", "task 0", "task 1", "master")

Crashes = Sequence[tuple[int, str]]
"""After which step what crashes, in order."""


class Crash(TaskInterrupted):
    """A process is gone, in the middle of what it did: nothing may catch it."""


@dataclass
class Transaction:
    """In the store that the sinks write to."""

    subtask: int
    attempt: int
    status: str = "open"
    records: list[int] = field(default_factory=list)


class StoreSink(TwoPhaseCommitSink[int]):
    """Transactions are numbers that the store gave out."""

    def __init__(self, world: CommitWorld, subtask: int, attempt: int) -> None:
        self._world = world
        self._subtask = subtask
        self._attempt = attempt

    def _moved(self, transaction: int, status: str) -> None:
        self._world.store[transaction].status = status
        self._world.step(f"transaction {transaction} of {self._subtask} is {status}", self._subtask)

    def begin_transaction(self) -> int:
        store = self._world.store
        store[len(store)] = Transaction(self._subtask, self._attempt)
        transaction = len(store) - 1
        self._moved(transaction, "open")
        return transaction

    def write(self, transaction: int, batch: Batch) -> None:
        assert isinstance(batch, RowBatch)
        assert self._world.store[transaction].status == "open"
        self._world.store[transaction].records += batch.rows

    def pre_commit(self, transaction: int) -> None:
        assert self._world.store[transaction].status == "open"
        self._moved(transaction, "pre-committed")

    def commit(self, transaction: int) -> None:
        assert self._world.store[transaction].status == "pre-committed", "a running task commits once"
        if self._world.failing_commits:
            self._world.failing_commits -= 1
            raise OSError("the store is away")
        self.recover_and_commit(transaction)

    def recover_and_commit(self, transaction: int) -> None:
        assert transaction in self._world.held, "only what a completed checkpoint holds is committed"
        assert self._world.store[transaction].status in ("pre-committed", "committed")
        self._moved(transaction, "committed")

    def abort(self, transaction: int) -> None:
        assert self._world.store[transaction].status in ("open", "aborted")
        self._moved(transaction, "aborted")

    def recover_and_abort(self, transaction: int) -> None:
        """The dead attempt may have continued with it."""
        assert self._world.store[transaction].status != "committed"
        self._moved(transaction, "aborted")

    def abort_leftovers(
        self, known: Sequence[int], known_states: Sequence[Any], failed_savepoints: Collection[int]
    ) -> None:
        for number, transaction in self._world.store.items():
            ours = transaction.subtask == self._subtask and transaction.attempt < self._attempt
            if ours and transaction.status in ("open", "pre-committed") and number not in known:
                self._moved(number, "aborted")


class CommitCalls:
    """The thread on which a subtask commits: a round is a step of its own, and so is its result's way to the task."""

    is_stopped = False

    def __init__(self, task: SinkTask) -> None:
        self._task = task

    def submit(self, call: Callable[[], None]) -> None:
        self._task.world.later(self._task.world.reach, self._task.attempt, lambda task: self._run(call))

    def _run(self, call: Callable[[], None]) -> None:
        call()
        self._task.world.later(self._task.world.reach, self._task.attempt, SinkTask.look)

    def stop(self) -> None:
        """Its process goes on."""


class SinkTask:
    """A source and a sink in one: writes its numbers up to `count`, then waits for a checkpoint that holds the end."""

    def __init__(self, world: CommitWorld, subtask: int, attempt: int, state: bytes | None) -> None:
        self.world = world
        self.subtask = subtask
        self.attempt = AttemptId(f"{subtask}-{attempt}")
        self.position, elements = (0, []) if state is None else pickle.loads(state)
        sink = StoreSink(world, subtask, attempt)
        options = {"execution.checkpointing.interval": "1 s"}
        self._harness = OperatorHarness(
            plan.SinkSpec(sink), options=options, serial_calls=lambda name: CommitCalls(self)
        )
        self.operator = self._harness.operator
        self.operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, elements))
        self._life = TaskLife(awaits_checkpoint=True)
        self._commits = TaskCommits(self._life, self._not_committed)
        self._life.move_to(Phase.RUNNING)
        self.operator.open()

    def work(self) -> None:
        if self.position < self.world.count:
            self.operator.process(RowBatch([self.position]))
            self.position += 1
        elif self._life.phase is Phase.RUNNING:
            self.operator.finish()
            self._life.ended()
            self.world.later(self.world.tell, ev.InputsEnded((self.attempt,)))

    def barrier(self, checkpoint_id: CheckpointId) -> None:
        self.operator.prepare_snapshot(Barrier(checkpoint_id, 0))
        self._life.captured(checkpoint_id, StopMode.NONE)
        state = pickle.dumps((self.position, self.operator.elements(checkpoint_id)[StateKind.SINK_TRANSACTIONS]))
        acknowledged = ev.Acknowledged(checkpoint_id, self.attempt, state, SnapshotMetrics())
        self.world.later(self.world.tell, acknowledged)

    def complete(self, checkpoint_id: CheckpointId) -> None:
        self._commits.completed(checkpoint_id, [self.operator])
        self._end_if_committed()

    def look(self) -> None:
        """A round of commits has ended."""
        self._harness.deliver()
        self._commits.look([self.operator])
        self._end_if_committed()

    def _not_committed(self, checkpoint_id: int, error: Exception) -> None:
        assert isinstance(error.__cause__, OSError), "the store is away now and then, and nothing else fails"
        self.world.later(self.world.tell, ev.NotifyFailed(CheckpointId(checkpoint_id), self.attempt, str(error)))

    def _end_if_committed(self) -> None:
        if self._life.phase is Phase.ENDED and self._life.may_finish and self.operator.is_drained:
            self._life.move_to(Phase.CLOSED)
            self.operator.close()
            self.world.ended(self)


class CommitWorld:
    """`run` it once; `steps` is how many steps that took, `story` what they were.

    With a `pace`, tasks continue and time passes each time that so much was done, though checkpoints are in progress.
    """

    def __init__(
        self, count: int, crashes: Crashes = (), failing_commits: int = 0, concurrent: int = 1, pace: int = 0
    ) -> None:
        self.count = count
        self._pace = pace
        self.failing_commits = failing_commits
        self.steps = 0
        self.story: list[str] = []
        self.store: dict[int, Transaction] = {}
        self.held: set[int] = set()
        self._crashes = deque(crashes)
        self._settings = CheckpointSettings(interval_ms=INTERVAL_MS, max_concurrent=concurrent, tolerable_failures=99)
        self._topology = JobTopology({VertexId("sink"): SUBTASKS}, ())
        self._metadata: dict[str, CheckpointContent] = {}
        self._pointers: list[str] = []
        self._next_id = 1
        self._now = 0
        self._queue: deque[Callable[[], None]] = deque()
        self._tasks: dict[int, SinkTask] = {}
        self._finished: set[int] = set()
        self._waiting = set(range(SUBTASKS))
        self._attempts = [0] * SUBTASKS
        self._crashed_elsewhere = ""
        self._coordinator = self._new_coordinator()

    # The loop

    def run(self) -> CommitWorld:
        for turn in range(1, 2_000):
            if len(self._finished) == SUBTASKS and not self._queue:
                self._verify()
                return self
            if self._pace and turn % self._pace == 0:
                self._go_on()
            self._do(self._queue.popleft() if self._queue else self._idle)
        raise AssertionError("the job does not end")

    def _do(self, action: Callable[[], None]) -> None:
        crashed = ""
        try:
            action()
        except Crash as crash:
            crashed = str(crash)
        crashed, self._crashed_elsewhere = crashed or self._crashed_elsewhere, ""
        if crashed:
            self._crash(crashed)

    def _idle(self) -> None:
        """Nothing is in flight, so what will be restored is known."""
        if self._waiting:
            self._start(min(self._waiting))
        else:
            self._go_on()

    def _go_on(self) -> None:
        for task in list(self._tasks.values()):
            self.later(self.reach, task.attempt, SinkTask.work)
        self._now += INTERVAL_MS
        self.later(self.tell, ev.Tick())

    def later(self, call: Callable[..., None], *arguments: Any) -> None:
        self._queue.append(lambda: call(*arguments))

    def step(self, what: str, subtask: int | None = None) -> None:
        """Something was done, by a subtask or by the coordinator."""
        self.steps += 1
        self.story.append(f"{self.steps}: {what}")
        if self._crashes and self._crashes[0][0] == self.steps:
            kind = self._crashes.popleft()[1]
            self.story.append(f"  crash of {kind}")
            if subtask is None or kind in ("job", f"task {subtask}"):
                raise Crash(kind)
            self._crashed_elsewhere = kind

    # Crashes and restarts

    def _crash(self, kind: str) -> None:
        if kind == "master":
            self._queue.clear()
            self._tasks.clear()
            self._finished.clear()
            self._waiting = set(range(SUBTASKS))
            self._coordinator = self._new_coordinator()
            return
        dead = set(range(SUBTASKS)) - self._finished if kind == "job" else {int(kind[-1])} - self._finished
        for subtask in dead:
            self._tasks.pop(subtask, None)
        self._waiting |= dead
        places = frozenset(Subtask(VertexId("sink"), subtask) for subtask in dead)
        self.later(self.tell, ev.TasksRolledBack(places, f"{kind} crashed"))

    def _new_coordinator(self) -> CheckpointCoordinator:
        retained = [CompletedCheckpoint(self._metadata[pointer], pointer) for pointer in self._pointers]
        return CheckpointCoordinator(self._topology, self._settings, retained=retained, next_id=self._next_id)

    def _start(self, subtask: int) -> None:
        latest = self._coordinator.latest_restorable()
        place = Subtask(VertexId("sink"), subtask)
        state: Any = None
        over = latest is not None and place in latest.content.finished
        if latest is not None:
            state = next((s.state for s in latest.content.snapshots if s.task.subtask == place), None)
        self._attempts[subtask] += 1
        if over:
            attempt = AttemptId(f"{subtask}-{self._attempts[subtask]}")
            self._finished.add(subtask)
            self.later(self.tell, ev.TasksRunning((TaskRef(place, attempt),)))
            self.later(self.tell, ev.TasksFinished((attempt,)))
        else:
            task = SinkTask(self, subtask, self._attempts[subtask], state)
            self._tasks[subtask] = task
            self.later(self.tell, ev.TasksRunning((TaskRef(place, task.attempt),)))
        self._waiting.discard(subtask)

    def ended(self, task: SinkTask) -> None:
        del self._tasks[task.subtask]
        self._finished.add(task.subtask)
        self.later(self.tell, ev.TasksFinished((task.attempt,)))

    # The coordinator's shell

    def tell(self, event: ev.Event) -> None:
        for effect in self._coordinator.handle(event, Instant(self._now, self._now)):
            self.later(self._carry_out, effect)
        for pending in self._coordinator.pending:
            self._next_id = max(self._next_id, pending.id + 1)
        self.step(f"the coordinator handled {type(event).__name__}")

    def _carry_out(self, effect: ev.Effect) -> None:
        match effect:
            case ev.TriggerBarrier(checkpoint_id, attempts):
                self._for_tasks(attempts, lambda task: task.barrier(checkpoint_id))
            case ev.NotifyComplete(checkpoint_id, attempts):
                self._for_tasks(attempts, lambda task: task.complete(checkpoint_id))
            case ev.WriteMetadata(content):
                pointer = f"chk-{content.checkpoint_id}"
                self._metadata[pointer] = content
                self.later(self.tell, ev.MetadataWritten(content.checkpoint_id, pointer))
                self.step(f"the metadata of {pointer} is written")
            case ev.StorePointer(checkpoint_id, pointer):
                self._pointers.append(pointer)
                self.held |= self._transactions_of(self._metadata[pointer])
                self.later(self.tell, ev.PointerStored(checkpoint_id))
                self.step(f"the pointer to {pointer} is stored")
            case ev.DeleteCheckpoint(checkpoint):
                self._pointers.remove(checkpoint.pointer)
                self.step(f"the pointer to {checkpoint.pointer} is removed")
                del self._metadata[checkpoint.pointer]
                self.step(f"{checkpoint.pointer} is deleted")
            case ev.FailJob(message):
                raise AssertionError(message)

    def _for_tasks(self, attempts: Sequence[AttemptId], call: Callable[[SinkTask], None]) -> None:
        for attempt in attempts:
            self.later(self.reach, attempt, call)

    def reach(self, attempt: AttemptId, call: Callable[[SinkTask], None]) -> None:
        for task in [task for task in self._tasks.values() if task.attempt == attempt]:
            call(task)

    @staticmethod
    def _transactions_of(content: CheckpointContent) -> set[int]:
        states = [pickle.loads(snapshot.state) for snapshot in content.snapshots if isinstance(snapshot.state, bytes)]
        return {transaction for _, elements in states for kind, transaction in elements if kind == "pre-committed"}

    # What must hold

    def _verify(self) -> None:
        for subtask in range(SUBTASKS):
            mine = [transaction for transaction in self.store.values() if transaction.subtask == subtask]
            visible = [record for found in mine if found.status == "committed" for record in found.records]
            assert visible == list(range(self.count)), f"subtask {subtask} shows {visible}"
            assert {transaction.status for transaction in mine} <= {"committed", "aborted"}
