"""The reader of a hybrid source: that of one source after the other, as the enumerator decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.core.overriding import override
from millstream.core.records.batches import Batch
from millstream.datastream.connectors.base import PollStatus, Source, SourceReader, SourceReaderContext
from millstream.datastream.connectors.hybrid.messages import Asked, Begin, Ended, HybridSplit, Inner, NoMore
from millstream.datastream.functions import OutputTag


class HybridReader(SourceReader[HybridSplit]):
    """Ends with the last source. Between two sources it has no splits, and its state is empty."""

    def __init__(self, context: SourceReaderContext, sources: Sequence[Source[Any]]) -> None:
        self._context = context
        self._sources = sources
        self._at = -1
        self._reader: SourceReader[Any] | None = None
        self._announced = False
        self._later: dict[int, list[Any]] = {}  # restored splits of sources behind the present one

    def _begin(self, source: int) -> None:
        self._at = source
        self._announced = True
        self._reader = self._sources[source].create_reader(_InnerContext(self._context, source))
        self._reader.start()
        if splits := self._later.pop(source, None):
            self._reader.add_splits(splits)

    def poll_next(self, max_rows: int) -> Batch | PollStatus:
        """The present source's next batch."""
        if self._reader is None:
            if not self._announced:  # restored splits, if there are any, have come by now
                self._announced = True
                self._context.send_source_event(Ended(-1))
            return PollStatus.NOTHING_AVAILABLE
        result = self._reader.poll_next(max_rows)
        if result is not PollStatus.END_OF_INPUT or self._at + 1 == len(self._sources):
            return result
        self._reader.close()
        self._reader = None
        if self._later:
            self._begin(min(self._later))
            return self.poll_next(max_rows)
        self._context.send_source_event(Ended(self._at))
        return PollStatus.NOTHING_AVAILABLE

    def current_split_id(self) -> str | None:
        """That of the present source's, among those of all sources."""
        own = self._reader.current_split_id() if self._reader is not None else None
        return None if own is None else f"{self._at}:{own}"

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str]) -> None:
        """Those of the present source; no other has been read."""
        if self._reader is not None:
            own = f"{self._at}:"
            pause, resume = (
                [split.removeprefix(own) for split in splits if split.startswith(own)]
                for splits in (splits_to_pause, splits_to_resume)
            )
            if pause or resume:
                self._reader.pause_or_resume_splits(pause, resume)

    def add_splits(self, splits: list[HybridSplit]) -> None:
        """Restored ones define the source to begin with; they may be of two, when the subtasks were not the same."""
        for split in splits:
            self._later.setdefault(split.source, []).append(split.split)
        if self._reader is None:
            self._begin(min(self._later))
        elif mine := self._later.pop(self._at, None):
            self._reader.add_splits(mine)

    def notify_no_more_splits(self) -> None:
        """Comes as an event, for one source."""

    def handle_source_event(self, event: Any) -> None:
        """An event of the enumerator, or of that of the present source."""
        match event:
            case Begin(source) if self._reader is None or self._at != source:
                self._begin(source)
            case NoMore(source) if self._reader is not None and self._at == source:
                self._reader.notify_no_more_splits()
            case Inner(source, inner) if self._reader is not None and self._at == source:
                self._reader.handle_source_event(inner)

    def snapshot_state(self, checkpoint_id: int) -> list[HybridSplit]:
        """The present source's splits."""
        held = [HybridSplit(source, split) for source, splits in self._later.items() for split in splits]
        if self._reader is None:
            return held
        return held + [HybridSplit(self._at, split) for split in self._reader.snapshot_state(checkpoint_id)]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies that of the present source."""
        if self._reader is not None:
            self._reader.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies that of the present source."""
        if self._reader is not None:
            self._reader.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        """Closes the present source's."""
        if self._reader is not None:
            self._reader.close()


class _InnerContext(SourceReaderContext):
    """What the reader of one source can do."""

    def __init__(self, context: SourceReaderContext, source: int) -> None:
        self.runtime_context = context.runtime_context
        self.object_reuse = context.object_reuse
        self._context = context
        self._source = source

    def send_split_request(self) -> None:
        """For this source."""
        self._context.send_source_event(Asked(self._source))

    def send_source_event(self, event: Any) -> None:
        """To this source's enumerator."""
        self._context.send_source_event(Inner(self._source, event))

    @override
    def wake_up(self) -> None:
        self._context.wake_up()

    @override
    def poll_again_in(self, seconds: float) -> None:
        self._context.poll_again_in(seconds)

    def split_finished(self, split_id: str) -> None:
        """Among the splits of all sources."""
        self._context.split_finished(f"{self._source}:{split_id}")

    @override
    def output(self, tag: OutputTag, rows: list[Any]) -> None:
        self._context.output(tag, rows)
