"""Sources with positions, functions with state, and a worker rig that takes and restores checkpoints manually."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace
from worker_rig import ALLOCATION, RowsSource, WorkerRig, chain

from millstream.core.jobs.barriers import Alignment, Barrier, StopMode
from millstream.core.jobs.plan import plan
from millstream.core.messages.checkpoints import (
    CheckpointAck,
    CheckpointDecline,
    CheckpointNotice,
    TriggerCheckpoint,
)
from millstream.core.messages.deployment import InputGate, ResultPartition, TaskDeployment
from millstream.core.messages.sources import NoMoreSplits, Splits
from millstream.core.pickling import to_bytes
from millstream.core.records import types as t
from millstream.core.records.batches import Batch, RowBatch
from millstream.core.snapshot import OperatorSnapshot, StateSnapshot, read_rows, read_state, storage_at
from millstream.core.snapshot.metadata.operator_json import operators_from_json, operators_to_json
from millstream.core.snapshot.tables.redistribution import files_for
from millstream.datastream.connectors.base import PollStatus, SourceReader, SourceReaderContext
from millstream.datastream.functions import KeyedProcessFunction, MapFunction, RuntimeContext
from millstream.datastream.functions.checkpointed import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)


class PositionedSource(RowsSource):
    """Reads rows of the splits (rows, position) assigned to it, `batch` at a time; none until requested."""

    def __init__(self, batch: int = 10) -> None:
        super().__init__(waits=True, batch=batch)

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
    """Counts each word; the count is emitted with the word."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state("count", int)
        self.seen = runtime_context.get_list_state("seen", str)

    def process_element(self, value: str, ctx: Any) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value)
        yield value, self.count.value(), len(list(self.seen.get()))


class Remembering(MapFunction, CheckpointedFunction):
    """Numbers its records across restarts, and records how it was started."""

    calls: ClassVar[list[Any]] = []
    fails = False

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state("total", int)
        self.total = sum(self.state.get())
        restored = ("restored", context.get_restored_checkpoint_id())
        Remembering.calls.append(restored if context.is_restored() else "fresh")

    def open(self, runtime_context: RuntimeContext) -> None:
        Remembering.calls.append("open")

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        if Remembering.fails:
            raise ValueError("the state is not in order")
        self.state.update([self.total])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        Remembering.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        Remembering.calls.append(("aborted", checkpoint_id))

    def map(self, value: Any) -> Any:
        self.total += 1
        return value


COUNTED = plan.KeyedProcessSpec(Counting(), plan.KeySelector(function=str), t.STRING)


SOURCE = plan.SourceSpec(PositionedSource())


def counted(words: Iterable[str]) -> Counter[Any]:
    """All that `COUNTED` emits for these words."""
    counts: Counter[str] = Counter()
    results: Counter[Any] = Counter()
    for word in words:
        counts[word] += 1
        results[word, counts[word], counts[word]] += 1
    return results


def operators(*acks: CheckpointAck) -> list[OperatorSnapshot]:
    return [operator for ack in acks for operator in operators_from_json(ack.operators, "ack")]


def merged(acks: Iterable[CheckpointAck], parallelism: Mapping[str, int] | None = None) -> bytes:
    """What the job manager makes of all acknowledgements: each operator once, with its own vertex's parallelism."""
    states: dict[str, dict[str, StateSnapshot]] = {}
    names: dict[str, OperatorSnapshot] = {}
    for operator in operators(*acks):
        names[operator.operator_id] = operator
        known = states.setdefault(operator.operator_id, {})
        for state in operator.states:
            files = known[state.name].files if state.name in known else ()
            known[state.name] = replace(state, files=files + state.files)
    return operators_to_json(
        replace(
            operator, states=tuple(states[name].values()),
            parallelism=parallelism[name] if parallelism else operator.parallelism,
        )
        for name, operator in names.items()
    )  # fmt: skip


def stored_state(location: str, state: StateSnapshot) -> dict[Any, Any]:
    """The contents of each key, or each position."""
    storage, folder = storage_at(location)
    found: dict[Any, Any] = {}
    for file in state.files:
        rows = read_rows(read_state(storage, folder, state, file), state, unpickle=True)
        found.update(zip(rows.keys or rows.detail, rows.content, strict=True))
    return found


def state_of(ack: CheckpointAck, name: str) -> StateSnapshot:
    return next(state for operator in operators(ack) for state in operator.states if state.name == name)


def handed_over(restore: bytes, subtask: int, parallelism: int) -> bytes:
    """The part of all states that the job manager sends to a subtask: the files that it needs."""
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
    """Takes checkpoints into a folder, or, without one, into the job manager's memory."""

    def __init__(
        self, folder: Path | None = None, network: bool = False, local_state: str = "", **options: str
    ) -> None:
        directory = {} if folder is None else {"execution.checkpointing.dir": str(folder)}
        super().__init__(network, local_state, **{**directory, **options})
        self.root = "memory://job" if folder is None else f"{folder.as_uri()}/job"

    def close(self) -> None:
        super().close()
        self.worker.writers.shutdown(wait=True)

    @contextlib.contextmanager
    def writers_held(self) -> Iterator[None]:
        """Blocks the writers."""
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
        return replace(
            self.task(chain, inputs, outputs), subtask=subtask, parallelism=parallelism,
            restore=handed_over(restore, subtask, parallelism),
            restore_location=(location or self.location(checkpoint)) if restore else "",
            restored_checkpoint_id=checkpoint if restore else 0,
        )  # fmt: skip

    def restored(
        self, *specs: plan.OperatorSpec, restore: bytes, subtask: int = 0, parallelism: int = 1, location: str = ""
    ) -> TaskDeployment:
        """Deploys a task that starts with this state."""
        task = self.subtask(chain(*specs), subtask, parallelism, restore, location=location)
        self.deploy(task)
        return task

    def feed(self, task: TaskDeployment, *splits: Iterable[Any], last: bool = False) -> None:
        """Gives the source of a task splits with these rows."""
        if splits:
            self.send_event(task, Splits(to_bytes([(list(rows), 0) for rows in splits])))
        if last:
            self.send_event(task, NoMoreSplits())

    def location(self, checkpoint: int) -> str:
        return f"{self.root}/chk-{checkpoint}"

    def trigger(
        self, checkpoint: int, *tasks: TaskDeployment, alignment: Alignment = Alignment.ALIGNED, location: str = "",
        savepoint: bool = False, full: bool = False, stop: StopMode = StopMode.NONE, timestamp: int = 77,
        timeout: int | None = None, native: bool = False, oldest_base: int = 0,
    ) -> None:  # fmt: skip
        barrier = Barrier(
            checkpoint, timestamp, location or self.location(checkpoint), aligned_timeout_ms=timeout,
            is_savepoint=savepoint, full=full, alignment=alignment, stop=stop, native=native, oldest_base=oldest_base,
        )  # fmt: skip
        self.post(TriggerCheckpoint(ALLOCATION, tuple(task.attempt_id for task in tasks), barrier))

    def checkpoint(self, checkpoint: int, *tasks: TaskDeployment, **options: Any) -> list[CheckpointAck]:
        """Triggers a checkpoint, and turns until all tasks have acknowledged it."""
        self.trigger(checkpoint, *tasks, **options)
        return self.acknowledged(checkpoint, *tasks)

    def notice(self, checkpoint: int, completed: bool, *tasks: TaskDeployment) -> None:
        self.post(CheckpointNotice(ALLOCATION, tuple(task.attempt_id for task in tasks), checkpoint, completed))

    def acks(self, checkpoint: int) -> list[CheckpointAck]:
        return [ack for ack in self.messages(CheckpointAck) if ack.checkpoint_id == checkpoint]

    def declines(self, checkpoint: int) -> list[CheckpointDecline]:
        return [decline for decline in self.messages(CheckpointDecline) if decline.checkpoint_id == checkpoint]

    def responded(self, checkpoint: int, count: int) -> Callable[[], bool]:
        return lambda: len(self.acks(checkpoint)) + len(self.declines(checkpoint)) >= count

    def acknowledged(self, checkpoint: int, *tasks: TaskDeployment) -> list[CheckpointAck]:
        """The tasks' acknowledgements, in order; turns until they have arrived."""
        wanted = {task.attempt_id for task in tasks}
        self.turn_until(
            lambda: wanted <= {ack.attempt_id for ack in self.acks(checkpoint)} or bool(self.declines(checkpoint))
        )
        assert not self.declines(checkpoint), self.declines(checkpoint)
        by_attempt = {ack.attempt_id: ack for ack in self.acks(checkpoint)}
        return [by_attempt[task.attempt_id] for task in tasks]
