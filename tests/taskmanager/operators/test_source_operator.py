"""What the source operator makes of a reader that does not keep to its contract."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.core.jobs import plan
from millstream.core.records.batches import Batch, RowBatch
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.index_split import IndexReader
from millstream.datastream.functions import OutputTag
from millstream.taskmanager.testing import DEPLOYMENT, OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.source import ReaderContext
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext


class Answering(CollectionSource):
    """Its readers answer whatever they are told to."""

    def __init__(self, answer: Any) -> None:
        super().__init__([])
        self._answer = answer

    def create_reader(self, context: Any) -> IndexReader:
        answer = self._answer

        class Reader(IndexReader):
            def poll_next(self, max_rows: int) -> Batch | PollStatus:
                return answer  # type: ignore[no-any-return]  # as a user's might

        return Reader(context)


def test_what_a_reader_sends_to_a_side_output_leaves_with_its_batch() -> None:
    tag = OutputTag("beside")
    context = TaskRuntimeContext(DEPLOYMENT, "source", {}, {}, {})
    reader_context = ReaderContext(context, "", lambda event: None, lambda: None, lambda seconds: None)
    source = Answering(RowBatch([]))
    harness = OperatorHarness(plan.SourceSpec(source), tags=["beside"], reader_context=reader_context).open()
    reader_context.output(tag, [1])
    reader_context.output(OutputTag("nobody reads it"), [2])
    reader_context.output(tag, [3])
    harness.operator.poll(100)
    harness.operator.poll(100)
    assert [batch.rows for batch in harness.side["beside"].batches] == [[1, 3]]


def polled(answer: Any) -> Batch | PollStatus:
    return OperatorHarness(plan.SourceSpec(Answering(answer))).open().operator.poll(100)


@pytest.mark.parametrize("answer", [None, [1, 2], "ab", True])
def test_a_reader_that_answers_no_batch_is_told_what_it_has_to_answer(answer: Any) -> None:
    with pytest.raises(OperatorError, match=r"poll_next must answer a RowBatch.*not a (NoneType|list|str|bool)"):
        polled(answer)


def test_batches_and_statuses_are_passed_on() -> None:
    batch = RowBatch([1])
    assert polled(batch).rows == [1]
    assert polled(PollStatus.NOTHING_AVAILABLE) is PollStatus.NOTHING_AVAILABLE
