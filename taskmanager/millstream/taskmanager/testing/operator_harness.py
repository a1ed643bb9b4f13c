"""An operator by itself, for tests: feed elements, look at what comes out, move the clock, snapshot and restore.

Everything happens on the caller's thread, when it is called. The operator is built, captured, written and restored as a
task does it; only its outputs keep what they get, and its snapshots stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.clock import ManualClock
from millstream.core.jobs.ids import AttemptId, JobId, VertexId
from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.keys.key_groups import key_group_range
from millstream.core.messages.deployment import TaskDeployment
from millstream.core.records.batches import (
    LAST_WATERMARK,
    Barrier,
    Batch,
    ColumnBatch,
    Element,
    RowBatch,
    StreamSignal,
)
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.core.snapshot.metadata.operator_json import operators_to_json
from millstream.core.snapshot.storage.memory_storage import MemoryStorage
from millstream.taskmanager.worker.checkpointing.capture import capture_chain
from millstream.taskmanager.worker.checkpointing.restoring import RestoredTask, restore_task
from millstream.taskmanager.worker.checkpointing.writing import SnapshotTarget, write_snapshot
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.operators.serial_thread import SerialCalls
from millstream.taskmanager.worker.operators.setup import TaskServices
from millstream.taskmanager.worker.operators.sources.source import ReaderContext
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext
from millstream.taskmanager.worker.state.backend import KeyedStateBackend, OperatorStateBackend
from millstream.taskmanager.worker.state.heap import HashMapStateBackend
from millstream.taskmanager.worker.state.key_group_index import KeyGroupIndex
from millstream.taskmanager.worker.tasks.chain import ChainBuilder

DEPLOYMENT = TaskDeployment(
    AttemptId("attempt"), JobId("job"), VertexId("vertex"), "task",
    subtask=0, parallelism=1, max_parallelism=128, attempt=0, chain=b"",
)  # fmt: skip
"""The first attempt of a task's only subtask."""


class KeptOutput:
    """An output that keeps what it gets, in its order."""

    def __init__(self) -> None:
        self.elements: list[Element] = []

    def emit(self, batch: Batch) -> None:
        """Keeps a batch."""
        self.elements.append(batch)

    def signal(self, signal: StreamSignal) -> None:
        """Keeps a signal."""
        self.elements.append(signal)

    @property
    def batches(self) -> list[Any]:
        """Without the signals."""
        return [element for element in self.elements if isinstance(element, RowBatch | ColumnBatch)]

    @property
    def rows(self) -> list[Any]:
        """The records of the row batches."""
        return [row for batch in self.elements if isinstance(batch, RowBatch) for row in batch.rows]


class InlineCalls:
    """Blocking calls of an operator that are made at once, on the caller's thread; results are still mails."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.is_stopped = False

    def submit(self, call: Callable[[], None]) -> None:
        """Makes the call."""
        call()

    def stop(self) -> None:
        """No further call is wanted."""
        self.is_stopped = True


class GivenElements(Struct, frozen=True):
    """State that an operator keeps by itself, given by hand: this subtask's, and all that it is shown."""

    kind: StateKind
    mine: Sequence[Any]
    shown: Sequence[Any] | None = None

    def own(self) -> list[Any]:
        """What this subtask takes over."""
        return list(self.mine)

    def everyones(self) -> list[Any]:
        """Also what other subtasks take over."""
        return list(self.mine if self.shown is None else self.shown)


class Snapshot(Struct, frozen=True):
    """What an operator has given to be restored elsewhere."""

    barrier: Barrier
    storage: MemoryStorage
    operators: bytes


class OperatorHarness:
    """One operator of the specification, which is opened when the test says so."""

    def __init__(
        self,
        spec: plan.OperatorSpec,
        *input_types: TypeInformation,
        name: str = "the operator",
        tags: Iterable[str] = (),
        options: Mapping[str, str] | None = None,
        deployment: TaskDeployment = DEPLOYMENT,
        restored: Snapshot | RestoredTask | None = None,
        keyed_backend: KeyedStateBackend | None = None,
        operator_backend: OperatorStateBackend | None = None,
        reader_context: ReaderContext | None = None,
        context: TaskRuntimeContext | None = None,
        failed_savepoints: Collection[int] = (),
        batch: bool = False,
        timed: bool = True,
        serial_calls: Callable[[str], SerialCalls] = InlineCalls,
    ) -> None:
        self.clock = ManualClock()
        self.out = KeptOutput()
        self.side = {tag: KeptOutput() for tag in tags}
        self.mails: list[Any] = []
        self._deployment = deployment
        self._storage = MemoryStorage(JobId("job"))
        backend = HashMapStateBackend()
        owned = key_group_range(deployment.subtask, deployment.max_parallelism, deployment.parallelism)
        index = KeyGroupIndex(deployment.max_parallelism, owned)

        def keyed(name: str, key_type: TypeInformation) -> KeyedStateBackend:
            return keyed_backend or backend.keyed_backend(name, key_type, index, self.clock)

        def reader(context: TaskRuntimeContext) -> ReaderContext:
            return reader_context or ReaderContext(context, "", lambda event: None, lambda: None, lambda seconds: None)

        services = TaskServices(
            lambda name: context or TaskRuntimeContext(deployment, name, dict(options or {}), {}, {}),
            reader,
            keyed,
            lambda name: operator_backend or backend.operator_backend(name),
            lambda operator_id, mail: self.mails.append(mail),
            options=dict(options or {}),
            clock=self.clock,
            restored=self._restored(restored) if isinstance(restored, Snapshot) else restored,
            failed_savepoints=failed_savepoints,
            serial_calls=serial_calls,
        )
        outputs = (plan.ChainedOutput(output=0), *(plan.ChainedOutput(output=n, tag=t) for n, t in enumerate(tags, 1)))
        chained = plan.ChainedOperator("the id", name, spec, PICKLED, outputs)
        if batch:
            chained = replace(chained, spec=spec.in_batch(), batch_input=spec.batch_input(timed))
        builder = ChainBuilder(services, [self.out, *self.side.values()], dict(enumerate(input_types)))
        self._chain = builder.build(plan.Chain((chained,)))

    @property
    def operator(self) -> Operator:
        """The operator, for the hooks that have no word here."""
        return self._chain.head

    def open(self) -> OperatorHarness:
        """Initializes the state of the operator and opens it; returns this harness."""
        self._chain.open()
        return self

    def process(self, *batches: Batch, input_index: int = 0) -> list[Any]:
        """Processes `batches`; returns the records that were emitted to the main output."""
        before = len(self.out.rows)
        for batch in batches:
            self.operator.receivers()[input_index](batch)
        return self.out.rows[before:]

    def signal(self, signal: StreamSignal, input_index: int = 0) -> None:
        """Feeds a signal."""
        self.operator.on_signal(signal, input_index)

    def advance(self, seconds: float = 0.0) -> float | None:
        """Advances the clock and calls `on_time`; returns the seconds until the next call, or None without one."""
        self.clock.advance(seconds)
        now = self.clock.monotonic()
        due = self.operator.on_time(now)
        return None if due is None else due - now

    def deliver(self) -> list[Any]:
        """Delivers the mails that the operator has sent to itself; returns the result of each."""
        mails, self.mails = self.mails, []
        return [self.operator.on_mail(mail) for mail in mails]

    def complete(self, checkpoint_id: int) -> bool:
        """Notifies the operator of a completed checkpoint; returns whether it is committed, and raises its error."""
        self.operator.notify_checkpoint_complete(checkpoint_id)
        while self.mails:
            self.deliver()
        return self.operator.is_committed(checkpoint_id)

    def snapshot(self, checkpoint_id: int = 1, is_savepoint: bool = False) -> Snapshot:
        """What the operator holds, as a checkpoint stores it."""
        barrier = Barrier(checkpoint_id, 0, self._storage.checkpoint_location(checkpoint_id), is_savepoint=is_savepoint)
        captured = capture_chain(self._chain, barrier, False)
        try:
            written = write_snapshot(captured, SnapshotTarget(self._storage, barrier, self._deployment))
        finally:
            captured.release()
        return Snapshot(barrier, self._storage, operators_to_json(written.operators))

    def end_input(self, rows: int = 2048) -> None:
        """All input comes to its end, and event time with it; what was held back is released, so many rows at once."""
        self.signal(LAST_WATERMARK)
        while self._chain.holds_back:
            self.operator.release(rows)

    def finish(self) -> bool:
        """Ends the input; returns whether the operator has finished, rather than waiting for its own threads."""
        return self._chain.finish()

    def close(self) -> list[BaseException]:
        """Closes the operator; returns the exceptions that were raised."""
        return self._chain.close()

    def _restored(self, snapshot: Snapshot) -> RestoredTask:
        barrier = snapshot.barrier
        deployment = replace(
            self._deployment, restore=snapshot.operators, restore_location=barrier.location,
            restored_checkpoint_id=barrier.checkpoint_id,
        )  # fmt: skip
        return restore_task(deployment, snapshot.storage)
