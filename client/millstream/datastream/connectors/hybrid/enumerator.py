"""The enumerator of a hybrid source: that of one source after the other.

It proceeds to the next source when every reader has come to the end of the one that it is at. A reader that failed and
was restored may be behind: its checkpoint is older than the last switch. It then gets back what it had been given of
the earlier sources since that checkpoint, and is led through them, while the others continue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.core.errors import UnrecoverableError
from millstream.core.overriding import override
from millstream.datastream.connectors.base import Source, SplitEnumerator, SplitEnumeratorContext
from millstream.datastream.connectors.errors import ConnectorError
from millstream.datastream.connectors.hybrid.messages import (
    Asked,
    Begin,
    Ended,
    HybridSplit,
    HybridState,
    Inner,
    NoMore,
)


class HybridEnumerator(SplitEnumerator[HybridSplit]):
    """The enumerator of all sources; `state` is that of an earlier hybrid enumerator."""

    def __init__(
        self,
        context: SplitEnumeratorContext[HybridSplit],
        sources: Sequence[Source[Any]],
        state: HybridState | None = None,
    ) -> None:
        self._context = context
        self._sources = sources
        self._at = 0 if state is None else state.source
        self._earlier: dict[int, list[HybridSplit]] = {}  # by the reader that had them before it failed
        self._readers: dict[int, int] = {}  # the source that each registered reader is at; -1: none yet
        self._ended: set[int] = set()  # the readers that have come to the end of the present source
        if self._at >= len(sources):
            raise UnrecoverableError(
                f"the snapshot was taken while the hybrid source read its source number {self._at + 1}, and the "
                f"program now has {len(sources)}: restore with the sources that it had, or give it another uid and "
                "start with --allowNonRestoredState"
            )
        own = _InnerContext(context, self._at, self.readers_of)
        source = sources[self._at]
        self._inner = source.create_enumerator(own) if state is None else source.restore_enumerator(own, state.inner)

    def start(self) -> None:
        """Starts the present source's."""
        self._inner.start()

    def readers_of(self, source: int) -> set[int]:
        """The readers that are at a source."""
        return {subtask for subtask, at in self._readers.items() if at == source}

    def add_reader(self, subtask: int) -> None:
        """It requests a source to begin with by itself, if it needs one."""
        self._readers[subtask] = -1
        self._ended.discard(subtask)

    def handle_split_request(self, subtask: int, host: str) -> None:
        """Readers of a hybrid source send their requests as events, which name the source."""
        raise AssertionError("a reader of a hybrid source sends its requests as events")

    def handle_source_event(self, subtask: int, event: Any) -> None:
        """An event of a reader, or of a reader inside of it."""
        match event:
            case Asked(source):
                self._arrived(subtask, source)
                if source == self._at:
                    self._inner.handle_split_request(subtask, "")
                else:
                    self._give_earlier(subtask, source)
            case Ended(source):
                self._arrived(subtask, source)
                self._lead_on(subtask, source)
            case Inner(source, inner):
                self._arrived(subtask, source)
                if source == self._at:
                    self._inner.handle_source_event(subtask, inner)

    def _arrived(self, subtask: int, source: int) -> None:
        """A reader that has restored splits is at their source without a message."""
        if self._readers.get(subtask, -1) < source:
            self._readers[subtask] = source
            if source == self._at:
                self._inner.add_reader(subtask)

    def _give_earlier(self, subtask: int, source: int) -> None:
        mine = self._earlier.get(subtask, [])
        splits = [split for split in mine if split.source == source]
        self._earlier[subtask] = [split for split in mine if split.source != source]
        if splits:
            self._context.assign_splits(splits, subtask)
        self._context.send_event_to_reader(subtask, NoMore(source))

    def _lead_on(self, subtask: int, source: int) -> None:
        if source < self._at:
            later = [split.source for split in self._earlier.get(subtask, []) if split.source > source]
            self._begin(subtask, min([*later, self._at]))
            return
        self._ended.add(subtask)
        if len(self._ended) < self._context.current_parallelism() or self._at + 1 == len(self._sources):
            return
        self._inner.close()
        self._at += 1
        self._ended.clear()
        own = _InnerContext(self._context, self._at, self.readers_of)
        self._inner = self._sources[self._at].create_enumerator(own)
        self._inner.start()
        for reader in sorted(self._readers):
            self._begin(reader, self._at)

    def _begin(self, subtask: int, source: int) -> None:
        self._readers[subtask] = source
        if source == self._at:
            self._inner.add_reader(subtask)
        self._context.send_event_to_reader(subtask, Begin(source))

    def add_splits_back(self, splits: list[HybridSplit], subtask: int) -> None:
        """Those of the present source are for any reader, those of earlier ones for this reader when it is back."""
        self._readers.pop(subtask, None)
        self._ended.discard(subtask)
        present = [split.split for split in splits if split.source == self._at]
        earlier = [split for split in splits if split.source < self._at]
        if earlier:
            self._earlier.setdefault(subtask, []).extend(earlier)
        self._inner.add_splits_back(present, subtask)

    def unassigned_splits(self) -> int | None:
        """Those of the present source."""
        return self._inner.unassigned_splits()

    def snapshot_state(self, checkpoint_id: int) -> HybridState:
        """Where it is. Splits of an earlier source are not part of it: they are with a reader a moment later."""
        if any(self._earlier.values()):
            raise ConnectorError("hybrid source: a reader has still to come for splits of an earlier source")
        return HybridState(self._at, self._inner.snapshot_state(checkpoint_id))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies that of the present source."""
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        """Closes the present source's."""
        self._inner.close()


class _InnerContext(SplitEnumeratorContext[Any]):
    """What the enumerator of one source can do: only with readers that are at that source."""

    def __init__(
        self, context: SplitEnumeratorContext[HybridSplit], source: int, readers_of: Callable[[int], set[int]]
    ) -> None:
        self._context = context
        self._source = source
        self._readers_of = readers_of

    @override
    def current_parallelism(self) -> int:
        return self._context.current_parallelism()

    def registered_readers(self) -> set[int]:
        """Those at this source."""
        return self._readers_of(self._source) & self._context.registered_readers()

    def assign_splits(self, splits: list[Any], subtask: int) -> None:
        """With the source's number."""
        self._context.assign_splits([HybridSplit(self._source, split) for split in splits], subtask)

    def signal_no_more_splits(self, subtask: int) -> None:
        """Of this source: others may follow."""
        self._context.send_event_to_reader(subtask, NoMore(self._source))

    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        """To the reader inside."""
        self._context.send_event_to_reader(subtask, Inner(self._source, event))

    @override
    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        self._context.call_async(work, then, delay)
