"""One attempt of one subtask: its inputs, its chain and its outputs, which are opened, ended and closed together.

Owned by the worker's loop. The parts of a task each have their own file: `TaskSteps` takes elements through the chain,
with `TaskInput` that says which and `TaskPacing` that says how much; `TaskLife` says where the task is in its life,
`TaskCheckpoints` what becomes of barriers, `TaskCounts` counts, and `TaskFigures` shows it as metrics.
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
    """For one operator of a task, from outside of the stream. Without an operator: for the head of the chain."""

    attempt_id: str
    operator_id: str | None
    content: Any


class Task:
    """A running attempt."""

    def __init__(
        self, deployment: TaskDeployment, max_rows: int, max_column_rows: int,
        checkpoint_services: CheckpointServices,
    ) -> None:  # fmt: skip
        self.deployment = deployment
        self.origin = Origin(
            deployment.job_id, deployment.job_name, deployment.vertex_id, deployment.task_name, deployment.subtask,
            deployment.attempt,
        )  # fmt: skip
        """Of what it logs and prints."""
        self.state = ExecutionState.DEPLOYING
        self.gates: list[InputGate] = []
        self.partitions: list[ResultPartition] = []
        self.keyed_backends: list[KeyedStateBackend] = []
        """Those that were made for its operators, which may be before there is a chain; closed with the task."""
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
        """In place of operators, when the snapshot holds the task as finished: it only passes the end on.

        And, before it, what was on its way to others, which the selectors of its outputs say.
        """
        self._chain = OperatorChain([], (), selectors=selectors)
        self.steps.input.is_over = not self.gates

    @property
    def attempt_id(self) -> AttemptId:
        """Which attempt it is."""
        return self.deployment.attempt_id

    @property
    def chain(self) -> OperatorChain:
        """The operators."""
        assert self._chain is not None, "the chain is attached before the task is used"
        return self._chain

    @property
    def had_finished(self) -> bool:
        """Whether the task is restored from a snapshot that holds it as finished: it takes part in no other."""
        return not self.chain.operators

    def move_to(self, state: ExecutionState) -> None:
        """What is reported of the task's life; a checked step."""
        check_task_transition(self.state, state)
        self.state = state

    def open(self) -> None:
        """Opens the operators, emits what was on its way when the task was stored, and grants the first credit."""
        self.life.move_to(Phase.RUNNING)
        self.chain.open()
        for emit, batches in self.restored_in_flight:
            for batch in batches:
                emit(batch)
        self.restored_in_flight.clear()
        for gate in self.gates:
            gate.start()

    def deliver(self, mail: OperatorMail) -> Any:
        """Hands a mail to its operator; answers what that answers, or None when there is none."""
        for identity, operator in zip(self.chain.ids, self.chain.operators, strict=True):
            if mail.operator_id in (identity, None):
                answer = operator.on_mail(mail.content)
                if operator is self.chain.source:
                    self.steps.wake_up()
                return answer
        return None

    def finish_operators(self) -> bool:
        """Has the operators emit what is left, once: at the end of the input, or when a savepoint drains the job.

        Answers whether they have: one may wait for results, and is to be asked again.
        """
        if not self.life.has_finished_operators:
            self.life.has_finished_operators = self.chain.finish()
        return self.life.has_finished_operators

    def emit_barrier(self, barrier: Barrier) -> list[tuple[tuple[str, str], Passage]]:
        """Sends a barrier on, behind what was emitted; nothing follows the end. Answers its passages by edge."""
        if self.life.phase is Phase.ENDED:
            return []
        return [(partition.edge, passage) for partition in self.partitions for passage in partition.barrier(barrier)]

    def end(self) -> bool:
        """Sends the end on. A task that a savepoint stopped goes on elsewhere, so its operators are not finished.

        Answers whether it has: while an operator waits for results, the end is yet to come.
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
        """Closes the operators, once, when they were opened, and then their state; answers what went wrong."""
        self.checkpoints.release()
        errors: list[BaseException] = []
        is_open = self.life.is_open
        if self.life.phase is not Phase.CLOSED:
            self.life.move_to(Phase.CLOSED)
        try:
            if is_open:
                errors += self.chain.close()
        finally:  # also when a function that does not end its close is interrupted
            while self.keyed_backends:
                try:
                    self.keyed_backends.pop().close()
                except TaskInterrupted:
                    raise
                except BaseException as error:
                    errors.append(error)
        return errors
