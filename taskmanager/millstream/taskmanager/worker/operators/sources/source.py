"""The source operator: polls a reader and communicates with its enumerator through the worker."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any, assert_never

from millstream.core.jobs.plan import plan
from millstream.core.jobs.progress import OperatorProgress, WatermarkOrigin
from millstream.core.jobs.state_kinds import StateKind
from millstream.core.messages.sources import Custom, EnumeratorEvent, NoMoreSplits, SplitRequest, Splits, WatermarkLimit
from millstream.core.overriding import override
from millstream.core.pickling import to_bytes
from millstream.core.records.batches import LAST_WATERMARK, Batch, ColumnBatch, RowBatch
from millstream.core.settings.configuration import Configuration
from millstream.datastream.connectors.base import PollStatus, Source, SourceReader, SourceReaderContext
from millstream.datastream.functions import OutputTag, RuntimeContext
from millstream.taskmanager.worker.interruption import TaskInterrupted
from millstream.taskmanager.worker.operators.base import NO_RECORD, Operator, OperatorError, RestoredElements
from millstream.taskmanager.worker.operators.registry import builds
from millstream.taskmanager.worker.operators.setup import OperatorSetup
from millstream.taskmanager.worker.operators.time.event_time import INTERVAL, Rhythm
from millstream.taskmanager.worker.operators.time.source_alignment import SourceAlignment
from millstream.taskmanager.worker.operators.time.source_time import ALLOW_UNALIGNED, SourceTime

log = logging.getLogger(__name__)


class ReaderContext(SourceReaderContext):
    """The context of a reader; the worker supplies the functions that it calls."""

    def __init__(
        self,
        runtime_context: RuntimeContext,
        host: str,
        send: Callable[[SplitRequest | Custom], None],
        wake_up: Callable[[], None],
        wake_up_in: Callable[[float], None],
        object_reuse: bool = False,
    ) -> None:
        self.runtime_context = runtime_context
        self.object_reuse = object_reuse
        self._host = host
        self._send = send
        self._wake_up = wake_up
        self._wake_up_in = wake_up_in
        self._side: dict[str, list[Any]] = {}
        self.split_ended: Callable[[str], None] = lambda split_id: None

    def split_finished(self, split_id: str) -> None:
        """The split does not hold the watermark back any more."""
        self.split_ended(split_id)

    def send_split_request(self) -> None:
        """Requests a split from the enumerator, through the task manager and the job manager."""
        self._send(SplitRequest(self._host))

    def send_source_event(self, event: Any) -> None:
        """Sends an event to the enumerator, in the same way."""
        self._send(Custom(to_bytes(event)))

    @override
    def wake_up(self) -> None:
        self._wake_up()

    def poll_again_in(self, seconds: float) -> None:
        """Uses a timer of the worker's loop."""
        self._wake_up_in(seconds)

    def output(self, tag: OutputTag, rows: list[Any]) -> None:
        """Buffers the rows until the poll is over."""
        self._side.setdefault(tag.tag_id, []).extend(rows)

    def take_side(self) -> dict[str, list[Any]]:
        """What the reader has emitted to side outputs since the last call."""
        if not self._side:
            return self._side
        taken, self._side = self._side, {}
        return taken


@builds(plan.SourceSpec)
class SourceOperator(Operator):
    """The head of a source task. `poll` replaces `process`; messages of the enumerator arrive as mails."""

    def __init__(self, setup: OperatorSetup, spec: plan.SourceSpec) -> None:
        super().__init__(setup)
        self._source: Source[Any] = spec.source
        self.polls_columns = self._source.produces_columns()
        self._reader_context = setup.services.make_reader_context(setup.context)
        self._most = setup.services.max_column_rows if self.polls_columns else setup.services.max_rows
        self._reader: SourceReader[Any] | None = None
        self._restored_splits: list[Any] = []
        self._time: SourceTime | None = None
        self._alignment: SourceAlignment | None = None
        self._held_up = setup.services.held_up
        if spec.strategy is not None:
            clock = setup.services.clock
            if spec.strategy.alignment is not None:
                report = setup.services.report_watermark
                self._alignment = SourceAlignment(spec.strategy.alignment, report, clock)
            self._time = SourceTime(
                spec.strategy,
                setup.output_type,
                self.name,
                setup.context,
                self.output.emit,
                super().on_signal,
                clock,
                self._alignment,
                Configuration(setup.services.options).get(ALLOW_UNALIGNED),
            )
            self._reader_context.split_ended = self._time.ended
        self._rhythm = Rhythm(Configuration(setup.services.options).get(INTERVAL) if self._time else 0)

    def restore(self, restored: RestoredElements) -> None:
        """Restores the splits of the reader."""
        self._restored_splits = restored.own()

    def open(self) -> None:
        """Creates and starts the reader; restored splits come before any that the enumerator assigns."""
        try:
            self._reader = self._source.create_reader(self._reader_context)
            if self._time is not None:
                self._time.open(self._reader)
            self._reader.start()
            if self._restored_splits:
                self._add_splits(self._reader, self._restored_splits)
        except TaskInterrupted:
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD, error) from error

    def poll(self, rows: int) -> Batch | PollStatus:
        """The reader's next batch of at most so many rows and those configured, or why there is none."""
        most = min(rows, self._most)
        result = self._guarded(lambda reader: reader.poll_next(most))
        if not isinstance(result, RowBatch | ColumnBatch | PollStatus):
            message = f"poll_next must return a RowBatch, a ColumnBatch or a PollStatus, not a {type(result).__name__}"
            raise OperatorError(self.name, NO_RECORD, TypeError(message))
        for tag, beside in self._reader_context.take_side().items():
            output = self.side_outputs.get(tag)
            if output is not None:
                output.emit(self.handed_over(RowBatch(beside)))
        if isinstance(result, PollStatus):
            return result
        batch = self.handed_over(result) if isinstance(result, RowBatch) else result
        time = self._time
        return batch if time is None else self._guarded(lambda _: time.stamped(batch))

    def emit_polled(self, batch: Batch) -> None:
        """Emits the batch with the watermarks that its records cause, and then aligns the splits."""
        time = self._time
        if time is None:
            self.output.emit(batch)
        else:
            time.emit(batch)
            self._guarded(lambda _: time.align())

    def on_time(self, now: float) -> float | None:
        """Checks at every interval whether event time has advanced."""
        time = self._time
        if time is not None and self._rhythm.is_due(now):
            self._guarded(lambda _: time.look(now - self._held_up()))
        if time is None or self._alignment is None:
            return self._rhythm.next
        self._alignment.look(now, time.is_idle)
        return min((due for due in (self._rhythm.next, self._alignment.next) if due is not None), default=None)

    @property
    def is_paused(self) -> bool:
        """Whether it is too far ahead of others of its alignment group."""
        return self._alignment is not None and self._alignment.is_paused

    def progress(self) -> OperatorProgress | None:
        """The progress of its event time, if it has any."""
        origin = WatermarkOrigin(makes_watermarks=False) if self._time is None else self._time.origin()
        return OperatorProgress(self.name, origin)

    def finish(self) -> None:
        """Advances event time to its end."""
        super().on_signal(LAST_WATERMARK)
        if self._alignment is not None:
            self._alignment.ended()

    def _add_splits(self, reader: SourceReader[Any], splits: list[Any]) -> None:
        if self._time is not None:
            self._time.begun(splits)
        reader.add_splits(splits)

    def elements(self, checkpoint_id: int) -> dict[StateKind, list[Any]]:
        """The splits that are not fully read, each with its position."""
        return {StateKind.SPLITS: self._guarded(lambda reader: reader.snapshot_state(checkpoint_id))}

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies the reader, for example to commit offsets externally."""
        self._guarded(lambda reader: reader.notify_checkpoint_complete(checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies the reader."""
        self._guarded(lambda reader: reader.notify_checkpoint_aborted(checkpoint_id))

    def on_mail(self, mail: Any) -> None:
        """Handles a message of the enumerator, or the limit of its alignment group."""
        time = self._time
        if isinstance(mail, WatermarkLimit) and time is not None:
            self._guarded(lambda _: time.limited(mail.watermark))
        if not isinstance(mail, EnumeratorEvent):
            return
        match mail.kind:
            case Splits(pickled):
                splits = pickle.loads(pickled)
                self._guarded(lambda reader: self._add_splits(reader, splits))
            case NoMoreSplits():
                self._guarded(lambda reader: reader.notify_no_more_splits())
            case Custom(pickled):
                event = pickle.loads(pickled)
                self._guarded(lambda reader: reader.handle_source_event(event))
            case _:
                assert_never(mail.kind)

    @override
    def close(self) -> None:
        if self._reader is not None:
            self._guarded(lambda reader: reader.close())

    def _guarded(self, call: Callable[[SourceReader[Any]], Any]) -> Any:
        assert self._reader is not None, "the reader is created in open"
        try:
            return call(self._reader)
        except (TaskInterrupted, OperatorError):
            raise
        except BaseException as error:
            raise OperatorError(self.name, NO_RECORD, error) from error
