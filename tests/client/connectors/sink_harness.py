"""Runs one subtask of a two-phase-commit sink under the operator that a task has for it, one step at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any

from source_harness import runtime_context

from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Barrier, Batch
from millstream.datastream.connectors.two_phase_commit import TwoPhaseCommitSink
from millstream.taskmanager.testing import GivenElements, OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.sinks.transactions import Element


class SinkHarness:
    """Opened when it is made. `restored` are elements of a snapshot: this subtask's, and all that it is shown."""

    def __init__(
        self, sink: TwoPhaseCommitSink[Any], subtask: int = 0, parallelism: int = 1, *,
        restored: Sequence[Element] = (), shown: Sequence[Element] | None = None,
        failed_savepoints: Collection[int] = (), **place: Any,
    ) -> None:  # fmt: skip
        context = runtime_context(subtask, parallelism, **place)
        harness = OperatorHarness(plan.SinkSpec(sink), context=context, failed_savepoints=failed_savepoints)
        self._harness = harness
        context.operator_id = context.get_task_name()  # two sinks of a job differ by it
        self.operator = harness.operator
        self.operator.restore(GivenElements(StateKind.SINK_TRANSACTIONS, restored, shown))
        try:
            self._call(self.operator.open)
        except BaseException:
            self.close()
            raise

    def write(self, batch: Batch) -> None:
        self._call(self.operator.process, batch)

    def tick(self, now: float) -> float | None:
        return self._call(self.operator.on_time, now)  # type: ignore[no-any-return]

    def checkpoint(self, number: int, savepoint: bool = False) -> list[Element]:
        """What the snapshot holds, as another process gets it."""
        self._call(self.operator.prepare_snapshot, Barrier(number, 0, is_savepoint=savepoint))
        return pickle.loads(pickle.dumps(self.operator.elements(number)[StateKind.SINK_TRANSACTIONS]))  # type: ignore[no-any-return]

    def complete(self, number: int) -> None:
        assert self._call(self._harness.complete, number)

    def finish(self) -> None:
        self._call(self.operator.finish)
        self._call(self._harness.deliver)
        assert self.operator.is_drained

    def close(self) -> None:
        self._call(self.operator.close)

    def commit(self, number: int) -> list[Element]:
        """A checkpoint that completes."""
        held = self.checkpoint(number)
        self.complete(number)
        return held

    def end(self) -> None:
        """The input has ended."""
        self.finish()
        self.close()

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except OperatorError as error:
            raise error.__cause__ or error from None


def write_all(sink: TwoPhaseCommitSink[Any], *batches: Batch, subtask: int = 0, parallelism: int = 1) -> None:
    """What one subtask writes, without checkpoints."""
    writer = SinkHarness(sink, subtask, parallelism)
    try:
        for batch in batches:
            writer.write(batch)
        writer.finish()
    finally:
        writer.close()
