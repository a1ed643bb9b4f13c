"""The progress of a task, as its worker reports it: the facts from which stalls of a job are explained.

Collected only when metrics are reported. Dates are in milliseconds, watermarks in event time.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from millstream.core.records.batches import MIN_TIMESTAMP


class StreamTime(Struct, frozen=True):
    """One of the streams that determine event time."""

    name: str
    """A producer's task, or a split; empty where a source does not distinguish its splits."""
    watermark: int
    moved_at: int = 0
    """The time of its last watermark; before the first one, the start of the stream."""
    record_at: int = 0
    """The time of the last record, where watermarks are generated; 0: none yet."""
    idle: bool = False
    paused: bool = False
    """A split that waits for others of its alignment group."""


class EventTime(Struct, frozen=True):
    """The event time of all channels of a task, or of all splits of a source."""

    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    """Whether all of them are idle."""
    streams: int = 0
    idle_streams: int = 0
    highest: int = MIN_TIMESTAMP
    """Of those that are not idle."""
    slowest: tuple[StreamTime, ...] = ()
    """Some of the streams that are not idle, the slowest first; idle ones if all are idle."""


class AlignmentStatus(Struct, frozen=True):
    """The state of a source whose event time is aligned with that of others."""

    group: str
    limit: int
    drift_ms: int = 0
    """How far it is ahead of the slowest of the group, if known."""
    paused_since: int = 0
    """0: it does not wait."""


class WatermarkOrigin(Struct, frozen=True):
    """An operator that generates watermarks, or a source that does not."""

    time: EventTime = field(default_factory=EventTime)
    makes_watermarks: bool = True
    idle_timeout_ms: int | None = None
    """The idle timeout; None: its streams never become idle."""
    alignment: AlignmentStatus | None = None


COUNTED = 10_000
"""The maximum up to which windows and timers of single keys are counted."""
COUNTED_OF_ALL_KEYS = 1_000


class TimedKind(StrEnum):
    """The kind of waiting work, and how it is counted."""

    WINDOWS = "WINDOWS"
    """Windows of single keys, up to `COUNTED`."""
    WINDOWS_OF_ALL_KEYS = "WINDOWS_OF_ALL_KEYS"
    """Of columns: each counts once, however many keys it has; those of `COUNTED_OF_ALL_KEYS` panes."""
    SESSIONS = "SESSIONS"
    """Of columns: there are at most so many, since records have not been merged yet."""
    TIMERS = "TIMERS"
    """Keys with timers, up to `COUNTED`."""


class TimedWork(Struct, frozen=True):
    """Windows, or timers of a process function, that wait for their time."""

    kind: TimedKind
    open: int
    records: int = 0
    """The records that windows received since the last firing, or since the task started."""
    next_event_time: int | None = None
    next_processing_time: int | None = None


class KeptRecords(Struct, frozen=True):
    """The records that an interval join keeps of both streams for matching records to come."""

    left: int = 0
    right: int = 0
    left_came: int = 0
    """Since the task started."""
    right_came: int = 0
    next_event_time: int | None = None
    """The event time at which the oldest can be removed."""


class PendingCalls(Struct, frozen=True):
    """The pending calls of an asynchronous function."""

    under_way: int = 0
    """The number of records without results."""
    full: bool = False
    """Whether its capacity is used up, so that it accepts no more records."""
    waiting_since: int = 0
    """The time since which no result was emitted; 0: there are no pending calls."""


class AwaitingEnd(Struct, frozen=True):
    """An operator of a batch job, which emits results only when its input has ended."""

    records: int = 0
    """The number of records received so far."""


class NonePassed(Struct, frozen=True):
    """An operator that has emitted nothing since the task started, and reports nothing else."""

    records: int = 0
    """The number of records received."""


class PendingCommits(Struct, frozen=True):
    """The pending transactions of a sink."""

    pre_committed: int = 0
    """Transactions that wait for a checkpoint to complete."""
    waiting_since: int = 0
    """When the oldest uncommitted record was written; 0: there is none."""


class OperatorProgress(Struct, frozen=True):
    """The progress of one operator."""

    operator: str
    kind: WatermarkOrigin | TimedWork | KeptRecords | PendingCalls | PendingCommits | AwaitingEnd | NonePassed


class TaskProgress(Struct, frozen=True):
    """The progress of one task."""

    inputs: EventTime | None = None
    """None: it has none."""
    operators: tuple[OperatorProgress, ...] = ()
    """The operators that report progress, in the order of the chain."""
