"""Event time of a source, split by split: a slow split holds back only what it must.

A split counts from the moment at which its reader has it, before anything was read of it: what it will bring is not
known. Readers that do not say which split a batch is from are one stream each.
"""

from __future__ import annotations

from typing import Any

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.core.records.batches import Batch, ColumnBatch
from millstream.core.records.conversion import record_batch_to_rows
from millstream.core.records.types import TypeInformation
from millstream.datastream.connectors.base import SourceReader
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.worker.operators.output import Send
from millstream.taskmanager.worker.operators.time.event_time import SplitWatermarks, Timestamps

_WHOLE = ""  # what is read by a reader that does not tell its splits apart


class SourceTime:
    """Of one source in one subtask. A batch counts when `follow` is called, which is after it has been emitted."""

    def __init__(
        self, strategy: WatermarkStrategy, record_type: TypeInformation, name: str, context: RuntimeContext, send: Send
    ) -> None:
        self._timestamps = Timestamps(strategy, record_type, name)
        self._record_type = record_type
        self._splits = SplitWatermarks(strategy, context, send)
        self._reader: SourceReader[Any] | None = None
        self._by_split = False
        self._emitted: tuple[str, Batch] | None = None

    def open(self, reader: SourceReader[Any]) -> None:
        """Before the reader starts."""
        self._reader = reader
        self._by_split = type(reader).current_split_id is not SourceReader.current_split_id
        if not self._by_split:
            self._splits.begun(_WHOLE)

    def begun(self, splits: list[Any]) -> None:
        """The reader gets these."""
        if self._by_split:
            for split in splits:
                if getattr(split, "is_read", True):  # readers may keep other things beside their splits
                    self._splits.begun(split_id_of(split) or _WHOLE)

    def ended(self, split_id: str) -> None:
        """The reader has come to the end of one."""
        self._splits.ended(split_id)

    def stamped(self, batch: Batch) -> Batch:
        """What the reader answered, as it is to be emitted."""
        assert self._reader is not None, "open comes first"
        stamped = self._timestamps.of(batch)
        self._emitted = (self._reader.current_split_id() or _WHOLE, stamped)
        return stamped

    def follow(self) -> None:
        """Tells the generator of the batch that was emitted last."""
        if self._emitted is None:
            return
        (split_id, batch), self._emitted = self._emitted, None
        if batch.timestamps is not None:
            watermarks = self._splits.begun(split_id)
            watermarks.follow(self._rows_of(batch) if watermarks.reads_events else [], batch.timestamps)

    def look(self, now: float) -> None:
        """The interval has passed."""
        self.follow()
        self._splits.look(now)

    def _rows_of(self, batch: Batch) -> list[Any]:
        return record_batch_to_rows(batch.data, self._record_type) if isinstance(batch, ColumnBatch) else batch.rows


def split_id_of(split: Any) -> str | None:
    """What a split is called, if it is called anything: the attribute, or what the method answers, as in Flink."""
    found = getattr(split, "split_id", None)
    return str(found() if callable(found) else found) if found is not None else None
