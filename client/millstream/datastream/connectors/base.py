"""The interfaces that every connector implements.

A source is made of splits. Its `SplitEnumerator` runs once per job, in the job's enumerator process, and hands splits
to the `SourceReader`s, one in each subtask of the source. Readers are polled by the slot worker's loop and must not
block: one that waits for another system fetches in a thread (`FetchingReader`), or calls `context.wake_up()` itself
when it has records. A sink makes one `SinkWriter` in each subtask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Generic

from millstream.core.environments.data_files import DataFile
from millstream.core.records.batches import Batch
from millstream.core.records.type_variables import SplitT, T_co, T_contra
from millstream.core.records.types import PICKLED, TypeInformation
from millstream.datastream.functions import CheckpointListener, OutputTag, RuntimeContext


class Boundedness(Enum):
    """Whether a source ends."""

    BOUNDED = "BOUNDED"
    CONTINUOUS_UNBOUNDED = "CONTINUOUS_UNBOUNDED"


class PollStatus(Enum):
    """The result of `poll_next` when a reader has no batch."""

    NOTHING_AVAILABLE = "nothing available"  # poll again after wake_up, new splits, or poll_again_at
    END_OF_INPUT = "end of input"


class SourceReaderContext(ABC):
    """What a reader can do. `wake_up` may be called from any thread, the rest only from the reader's calls."""

    runtime_context: RuntimeContext
    object_reuse: bool = False
    """`pipeline.object-reuse`: records are passed on as they are, even if other functions change them."""

    @abstractmethod
    def send_split_request(self) -> None:
        """Requests a split from the enumerator; a call of `add_splits` or `notify_no_more_splits` follows."""

    @abstractmethod
    def send_source_event(self, event: Any) -> None:
        """Sends anything picklable to the enumerator."""

    @abstractmethod
    def wake_up(self) -> None:
        """Has the reader polled again. Thread-safe."""

    @abstractmethod
    def poll_again_in(self, seconds: float) -> None:
        """Has the reader polled again after this time, for readers that keep to a rate."""

    def split_finished(self, split_id: str) -> None:  # noqa: B027  # a hook: few contexts have to know
        """Reports that a split was read to its end, so that event time does not wait for it."""

    def output(self, tag: OutputTag[Any], rows: list[Any]) -> None:
        """Sends records to a side output of the source; only from `poll_next`, with whose batch they leave."""
        raise NotImplementedError("this context has no side outputs")


class SourceReader(CheckpointListener, ABC, Generic[SplitT]):
    """Reads splits in one subtask.

    What another system shows of its position, such as the offsets of a consumer group, is to be written in
    `notify_checkpoint_complete`. Splits that were read to their end are not in `snapshot_state`: a reader that has to
    report them too remembers them itself.
    """

    def start(self) -> None:  # a hook: most readers need none
        """Called once, before anything else. The place for the first split request."""

    @abstractmethod
    def poll_next(self, max_rows: int, /) -> Batch | PollStatus:
        """Returns the next batch of at most `max_rows` rows without blocking, or the reason why there is none."""

    @abstractmethod
    def add_splits(self, splits: list[SplitT], /) -> None:
        """Called when the enumerator assigned splits."""

    @abstractmethod
    def notify_no_more_splits(self) -> None:
        """Called when no further splits will come; the reader ends after those that it has."""

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, /) -> list[SplitT]:
        """The splits that are not read to their end, each with its position."""

    def current_split_id(self) -> str | None:  # a hook
        """Returns the split of the last batch, for readers whose batches are of one split each.

        Such a source has event time split by split, and calls `context.split_finished` at the end of each.
        """
        return None

    def pause_or_resume_splits(self, splits_to_pause: list[str], splits_to_resume: list[str], /) -> None:  # a hook
        """Pauses and resumes splits, for readers that may have several: a paused split returns no batches.

        Called when event time is aligned (`WatermarkStrategy.with_watermark_alignment`) and one of several splits is
        too far ahead: the others are read on. A reader that is ahead with all its splits is not polled at all. One
        without this method fails its job then, unless `pipeline.watermark-alignment.allow-unaligned-source-splits`.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no pause_or_resume_splits")

    def handle_source_event(self, event: Any, /) -> None:  # a hook
        """Called with what the enumerator sent."""

    def close(self) -> None:  # a hook
        """Called once, also after a failure."""


def split_id_of(split: Any) -> str | None:
    """The id of a split, if it has one: the attribute, or the result of the method, as in Flink."""
    found = getattr(split, "split_id", None)
    return str(found() if callable(found) else found) if found is not None else None


class SplitEnumeratorContext(ABC, Generic[SplitT]):
    """What an enumerator can do. All calls come from, and are made on, the enumerators' one thread.

    What is for a reader needs one that is registered: anything else is an error, for it would be lost.
    """

    @abstractmethod
    def current_parallelism(self) -> int:
        """The number of readers."""

    @abstractmethod
    def registered_readers(self) -> set[int]:
        """The subtasks whose readers have started."""

    @abstractmethod
    def assign_splits(self, splits: list[SplitT], subtask: int) -> None:
        """Assigns splits to a reader. Raises an error unless the reader is registered."""

    @abstractmethod
    def signal_no_more_splits(self, subtask: int) -> None:
        """Notifies a reader that it has all its splits. Raises an error unless the reader is registered."""

    @abstractmethod
    def send_event_to_reader(self, subtask: int, event: Any) -> None:
        """Sends anything picklable to a reader."""

    @abstractmethod
    def call_async(
        self, work: Callable[[], Any], then: Callable[[Any, BaseException | None], None], delay: float = 0
    ) -> None:
        """Runs blocking `work` on another thread, then `then(result, error)` on the enumerators'.

        With a `delay` in seconds it begins later, if the enumerator is still open.
        """


class SplitEnumerator(CheckpointListener, ABC, Generic[SplitT]):
    """Finds splits and hands them out. It is notified of completed checkpoints, not of aborted ones."""

    def start(self) -> None:  # a hook
        """Called once, before anything else."""

    @abstractmethod
    def handle_split_request(self, subtask: int, host: str, /) -> None:
        """Called when a reader requests a split: assign one, or signal that there are none, now or later."""

    @abstractmethod
    def add_splits_back(self, splits: list[SplitT], subtask: int, /) -> None:
        """A reader failed before these splits were part of a checkpoint: hand them out again."""

    def add_reader(self, subtask: int, /) -> None:  # a hook
        """A reader has started."""

    def take_over(self, assigned: dict[int, list[SplitT]], /) -> bool:
        """Continues with readers that run already; returns whether that is possible, else the job restarts.

        Called once after `start`, in place of `add_reader`, when another job manager comes to lead a job whose tasks
        still run. The enumerator is new: it has the state of the last checkpoint. `assigned` has all readers, which
        count as registered, each with the splits that it was given after that checkpoint: they must not be handed out
        again. Open requests for splits are repeated. Without a method of its own, an enumerator
        continues only with readers that no split was assigned to since.
        """
        if any(assigned.values()):
            return False
        for subtask in sorted(assigned):
            self.add_reader(subtask)
        return True

    def handle_source_event(self, subtask: int, event: Any, /) -> None:  # a hook
        """A reader sent an event."""

    def unassigned_splits(self) -> int | None:  # a hook
        """How many splits are known that no reader was given, for the metric `unassignedSplits`; None: unknown.

        Called now and then, between two other calls.
        """
        return None

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, /) -> Any:
        """What `Source.restore_enumerator` needs, picklable: the splits not assigned yet, for most."""

    def close(self) -> None:  # a hook
        """Called once, also after a failure."""


class Source(ABC, Generic[SplitT, T_co]):
    """A source: `Source[Split]` reads splits of a class, and `Source[Split, Record]` also declares its records.

    It has to be picklable: the enumerator process and the readers receive a copy each.
    """

    def __class_getitem__(cls, arguments: Any) -> Any:
        """`Source[Split]` is `Source[Split, Any]`, as for type checkers."""
        given = arguments if isinstance(arguments, tuple) else (arguments,)
        if cls is Source and len(given) == 1:
            given = (*given, Any)
        return super().__class_getitem__(given)  # type: ignore[misc]  # that of Generic, which type checkers leave out

    @abstractmethod
    def get_boundedness(self) -> Boundedness:
        """Whether it ends."""

    @abstractmethod
    def create_enumerator(self, context: SplitEnumeratorContext[SplitT], /) -> SplitEnumerator[SplitT]:
        """Called in the enumerator process when the job starts without state; returns the enumerator.

        With `context` it assigns splits to readers and runs blocking work on another thread.
        """

    @abstractmethod
    def restore_enumerator(self, context: SplitEnumeratorContext[SplitT], state: Any, /) -> SplitEnumerator[SplitT]:
        """Called in the enumerator process when the job starts from a snapshot; returns the enumerator.

        `state` is the result of the enumerator's `snapshot_state`, and `context` that of `create_enumerator`.
        """

    @abstractmethod
    def create_reader(self, context: SourceReaderContext, /) -> SourceReader[SplitT]:
        """Called in each subtask; returns its reader, which requests splits and wakes its task up through `context`."""

    def get_produced_type(self) -> TypeInformation[T_co]:
        """Returns the type of the records; by default they are pickled."""
        return PICKLED

    def shipped(self, folder: Callable[[], Path], /) -> tuple[Source[SplitT, T_co], Sequence[DataFile]]:
        """The source as it goes into the job graph, and files that it wrote to the folder for its readers.

        For sources that hold much data: what is in the graph is copied from service to service.
        """
        return self, ()

    def side_outputs(self) -> tuple[OutputTag[Any], ...]:
        """The side outputs that its readers send records to; a program has to read each of them."""
        return ()

    def produces_columns(self) -> bool:
        """Returns whether its readers return Arrow batches, which are larger than batches of Python objects."""
        return False

    def keeps_records(self) -> bool:
        """Returns whether a reader may keep records that it returned, or return one twice: then they are copied."""
        return True


class SinkWriter(CheckpointListener, ABC):
    """Writes in one subtask. `flush` comes before the barrier of a checkpoint, and the notification of it after."""

    @abstractmethod
    def write(self, batch: Batch, /) -> None:
        """Called with each batch, whose records are the writer's own. Blocking here is backpressure."""

    def flush(self, end_of_input: bool, /) -> None:  # a hook
        """Called when everything written has to be out: at the end of the input, before `close`."""

    def close(self) -> None:  # a hook
        """Called once, also after a failure; without `flush` before it, the input did not end."""


class Sink(ABC, Generic[T_contra]):
    """A sink: `Sink[str]` writes text. `TwoPhaseCommitSink` is the base of sinks that are exactly-once.

    It has to be picklable: each subtask receives a copy.
    """

    is_transactional: ClassVar[bool] = False
    """Whether what it writes belongs to transactions, which are part of checkpoints."""
    reads_timestamps: ClassVar[bool] = True
    """Whether its writers may read the timestamps of batches. Records that no operator reads them of have none."""

    def for_type(self, record_type: TypeInformation, /) -> Sink[T_contra]:
        """Returns the sink for records of `record_type`; called when the program passes it to a stream."""
        return self

    @abstractmethod
    def create_writer(self, context: RuntimeContext, /) -> SinkWriter:
        """Called in each subtask with its runtime `context`; returns the writer of the subtask."""


class DeliveryGuarantee(Enum):
    """How often a sink writes a record in spite of failures; the page of each connector states its guarantee."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"


class StreamTransformer(ABC):
    """Transforms a stream before a sink."""

    @abstractmethod
    def apply(self, ds: Any, /) -> Any:
        """Returns the stream to write, for the stream that is passed to `sink_to`."""


class SupportsPreprocessing(ABC):
    """A sink that may have a stream changed before it: `sink_to` does it."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """What changes it, if anything."""
