"""Event time of a source, per split: a slow split holds back only what it must.

A split takes part from the moment its reader receives it, before anything was read: its timestamps are unknown. Readers
that do not report the split of a batch are treated as one stream each.
"""

from __future__ import annotations

from typing import Any

from millstream.common.watermark_strategy import WatermarkStrategy
from millstream.core.clock import Clock
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.progress import WatermarkOrigin
from millstream.core.records.batches import Batch
from millstream.core.records.types import TypeInformation
from millstream.core.settings.options.scheduling import PIPELINE_WATERMARK_ALIGNMENT_ALLOW_UNALIGNED_SOURCE_SPLITS
from millstream.datastream.connectors.base import SourceReader, split_id_of
from millstream.datastream.functions import RuntimeContext
from millstream.taskmanager.worker.operators.output import Emit, Send
from millstream.taskmanager.worker.operators.time.event_time import GeneratedWatermarks, SplitWatermarks, Timestamps
from millstream.taskmanager.worker.operators.time.source_alignment import SourceAlignment
from millstream.taskmanager.worker.operators.time.timed_output import TimedOutput

ALLOW_UNALIGNED = PIPELINE_WATERMARK_ALIGNMENT_ALLOW_UNALIGNED_SOURCE_SPLITS
_WHOLE = ""  # the stream of a reader that does not distinguish its splits


class SourceTime:
    """The event time of one source in one subtask. Each batch is `stamped`, then sent by `emit`; `align` follows."""

    def __init__(
        self,
        strategy: WatermarkStrategy,
        record_type: TypeInformation,
        name: str,
        context: RuntimeContext,
        emit: Emit,
        send: Send,
        clock: Clock,
        alignment: SourceAlignment | None = None,
        allow_unaligned: bool = False,
    ) -> None:
        self._timestamps = Timestamps(strategy, record_type, name)
        self._record_type = record_type
        self._timed = TimedOutput(name, emit, send, self._rows_of)
        self._splits = SplitWatermarks(strategy, context, self._timed.signal, clock)
        self._idle_timeout_ms = strategy.idle_timeout_ms
        self._alignment = alignment
        self._reader: SourceReader[Any] | None = None
        self._by_split = False
        self._allow_unaligned = allow_unaligned
        self._pauses_splits = alignment is not None
        self._emitting: GeneratedWatermarks | None = None  # those of the stream of the last stamped batch

    def open(self, reader: SourceReader[Any]) -> None:
        """Called before the reader starts."""
        self._reader = reader
        self._by_split = type(reader).current_split_id is not SourceReader.current_split_id
        if not self._by_split:
            self._splits.begun(_WHOLE)

    def begun(self, splits: list[Any]) -> None:
        """Called when splits are assigned to the reader."""
        if self._by_split:
            for split in splits:
                if getattr(split, "is_read", True):  # readers may keep other items among their splits
                    self._splits.begun(split_id_of(split) or _WHOLE)

    def ended(self, split_id: str) -> None:
        """Called when the reader has finished a split."""
        self._splits.ended(split_id)

    def stamped(self, batch: Batch) -> Batch:
        """Stamps a batch of the reader, for `emit`."""
        assert self._reader is not None, "open is called first"
        stamped = self._timestamps.of(batch)
        self._emitting = None
        if stamped.is_timed:
            self._emitting = self._splits.begun(self._reader.current_split_id() or _WHOLE)
        return stamped

    def emit(self, batch: Batch) -> None:
        """Emits the batch that was stamped last, and the watermarks that it causes."""
        self._timed.emit(batch, self._emitting)

    def look(self, now: float) -> None:
        """Called at the interval, on a clock that stands still while the source cannot emit."""
        self._splits.look(now)
        self.align()

    @property
    def is_idle(self) -> bool:
        """Whether the source is idle."""
        return self._splits.is_idle

    def limited(self, limit: int) -> None:
        """Sets the limit of the alignment group."""
        if self._alignment is not None:
            self._alignment.limited(limit)
            self.align()

    def origin(self) -> WatermarkOrigin:
        """What determines the source's event time, for users."""
        alignment = None if self._alignment is None else self._alignment.status()
        return WatermarkOrigin(self._splits.progress(), True, self._idle_timeout_ms, alignment)

    def align(self) -> None:
        """Pauses what is too far ahead: the whole source, or single splits if the reader supports it."""
        if self._alignment is None:
            return
        self._alignment.came_to(self._splits.watermark)
        if self._pauses_splits and self._reader is not None:
            ahead, paused = self._splits.ahead_of(self._alignment.limit), self._splits.paused
            if ahead != paused:
                self._pause(self._reader, ahead, paused)

    def _pause(self, reader: SourceReader[Any], ahead: set[str], paused: set[str]) -> None:
        try:
            reader.pause_or_resume_splits(sorted(ahead - paused), sorted(paused - ahead))
        except NotImplementedError as error:
            if not self._allow_unaligned:
                raise InvalidProgramError(
                    f"split {min(ahead | paused)!r} is too far ahead of its alignment group, and its reader cannot "
                    "pause a single split: implement pause_or_resume_splits, or set "
                    f"{ALLOW_UNALIGNED} to have the source paused by its slowest split only"
                ) from error
            self._pauses_splits = False
        else:
            self._splits.paused = ahead

    def _rows_of(self, batch: Batch) -> list[Any]:
        return batch.to_rows(self._record_type).rows
