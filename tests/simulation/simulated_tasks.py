"""The tasks of simulated slot workers: records go through them, from the splits of a source to a sink that commits.

What a task decides is decided by the product's machines: `BarrierAligner`, `TaskLife`, the reader of the source, the
operator of the sink, the timers of the heap, and the rules by which state is restored. Here is only what connects them,
as `TaskCheckpoints` and the task's steps do. A task takes what has arrived at once, or is slow.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, assert_never

from inputs import Kind, Row, Token
from ledger import COUNTING
from simulated_channels import DataPlane, Element, Input, Output, Recording
from simulated_sinks import sink_operator
from simulated_sources import ReaderContext, SimulatedReader
from simulated_states import Captured, Restored, write
from story import must

from millstream.core.jobs.failure_kinds import FailureKind
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.jobs.states import ExecutionState
from millstream.core.keys.key_groups import key_group_range
from millstream.core.messages import sources as src
from millstream.core.messages import task_manager as tm
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CommitFailed,
    DeclineReason,
    InputsEnded,
)
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import Barrier, EndOfInput, RowBatch
from millstream.core.records.types import INT, LONG
from millstream.core.snapshot.tables.table import StateTypes
from millstream.datastream.connectors.base import PollStatus
from millstream.taskmanager.testing import GivenElements
from millstream.taskmanager.worker.checkpointing import alignment as al
from millstream.taskmanager.worker.checkpointing.task_commits import TaskCommits
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.state.address import Address
from millstream.taskmanager.worker.state.capturing.captured import StateDeclaration
from millstream.taskmanager.worker.state.heap.timers import HeapTimers
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.tasks.task_life import Phase, TaskLife

if TYPE_CHECKING:
    from simulated_children import SimulatedWorker

_MOST_ROWS = 1
_PACES = (0.0, 0.3, 0.8)
_TIMERS = StateDeclaration("timers", StateKind.TIMERS, StateTypes(key=INT, namespace=LONG))
_FAILS_AFTER_CHECKPOINT = 0.1  # of tasks: a restore from the checkpoint that was just completed finds most


class SimulatedTask:
    """One attempt."""

    def __init__(
        self, deployment: TaskDeployment, worker: SimulatedWorker, data_plane: DataPlane, checkpoints: bool
    ) -> None:
        self.state = ExecutionState.DEPLOYING
        self.worker = worker
        self.deployment = deployment
        self.outputs = [Output(partition, worker.world) for partition in deployment.outputs]
        name = worker.process.name
        self._inputs = {c.channel_id: Input(c, name, gate.spec) for gate in deployment.inputs for c in gate.channels}
        self._data_plane = data_plane
        self._world = worker.world
        self._given = data_plane.ledger.output(deployment.job_id).given
        self._life = TaskLife(checkpoints)
        self._had_finished = False
        self._is_stepping = False
        self._pace = self._world.random.choice(_PACES) * self._world.scale
        self._again: list[tuple[Row, ...]] = []
        # Checkpoints
        overtakable = [i.channel_id for i in self._inputs.values() if i.may_be_overtaken]
        self._aligner = al.BarrierAligner(self._inputs, overtakable)
        self._newest = 0
        self._caught: dict[int, tuple[Barrier, Captured, list[tuple[Input, Recording]]]] = {}
        self._writing: set[int] = set()
        self._given_up: set[int] = set()
        # What it consists of
        self._reader = self._new_reader() if not self._inputs else None
        work = self._world.random.choice(data_plane.work) if self._world.has_mishaps else data_plane.work[0]
        self._read_rate = self._given.splits * self._given.length / _MOST_ROWS / work / deployment.parallelism
        self._counts: dict[int, int] | None = {} if deployment.chain == COUNTING else None
        self._timers = self._new_timers() if self._counts is not None else None
        self._commits = TaskCommits(self._life, self._commit_failed)
        self._sink = None
        if not self.outputs:
            self._sink = sink_operator(
                self._world, data_plane.ledger, deployment, checkpoints, self._call_later, self._mail_later
            )

    def _new_reader(self) -> SimulatedReader:
        return SimulatedReader(ReaderContext(self._request_split), self._given)

    def _new_timers(self) -> HeapTimers:
        deployment = self.deployment
        owned = key_group_range(deployment.subtask, deployment.max_parallelism, deployment.parallelism)
        return HeapTimers(_TIMERS, KeyGroupIndex(deployment.max_parallelism, owned), Address())

    # Its life

    def start(self) -> None:
        deployment, ledger = self.deployment, self._data_plane.ledger
        ledger.deployed(deployment)
        for source in self._inputs.values():
            self._data_plane.register(source, self)
        self.to(ExecutionState.INITIALIZING)
        try:
            restored = Restored(self._data_plane.disk, deployment)
            self._had_finished = restored.had_finished
            self._again = restored.in_flight()
            if not restored.had_finished:
                self._restore(restored)
        except FileNotFoundError as error:
            job_id, place = deployment.job_id, (deployment.vertex_id, deployment.subtask)
            is_current = ledger.is_current(job_id, place, deployment.attempt)
            must(not is_current, f"job {job_id} restores from a deleted checkpoint: {error}", job_id)
            self.fail(f"FileNotFoundError: {error}")
            return
        self.worker.later(0.01, self._run)

    def _restore(self, restored: Restored) -> None:
        """Commits what the checkpoint holds; what came later in the dead attempts' transactions is never committed."""
        if self._counts is not None and self._timers is not None:
            self._counts.update(restored.keyed(StateKind.VALUE))
            timers = restored.keyed(StateKind.TIMERS)
            tokens = [token for token, _ in timers]
            self._timers.processing.register_all([at for _, at in timers], [t.key for t in tokens], tokens)
        if self._sink is not None:
            kind = StateKind.SINK_TRANSACTIONS
            if restored.is_any:
                self._sink.restore(GivenElements(kind, restored.own(kind), restored.everyones(kind)))
            self._sink.open()
        if self._reader is not None:
            self._start_reader(self._reader, restored)

    def _start_reader(self, reader: SimulatedReader, restored: Restored) -> None:
        splits = restored.own(StateKind.SPLITS)
        if not self._is_enumerated:  # all splits are dealt out from the beginning
            if not restored.is_any:
                splits = self._given.whole()[self.deployment.subtask :: self.deployment.parallelism]
            reader.notify_no_more_splits()
        if splits:
            reader.add_splits(splits)

    @property
    def _is_enumerated(self) -> bool:
        return self.deployment.task_name.startswith("source")

    def to(self, state: ExecutionState, failure: TaskFailure | None = None) -> None:
        """Reports; nothing when it has ended."""
        if not self.state.is_terminal:
            self.state = state
            update = tm.TaskUpdate(self.worker.allocation_id, self.deployment.attempt_id, state, failure)
            self.worker.say(update)

    def fail(self, exception: str, kind: FailureKind = FailureKind.ORDINARY) -> None:
        self.to(ExecutionState.FAILED, TaskFailure(exception=exception, signature=exception, kind=kind))

    def _run(self) -> None:
        if self.state.is_terminal:
            return
        self.to(ExecutionState.RUNNING)
        for rows in self._again:
            self._emit(rows)
        if self._had_finished:
            self._send_all(EndOfInput())
            self.to(ExecutionState.FINISHED)
            return
        self._life.move_to(Phase.RUNNING)
        if self._timers is not None:
            self._wait_for_timers()
        if self._reader is not None:
            if self._is_enumerated:
                self._to_enumerator(src.Registered())
            self._reader.start()
            self._read_later()
        for source in self._inputs.values():
            for element in [element for element in source.queue if isinstance(element, Barrier)]:
                self._announced(source, element)
        self._step_later()

    def _end_if_over(self) -> None:
        """All input was handled: what is left is emitted, and then the end."""
        if self._life.phase is not Phase.RUNNING or not all(source.has_ended for source in self._inputs.values()):
            return
        self._fire_timers(1 << 62)
        if self._sink is not None:
            self._sink.finish()
        self._life.ended()
        self._send_all(EndOfInput())
        if not self._life.may_finish:
            self.worker.say(InputsEnded(self.worker.allocation_id, self.deployment.attempt_id))
        self._end_if_committed()

    # Sources

    def _request_split(self) -> None:
        if self._is_enumerated:
            self._to_enumerator(src.SplitRequest("host"))

    def _to_enumerator(self, kind: src.Registered | src.SplitRequest) -> None:
        place = (self.deployment.job_id, self.deployment.vertex_id, self.deployment.subtask)
        self.worker.say(src.ReaderEvent(*place, kind, self.deployment.attempt_id))

    def from_enumerator(self, kind: src.Splits | src.NoMoreSplits | src.Custom) -> None:
        if self._reader is None or self.state is not ExecutionState.RUNNING:
            return
        match kind:
            case src.Splits(splits):
                self._reader.add_splits(pickle.loads(splits))
            case src.NoMoreSplits():
                self._reader.notify_no_more_splits()
            case src.Custom():
                raise AssertionError("the enumerator sends no such message")
        self._read_later()

    def _read_later(self) -> None:
        if not self._is_stepping:
            self._is_stepping = True
            self.worker.later(self._world.random.expovariate(self._read_rate), self._read)

    def _read(self) -> None:
        self._is_stepping = False
        if self._reader is None or self._life.phase is not Phase.RUNNING or self.state.is_terminal:
            return
        match self._reader.poll_next(self._world.random.randint(1, _MOST_ROWS)):
            case RowBatch() as batch:
                self._emit(tuple(batch.rows))
                self._read_later()
            case PollStatus.END_OF_INPUT:
                self._end_if_over()

    # Records

    def received(self, source: Input, element: Element) -> None:
        """What has arrived is in the queue of its channel."""
        if self.state is not ExecutionState.RUNNING or not self.worker.is_alive or self._had_finished:
            return
        if isinstance(element, Barrier):
            self._announced(source, element)
        if source.recordings:
            self._settle()
        self._step_later()

    def _step_later(self) -> None:
        if self._is_stepping or not any(source.is_ready for source in self._inputs.values()):
            return
        if self._pace:
            self._is_stepping = True
            self.worker.later(self._world.random.random() * self._pace, self._step)
        else:
            while self._take():
                pass

    def _step(self) -> None:
        self._is_stepping = False
        if self.state is ExecutionState.RUNNING and self._take():
            self._step_later()

    def _take(self) -> bool:
        """One element of any channel that is not blocked; whether there was one."""
        ready = [source for source in self._inputs.values() if source.is_ready]
        if not ready or self.state.is_terminal:
            return False
        source = ready[0] if len(ready) == 1 else self._world.random.choice(ready)
        match source.queue.popleft():
            case Barrier() as barrier:
                self._apply(self._aligner.received(source.channel_id, barrier))
            case EndOfInput():
                source.has_ended = True
                self._apply(self._aligner.ended(source.channel_id))
                self._end_if_over()
            case rows:
                self._emit(tuple(map(self._counted, rows)) if self._counts is not None else rows)
        return True

    def _counted(self, row: Row) -> Row:
        counts, timers, token = self._counts, self._timers, row.token
        assert counts is not None
        assert timers is not None
        count = counts[token.key] = counts.get(token.key, 0) + 1
        if token.has_timer:
            at = self._world.clock.now_ms() + int(self._world.up_to(1_500))
            timers.processing.register_all([at], [token.key], [token._replace(kind=Kind.TIMED)])
            self._wait_for_timers()
        return Row(token, count)

    def _wait_for_timers(self) -> None:
        assert self._timers is not None
        at = self._timers.processing.next_timestamp()
        if at is not None:
            self.worker.later(max(0.0, (at - self._world.clock.now_ms()) / 1000), self._on_time)

    def _on_time(self) -> None:
        if self._life.phase is Phase.RUNNING and not self.state.is_terminal:
            self._fire_timers(self._world.clock.now_ms())

    def _fire_timers(self, until: int) -> None:
        if self._timers is not None:
            rows = tuple(Row(timer.namespace) for timer in self._timers.processing.due(until))
            if rows:
                self._emit(rows)

    def _emit(self, rows: tuple[Row, ...]) -> None:
        if self._sink is not None:
            self._sink.process(RowBatch(list(rows)))
        for output in self.outputs:
            by_link: dict[int, list[Row]] = {}
            for row in rows:
                by_link.setdefault(output.place(row), []).append(row)
            for number, chosen in by_link.items():
                self._data_plane.send(self, output.links[number], tuple(chosen))

    def _send_all(self, element: Element) -> None:
        for output in self.outputs:
            for link in output.links:
                self._data_plane.send(self, link, element)

    # Checkpoints

    def triggered(self, barrier: Barrier) -> None:
        """By the coordinator."""
        if barrier.checkpoint_id <= self._newest or self._had_finished or self.state is not ExecutionState.RUNNING:
            return
        if self._life.phase is Phase.ENDED or not self._inputs:
            self._snapshot(barrier)
        else:
            self._act(self._aligner.received(al.COORDINATOR, barrier))

    def _announced(self, source: Input, barrier: Barrier) -> None:
        """A barrier that has to wait behind records may overtake them, now or when it is old enough."""
        if barrier.may_overtake and source.queue[0] is not barrier:
            self._apply(self._aligner.announced(barrier))
            at = self._aligner.next_timeout
            if at is not None:
                self.worker.later(max(0.0, (at - self._world.clock.now_ms()) / 1000), self._tick)

    def _tick(self) -> None:
        if self.state is ExecutionState.RUNNING:
            self._act(self._aligner.tick(self._world.clock.now_ms()))

    def _act(self, actions: list[al.Action]) -> None:
        """Between two elements: channels may be taken from again afterwards."""
        self._apply(actions)
        self._step_later()

    def _apply(self, actions: list[al.Action]) -> None:
        for action in actions:
            match action:
                case al.Block(channel_id):
                    self._inputs[channel_id].is_blocked = True
                case al.Unblock():
                    for source in self._inputs.values():
                        source.is_blocked = False
                case al.TakeSnapshot(barrier, recorded):
                    self._snapshot(barrier, recorded)
                case al.AllDelivered(number):
                    self._write_later(number)
                case al.Abandon(number, reason):
                    if reason != "aborted":
                        self._give_up(number)
                        self._decline(number, DeclineReason.SUBSUMED, reason)
                case never:
                    assert_never(never)

    def _snapshot(self, barrier: Barrier, recorded: frozenset[int] = frozenset()) -> None:
        number = self._newest = barrier.checkpoint_id
        self._data_plane.ledger.takes(self.deployment.job_id, barrier)
        self._life.captured(number, barrier.stop)
        fails = self._world.mishap(0.03)
        if fails:
            self._decline(number, DeclineReason.NOT_WRITTEN, "no space left on device")
        else:
            captured = self._capture(barrier)
            recordings = [(self._inputs[channel], self._inputs[channel].record(number)) for channel in sorted(recorded)]
            self._caught[number] = barrier, captured, recordings
        if self._life.phase is not Phase.ENDED:
            self._send_all(barrier)
        if not fails and not recorded:
            self._write_later(number)
        elif recorded:
            self._settle()

    def _capture(self, barrier: Barrier) -> Captured:
        states: dict[StateKind, object] = {}
        number = barrier.checkpoint_id
        if self._sink is not None:
            self._sink.prepare_snapshot(barrier)
            states |= self._sink.elements(number)
        if self._reader is not None:
            states[StateKind.SPLITS] = self._reader.snapshot_state(number)
        if self._counts is not None and self._timers is not None:
            states[StateKind.VALUE] = dict(self._counts)
            states[StateKind.TIMERS] = _timers_of(self._timers)
        return Captured(states)

    def _settle(self) -> None:
        """Recordings that are complete, or never will be."""
        for number, (_, _, recordings) in list(self._caught.items()):
            for source, recording in recordings:
                if recording.is_in_vain:
                    self._apply(self._aligner.aborted(number))
                    self._give_up(number)
                    self._decline(number, DeclineReason.SUBSUMED, "a barrier of a newer checkpoint came first")
                    break
                if recording.is_complete:
                    self._apply(self._aligner.delivered(source.channel_id, number))

    def _write_later(self, number: int) -> None:
        """All that the checkpoint takes in is there."""
        barrier, captured, recordings = self._caught.pop(number)
        for source, recording in recordings:
            found = captured.in_flight.setdefault(source.producer, [])
            subtasks = (source.producer_subtask, self.deployment.subtask)
            found += ((*subtasks, 0, rows) for rows in recording.batches)
        self._writing.add(number)
        ended = self._life.phase is Phase.ENDED
        self.worker.later(self._world.up_to(0.2), self._written, barrier, captured, ended)

    def _written(self, barrier: Barrier, captured: Captured, ended: bool) -> None:
        number = barrier.checkpoint_id
        self._writing.discard(number)
        if number not in self._given_up:
            handles = write(self._data_plane.disk, self.deployment, barrier.location, captured)
            place = (self.worker.allocation_id, self.deployment.attempt_id)
            self.worker.say(CheckpointAck(*place, number, handles, ended=ended, unaligned=barrier.unaligned))
        self._end_if_committed()

    def _give_up(self, number: int) -> None:
        self._caught.pop(number, None)
        if number in self._writing:
            self._given_up.add(number)

    def _decline(self, number: int, reason: DeclineReason, message: str) -> None:
        place = (self.worker.allocation_id, self.deployment.attempt_id)
        self.worker.say(CheckpointDecline(*place, number, reason, message))

    def completed(self, checkpoint_id: int) -> None:
        """What it holds is committed. The task is finished when it holds its end."""
        if self.state.is_terminal or self._had_finished:
            return
        if not self._commits_go_on(lambda operators: self._commits.completed(checkpoint_id, operators)):
            return
        if self._world.mishap(_FAILS_AFTER_CHECKPOINT):
            self.worker.later(self._world.up_to(0.2), self.fail, "ValueError: bad")
        self._end_if_committed()

    def _commits_go_on(self, call: Callable[[list[Any]], object]) -> bool:
        """Whether the task survived what it was told of its commits."""
        try:
            call([self._sink] if self._sink is not None else [])
        except OperatorError as error:
            if isinstance(error.__cause__, AssertionError):
                raise error.__cause__ from None
            self.fail(str(error))
            return False
        return True

    def _commit_failed(self, checkpoint_id: int, error: Exception) -> None:
        if isinstance(error.__cause__, AssertionError):
            raise error
        place = (self.worker.allocation_id, self.deployment.attempt_id)
        self.worker.say(CommitFailed(*place, checkpoint_id, str(error)))

    def _call_later(self, call: Callable[[], None]) -> None:
        self.worker.later(self._world.up_to(0.5), call)

    def _mail_later(self, mail: Any) -> None:
        self.worker.later(self._world.up_to(0.05), self._committed, mail)

    def _committed(self, mail: Any) -> None:
        """A round of commits has ended."""
        sink = self._sink
        if sink is None or self.state.is_terminal:
            return
        if self._commits_go_on(lambda operators: sink.on_mail(mail)) and self._commits_go_on(self._commits.look):
            self._end_if_committed()

    def _end_if_committed(self) -> None:
        is_drained = self._sink is None or self._sink.is_drained
        if self._life.phase is Phase.ENDED and self._life.may_finish and is_drained and not self._writing:
            self.to(ExecutionState.FINISHED)

    def aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was given up."""
        if self.state.is_terminal or self._had_finished:
            return
        self._life.aborted(checkpoint_id)
        self._give_up(checkpoint_id)
        if self._inputs:
            self._act(self._aligner.aborted(checkpoint_id))


def _timers_of(timers: HeapTimers) -> dict[Token, int]:
    """When each fires."""
    found: dict[Token, int] = {}
    for at, bucket in timers.processing.buckets.items():
        for _, token in bucket if isinstance(bucket, dict) else (bucket,):
            found[token] = at
    return found
