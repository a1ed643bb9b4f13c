"""The sinks of simulated jobs: the product's operator of two-phase commit, with a sink that writes to the `Ledger`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any

from ledger import JobOutput, Ledger, Transaction
from story import Violation
from world import World

from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.taskmanager.worker.operators.sinks.committing_sink import CommittingSinkOperator

_COMMIT_FAILS = 0.02


class LedgerSink(TwoPhaseCommitSink[Transaction]):
    """Of one attempt."""

    def __init__(self, world: World, ledger: Ledger, deployment: TaskDeployment) -> None:
        self._world = world
        self._ledger = ledger
        self._output: JobOutput = ledger.output(deployment.job_id)
        self._place = (deployment.vertex_id, deployment.subtask)
        self._attempt = deployment.attempt
        self.violation: Violation | None = None
        """Of a commit: its operator takes it for an outage, and would repeat the commit."""

    def begin_transaction(self) -> Transaction:
        return self._output.begin(self._place, self._attempt)

    def write(self, transaction: Transaction, batch: Batch) -> None:
        assert isinstance(batch, RowBatch)
        transaction.rows += batch.rows

    def pre_commit(self, transaction: Transaction) -> None:
        """One that the next attempt has aborted stays so: this one is dead, and does not know."""
        if transaction.status == "open":
            transaction.status = "pre-committed"

    def commit(self, transaction: Transaction) -> None:
        if self._output.takes_checkpoints and self._world.mishap(_COMMIT_FAILS):
            raise OSError("the system that the sink writes to is away")
        if not self._output.takes_checkpoints and transaction.status == "aborted":
            raise OSError("a later attempt has aborted the transaction: this one is dead, and does not know")
        try:
            self.recover_and_commit(transaction)
        except Violation as violation:
            self.violation = violation
            raise

    def recover_and_commit(self, transaction: Transaction) -> None:
        self._ledger.commit(self._output.job_id, transaction)

    def abort(self, transaction: Transaction) -> None:
        self._output.abort(transaction)

    def recover_and_abort(self, transaction: Transaction) -> None:
        self._output.abort(transaction)

    def abort_leftovers(
        self, known: Sequence[Transaction], known_states: Sequence[Any], failed_savepoints: Collection[int]
    ) -> None:
        for transaction in self._output.left_by(self._place, self._attempt):
            if transaction not in known:
                self._output.abort(transaction)


class CommitCalls:
    """The thread on which a sink commits: a while later, whatever has become of its task."""

    is_stopped = False

    def __init__(self, later: Callable[[Callable[[], None]], None], sink: LedgerSink) -> None:
        self._later = later
        self._sink = sink

    def submit(self, call: Callable[[], None]) -> None:
        """Runs it later. A violation ends the simulation."""

        def run() -> None:
            call()
            if self._sink.violation is not None:
                raise self._sink.violation

        self._later(run)

    def stop(self) -> None:
        """A commit that runs may still have its effect."""


def sink_operator(
    world: World, ledger: Ledger, deployment: TaskDeployment, checkpoints: bool,
    later: Callable[[Callable[[], None]], None], post: Callable[[Any], None],
) -> CommittingSinkOperator:  # fmt: skip
    """As a task would build it, as far as such an operator makes use of that."""
    sink = LedgerSink(world, ledger, deployment)
    services = SimpleNamespace(
        failed_savepoints=deployment.failed_savepoints,
        clock=world.clock,
        serial_calls=lambda name: CommitCalls(later, sink),
    )
    setup: Any = SimpleNamespace(
        name=deployment.task_name,
        state_entries=dict,
        context=SimpleNamespace(has_final_checkpoint=checkpoints),
        input_types=(),
        output=None,
        side_outputs={},
        handover=None,
        services=services,
        post=post,
    )
    return CommittingSinkOperator(setup, sink)
