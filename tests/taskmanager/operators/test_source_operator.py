"""The source operator with a reader that violates its contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from millstream.core.jobs.plan import plan
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.records.batches import Batch, RowBatch, Watermark
from millstream.datastream.connectors.base import PollStatus
from millstream.datastream.connectors.collection import CollectionSource
from millstream.datastream.connectors.file_system import FileSource, FileSplit, StreamFormat
from millstream.datastream.connectors.index_split import IndexReader
from millstream.datastream.connectors.malformed import MalformedCount
from millstream.datastream.functions import OutputTag
from millstream.taskmanager.testing import DEPLOYMENT, GivenElements, OperatorHarness
from millstream.taskmanager.worker.operators.base import OperatorError
from millstream.taskmanager.worker.operators.sources.source import ReaderContext
from millstream.taskmanager.worker.runtime_context import TaskRuntimeContext


class Returning(CollectionSource):
    """Its readers return predefined values."""

    def __init__(self, returned: Any) -> None:
        super().__init__([])
        self._returned = returned

    def create_reader(self, context: Any) -> IndexReader:
        returned = self._returned

        class Reader(IndexReader):
            def poll_next(self, max_rows: int) -> Batch | PollStatus:
                return returned  # type: ignore[no-any-return]  # as a user's might

        return Reader(context)


def test_side_outputs_of_a_reader_are_emitted_with_its_batch() -> None:
    tag = OutputTag("beside")
    context = TaskRuntimeContext(DEPLOYMENT, "source", {}, {}, {})
    reader_context = ReaderContext(context, "", lambda event: None, lambda: None, lambda seconds: None)
    source = Returning(RowBatch([]))
    harness = OperatorHarness(plan.SourceSpec(source), tags=["beside"], reader_context=reader_context).open()
    reader_context.output(tag, [1])
    reader_context.output(OutputTag("unread"), [2])
    reader_context.output(tag, [3])
    harness.operator.poll(100)
    harness.operator.poll(100)
    assert [batch.rows for batch in harness.side["beside"].batches] == [[1, 3]]


def polled(returned: Any) -> Batch | PollStatus:
    return OperatorHarness(plan.SourceSpec(Returning(returned))).open().operator.poll(100)


@pytest.mark.parametrize("returned", [None, [1, 2], "ab", True])
def test_a_reader_that_returns_no_batch_fails_with_what_it_must_return(returned: Any) -> None:
    with pytest.raises(OperatorError, match=r"poll_next must return a RowBatch.*not a (NoneType|list|str|bool)"):
        polled(returned)


def test_batches_and_statuses_are_forwarded() -> None:
    batch = RowBatch([1])
    assert polled(batch).rows == [1]
    assert polled(PollStatus.NOTHING_AVAILABLE) is PollStatus.NOTHING_AVAILABLE


class Second(TimestampAssigner):
    def extract_timestamp(self, value: str, record_timestamp: int) -> int:
        return int(value) * 1000


def test_items_that_a_reader_keeps_among_its_splits_do_not_hold_event_time_back(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n")
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path, on_error="skip")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    harness = OperatorHarness(plan.SourceSpec(lines, strategy))
    split = FileSplit(str(tmp_path / "a.txt"), 0, 4)
    harness.operator.restore(GivenElements(StateKind.SPLITS, [split, MalformedCount(3)]))
    harness.open()
    batch = harness.operator.poll(100)
    assert isinstance(batch, RowBatch)
    harness.operator.emit_polled(batch)
    harness.advance()
    harness.advance(1)
    assert [element for element in harness.out.elements if isinstance(element, Watermark)] == [Watermark(1999)]
    harness.close()
