"""A job whose source never emits: two slot workers with a shuffle between them and nothing to do."""

from __future__ import annotations

from job import environment, execute
from marks import report

from millstream.core.records.batches import Batch
from millstream.datastream import FilterFunction, RuntimeContext
from millstream.datastream.connectors.base import PollStatus, SourceReaderContext
from millstream.datastream.connectors.index_split import IndexReader
from millstream.datastream.connectors.number_sequence import NumberSequenceSource


class NeverReady(NumberSequenceSource):
    """A source with numbers that it never emits."""

    def create_reader(self, context: SourceReaderContext) -> IndexReader:
        return _NeverReader(context)


class _NeverReader(IndexReader):
    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        return PollStatus.NOTHING_AVAILABLE


class Opened(FilterFunction):
    """Reports when its task is open."""

    def open(self, runtime_context: RuntimeContext) -> None:
        report("opened")

    def filter(self, value: int) -> bool:
        return True


if __name__ == "__main__":
    env = environment()
    env.from_source(NeverReady(0, 1)).key_by(lambda x: x).reduce(max).filter(Opened()).print()
    execute(env, "idle")
