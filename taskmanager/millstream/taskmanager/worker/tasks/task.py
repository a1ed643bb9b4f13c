"""One attempt of one subtask: its inputs, its chain and its outputs, which are opened, ended and closed together.

Owned by the worker's loop. The parts of a task each have their own file: `TaskSteps` passes elements through the chain;
`TaskInput` selects the next element, and `TaskPacing` how much of it; `TaskLife` holds its lifecycle, `TaskCheckpoints`
handles barriers, `TaskCounts` counts records, and `TaskFigures` reports metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from millstream.core.jobs.ids import AttemptId
from millstream.core.jobs.states import ExecutionState, check_task_transition
from millstream.core.logs.origins import Origin
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import END_OF_INPUT, LAST_WATERMARK, Barrier, Batch
from millstream.taskmanager.worker.checkpointing.task_checkpoints import TaskCheckpoints
from millstream.taskmanager.worker.checkpointing.writer_thread import CheckpointServices
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.network.inputs import InputGate
from millstream.taskmanager.worker.network.outputs import ResultPartition
from millstream.taskmanager.worker.network.overtaking import Passage
from millstream.taskmanager.worker.operators.output import Emit
from millstream.taskmanager.worker.state.backend import KeyedStateBackend
from millstream.taskmanager.worker.tasks.chain import OperatorChain
from millstream.taskmanager.worker.tasks.pacing import Outlet
from millstream.taskmanager.worker.tasks.selectors import Selector
from millstream.taskmanager.worker.tasks.task_counts import TaskCounts
from millstream.taskmanager.worker.tasks.task_life import Phase, TaskLife
from millstream.taskmanager.worker.tasks.task_metrics import TaskFigures
from millstream.taskmanager.worker.tasks.task_pacing import TaskPacing
from millstream.taskmanager.worker.tasks.task_steps import TaskSteps


class OperatorMail(Struct, frozen=True):
    """A message from outside of the stream to one operator of a task, by default to the head of the chain."""

    attempt_id: str
    operator_id: str | None
    content: Any


class Task:
    """A running attempt of a subtask."""

    def __init__(
        self, deployment: TaskDeployment, max_rows: int, max_column_rows: int,
        checkpoint_services: CheckpointServices,
    ) -> None:  # fmt: skip
        self.deployment = deployment
        self.origin = Origin(
            deployment.job_id, deployment.job_name, deployment.vertex_id, deployment.task_name, deployment.subtask,
            deployment.attempt,
        )  # fmt: skip
        """What identifies the task in log lines and printed output."""
        self.state = ExecutionState.DEPLOYING
        self.gates: list[InputGate] = []
        self.partitions: list[ResultPartition] = []
        self.keyed_backends: list[KeyedStateBackend] = []
        """Those created for its operators, possibly before there is a chain; closed with the task."""
        self.restored_in_flight: list[tuple[Emit, list[Batch]]] = []
        self._chain: OperatorChain | None = None
        pacing = TaskPacing(self.partitions, max_rows, max_column_rows)
        self.counts = TaskCounts(self.gates, self.partitions, pacing, checkpoint_services.clock.monotonic)
        self.figures = TaskFigures(self, checkpoint_services.clock.monotonic())
        self.steps = TaskSteps(self, pacing, checkpoint_services.clock)
        self.life = TaskLife(checkpoint_services.takes_final)
        self.checkpoints = TaskCheckpoints(self, checkpoint_services)

    def attach(self, chain: OperatorChain, outlet: Outlet) -> None:
        """Gives the task its operators, before it is opened."""
        self._chain = chain
        self.counts.sinks = chain.sinks
        self.steps.attach(chain, outlet)

    def attach_finished(self, selectors: Sequence[Selector]) -> None:
        """In place of operators, if the snapshot marks the task as finished: it only forwards the end of its input.

        Before the end it emits the restored in-flight records, which the selectors of its outputs route.
        """
        self._chain = OperatorChain([], (), selectors=selectors)
        self.steps.input.is_over = not self.gates

    @property
    def attempt_id(self) -> AttemptId:
        """The id of this attempt."""
        return self.deployment.attempt_id

    @property
    def chain(self) -> OperatorChain:
        """The operators."""
        assert self._chain is not None, "the chain is attached before the task is used"
        return self._chain

    @property
    def had_finished(self) -> bool:
        """Whether the restored snapshot marks the task as finished: it takes part in no other snapshot."""
        return not self.chain.operators

    def move_to(self, state: ExecutionState) -> None:
        """Sets the reported execution state; raises if the transition is not allowed."""
        check_task_transition(self.state, state)
        self.state = state

    def open(self) -> None:
        """Opens the operators, emits the in-flight records of the restored snapshot, and grants the first credit."""
        self.life.move_to(Phase.RUNNING)
        self.chain.open()
        for backend in self.keyed_backends:
            backend.hold_restored()
        for emit, batches in self.restored_in_flight:
            for batch in batches:
                emit(batch)
        self.restored_in_flight.clear()
        for gate in self.gates:
            gate.start()

    def deliver(self, mail: OperatorMail) -> Any:
        """Delivers a mail to its operator and returns the operator's result, or None if the operator does not exist."""
        for identity, operator in zip(self.chain.ids, self.chain.operators, strict=True):
            if mail.operator_id in (identity, None):
                result = operator.on_mail(mail.content)
                if operator is self.chain.source:
                    self.steps.wake_up()
                self.checkpoints.commits.look(self.chain.operators)
                return result
        return None

    def finish_operators(self) -> bool:
        """Has the operators emit their remaining output, once: at the end of the input, or for a draining savepoint.

        Returns whether all have; an operator may still wait for results, and this is then to be called again.
        """
        if not self.life.has_finished_operators:
            self.life.has_finished_operators = self.chain.finish()
        return self.life.has_finished_operators

    def emit_barrier(self, barrier: Barrier) -> list[tuple[tuple[str, str], Passage]]:
        """Emits a barrier behind what was emitted before; nothing follows the end. Returns its passages by edge."""
        if self.life.phase is Phase.ENDED:
            return []
        return [(partition.edge, passage) for partition in self.partitions for passage in partition.barrier(barrier)]

    def end(self) -> bool:
        """Emits the end of the stream.

        After a stop-with-savepoint the job continues elsewhere, so operators are not finished.

        Returns whether the end was emitted: while an operator waits for results, it is not.
        """
        is_stopped = self.life.phase is Phase.STOPPED
        if self.had_finished:
            for partition in self.partitions:
                partition.signal(LAST_WATERMARK)
        elif not is_stopped and not self.finish_operators():
            return False
        for partition in self.partitions:
            partition.signal(END_OF_INPUT)
        self.life.ended()
        if not is_stopped:
            self.checkpoints.input_ended()
        return True

    def close(self) -> list[BaseException]:
        """Closes the operators, once, if they were opened, and then their state; returns the errors raised."""
        self.checkpoints.release()
        errors: list[BaseException] = []
        is_open = self.life.is_open
        if self.life.phase is not Phase.CLOSED:
            self.life.move_to(Phase.CLOSED)
        try:
            if is_open:
                errors += self.chain.close()
        finally:  # also if a function that does not return from its close is interrupted
            while self.keyed_backends:
                try:
                    self.keyed_backends.pop().close()
                except TaskInterrupted:
                    raise
                except BaseException as error:
                    errors.append(error)
        return errors
