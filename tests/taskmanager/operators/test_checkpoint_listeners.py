"""What is notified of checkpoints: functions, readers, writers and enumerators, each by the methods of one class."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.core.jobs.plan import plan
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream import CheckpointListener
from millstream.datastream.connectors.base import (
    PollStatus,
    Sink,
    SinkWriter,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
)
from millstream.datastream.connectors.hybrid.messages import HybridSplit
from millstream.datastream.connectors.hybrid.reader import HybridReader
from millstream.datastream.connectors.number_seq import NumberSequenceSource
from millstream.datastream.functions import Function, MapFunction, RuntimeContext
from millstream.datastream.functions.checkpointed import CheckpointedFunction
from millstream.taskmanager.testing import OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError


class Listening(CheckpointListener):
    def __init__(self) -> None:
        self.outcomes: list[tuple[str, int]] = []
        self.fails = False

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if self.fails:
            raise OSError("the group is gone")
        self.outcomes.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.outcomes.append(("aborted", checkpoint_id))


class Mapping(Listening, MapFunction):
    def map(self, value: Any) -> Any:
        return value


class Callable(Listening):
    """No rich function."""

    def __call__(self, value: Any) -> Any:
        return value


class Silent(MapFunction):
    """Overrides neither."""

    def map(self, value: Any) -> Any:
        return value


class Written(Listening, SinkWriter):
    def write(self, batch: Batch) -> None: ...


class Writing(Sink):
    def __init__(self) -> None:
        self.writer = Written()

    def create_writer(self, context: RuntimeContext) -> SinkWriter:
        return self.writer


class Read(Listening, SourceReader[int]):
    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        return RowBatch([])

    def add_splits(self, splits: list[int]) -> None: ...

    def notify_no_more_splits(self) -> None: ...

    def snapshot_state(self, checkpoint_id: int) -> list[int]:
        return []


class Reading(NumberSequenceSource):
    def __init__(self) -> None:
        super().__init__(1, 2)
        self.reader = Read()

    def create_reader(self, context: SourceReaderContext) -> Any:
        return self.reader


def test_all_have_both_methods() -> None:
    for listener in (Function, CheckpointedFunction, SourceReader, SinkWriter, SplitEnumerator):
        assert issubclass(listener, CheckpointListener)


def notified(spec: plan.OperatorSpec) -> None:
    operator = OperatorHarness(spec).open().operator
    operator.notify_checkpoint_aborted(1)
    operator.notify_checkpoint_complete(2)


@pytest.mark.parametrize(
    ("spec", "listener"),
    [
        (lambda it: plan.MapSpec(it), Mapping()),
        (lambda it: plan.MapSpec(it), Callable()),
        (lambda it: plan.SinkSpec(it), Writing()),
        (lambda it: plan.SourceSpec(it), Reading()),
    ],
    ids=["function", "callable", "writer", "reader"],
)
def test_operators_notify_what_they_run(spec: Any, listener: Any) -> None:
    heard = getattr(listener, "writer", getattr(listener, "reader", listener))
    operator = OperatorHarness(spec(listener)).open().operator
    operator.notify_checkpoint_aborted(1)
    operator.notify_checkpoint_complete(2)
    assert heard.outcomes == [("aborted", 1), ("complete", 2)]
    heard.fails = True
    with pytest.raises(OperatorError, match="the group is gone"):
        operator.notify_checkpoint_complete(3)


def test_one_that_overrides_neither_and_a_plain_function_are_left_alone() -> None:
    notified(plan.MapSpec(Silent()))
    notified(plan.MapSpec(str))


def test_the_reader_of_a_hybrid_source_notifies_the_present_one() -> None:
    present = Reading()
    context: Any = OperatorHarness(plan.SourceSpec(present)).operator._reader_context  # a whole one
    reader = HybridReader(context, [present])
    reader.notify_checkpoint_complete(1)
    reader.notify_checkpoint_aborted(1)
    reader.add_splits([HybridSplit(0, 1)])
    reader.notify_checkpoint_complete(2)
    reader.notify_checkpoint_aborted(3)
    assert present.reader.outcomes == [("complete", 2), ("aborted", 3)]
