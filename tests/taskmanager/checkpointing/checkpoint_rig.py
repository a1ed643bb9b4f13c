"""Sources with positions, functions with state, and a worker rig that takes and restores checkpoints by hand."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from worker_rig import ALLOCATION, WorkerRig

from millstream.core.jobs import plan
from millstream.core.jobs.barriers import Alignment, StopMode
from millstream.core.jobs.ids import AttemptId, JobId, VertexId
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointNotice,
    CheckpointOptions,
    TriggerCheckpoint,
)
from millstream.core.messages.deployment import InputGate, ResultPartition, TaskDeployment
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.core.snapshot.tables.redistribution import files_for
from millstream.datastream.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from millstream.datastream.connectors.base import (
    Boundedness,
    PollStatus,
    Source,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from millstream.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext

_numbers = itertools.count()


class PositionedSource(Source[Any]):
    """Reads rows of the splits (rows, position) that it is given; `limit` rows at a time, none until told to."""

    def __init__(self, batch: int = 10) -> None:
        self.batch = batch

    def get_boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[Any]) -> SplitEnumerator[Any]:
        raise NotImplementedError

    def restore_enumerator(self, context: SplitEnumeratorContext[Any], state: Any) -> SplitEnumerator[Any]:
        raise NotImplementedError

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any]:
        return PositionedReader(self.batch)


class PositionedReader(SourceReader[Any]):
    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._splits: list[list[Any]] = []
        self._no_more = False

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        if not self._splits:
            return PollStatus.END_OF_INPUT if self._no_more else PollStatus.NOTHING_AVAILABLE
        split = self._splits[0]
        taken = split[0][split[1] : split[1] + self._batch]
        split[1] += len(taken)
        if split[1] >= len(split[0]):
            self._splits.pop(0)
        return RowBatch(taken)

    def add_splits(self, splits: list[Any]) -> None:
        self._splits += [list(split) for split in splits]

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return self._splits


class Counting(KeyedProcessFunction):
    """How often each word came; the number goes out behind the word."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state("count", int)
        self.seen = runtime_context.get_list_state("seen", str)

    def process_element(self, value: str, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value)
        yield value, self.count.value(), len(list(self.seen.get()))


class Remembering(MapFunction, CheckpointedFunction):
    """Numbers its records over restarts, and tells how it was started."""

    told: ClassVar[list[Any]] = []
    fails = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state("total", int)
        self.total = sum(self.state.get())
        restored = ("restored", context.get_restored_checkpoint_id())
        Remembering.told.append(restored if context.is_restored() else "fresh")

    def open(self, runtime_context: RuntimeContext) -> None:
        Remembering.told.append("open")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if Remembering.fails:
            raise ValueError("the state is not in order")
        self.state.update([self.total])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Remembering.told.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        Remembering.told.append(("aborted", checkpoint_id))

    def map(self, value: Any) -> Any:
        self.total += 1
        return value


COUNTED = plan.KeyedProcessSpec(Counting(), plan.KeySelector(function=str), t.STRING)


def chain_of(*specs: plan.OperatorSpec, outputs: int = 0, prefix: str = "op") -> bytes:
    """Operators one after the other with stable ids."""
    last = len(specs) - 1
    tail = tuple(plan.ChainedOutput(output=n) for n in range(outputs))
    return to_bytes(
        plan.Chain(
            tuple(
                plan.ChainedOperator(
                    f"{prefix}-{n}", f"{prefix} {n}", spec, t.PICKLED,
                    (plan.ChainedOutput(operator=n + 1),) if n < last else tail,
                )
                for n, spec in enumerate(specs)
            )
        )
    )  # fmt: skip


def handed_over(restore: bytes, subtask: int, parallelism: int) -> bytes:
    """What the job manager gives a subtask, of the states of all: the files that it needs."""
    return restore and operators_to_json(
        replace(
            operator,
            states=tuple(
                replace(state, files=files_for(state, operator.parallelism, parallelism, 128, subtask))
                for state in operator.states
            ),
        )
        for operator in operators_from_json(restore, "restore")
    )


class CheckpointRig(WorkerRig):
    """Takes checkpoints into a folder, or into the job manager's memory without one."""

    def __init__(
        self, folder: Path | None = None, network: bool = False, local_state: str = "", **options: str
    ) -> None:
        super().__init__(network, local_state, **options)
        self.root = "memory://job" if folder is None else f"{folder.as_uri()}/job"

    def close(self) -> None:
        super().close()
        self.worker.writers.shutdown(wait=True)

    @contextlib.contextmanager
    def writers_held(self) -> Iterator[None]:
        """Nothing is written meanwhile."""
        go_on = threading.Event()
        for _ in range(self.worker.writers._max_workers):
            self.worker.writers.submit(go_on.wait)
        try:
            yield
        finally:
            go_on.set()

    def subtask(
        self, chain: bytes, subtask: int = 0, parallelism: int = 1, restore: bytes = b"", checkpoint: int = 1,
        inputs: Iterable[InputGate] = (), outputs: Iterable[ResultPartition] = (), location: str = "",
    ) -> TaskDeployment:  # fmt: skip
        number = next(_numbers)
        return TaskDeployment(
            AttemptId(f"checkpointed-{number}"), JobId("job"), VertexId(f"vertex-{number}"), f"task {number}",
            subtask=subtask, parallelism=parallelism, max_parallelism=128, attempt=0, chain=chain, inputs=tuple(inputs),
            outputs=tuple(outputs), restore=handed_over(restore, subtask, parallelism),
            restore_location=(location or self.location(checkpoint)) if restore else "",
            restored_checkpoint_id=checkpoint if restore else 0,
        )  # fmt: skip

    def location(self, checkpoint: int) -> str:
        return f"{self.root}/chk-{checkpoint}"

    def trigger(
        self, checkpoint: int, *tasks: TaskDeployment, alignment: Alignment = Alignment.ALIGNED, location: str = "",
        savepoint: bool = False, full: bool = False, stop: StopMode = StopMode.NONE, timestamp: int = 77,
        timeout: int | None = None, native: bool = False, oldest_base: int = 0,
    ) -> None:  # fmt: skip
        options = CheckpointOptions(
            checkpoint_id=checkpoint, timestamp=timestamp, aligned_timeout_ms=timeout,
            location=location or self.location(checkpoint), savepoint=savepoint, full=full, alignment=alignment,
            stop=stop, native=native, oldest_base=oldest_base,
        )  # fmt: skip
        self.post(TriggerCheckpoint(ALLOCATION, tuple(task.attempt_id for task in tasks), options))

    def notice(self, checkpoint: int, completed: bool, *tasks: TaskDeployment) -> None:
        self.post(CheckpointNotice(ALLOCATION, tuple(task.attempt_id for task in tasks), checkpoint, completed))

    def acks(self, checkpoint: int) -> list[CheckpointAck]:
        return [ack for ack in self.said(CheckpointAck) if ack.checkpoint_id == checkpoint]

    def declines(self, checkpoint: int) -> list[CheckpointDecline]:
        return [decline for decline in self.said(CheckpointDecline) if decline.checkpoint_id == checkpoint]

    def answered(self, checkpoint: int, count: int) -> Callable[[], bool]:
        return lambda: len(self.acks(checkpoint)) + len(self.declines(checkpoint)) >= count

    def acknowledged(self, checkpoint: int, *tasks: TaskDeployment) -> list[CheckpointAck]:
        """The tasks' acknowledgements, in their order; turns until they are there."""
        wanted = {task.attempt_id for task in tasks}
        self.turn_until(
            lambda: wanted <= {ack.attempt_id for ack in self.acks(checkpoint)} or bool(self.declines(checkpoint))
        )
        assert not self.declines(checkpoint), self.declines(checkpoint)
        by_attempt = {ack.attempt_id: ack for ack in self.acks(checkpoint)}
        return [by_attempt[task.attempt_id] for task in tasks]
