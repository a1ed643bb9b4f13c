"""What a task waits for, as its worker reports it: the facts that say why nothing comes out of a job.

Gathered when metrics are reported, and only then. Times of the calendar are in milliseconds, watermarks in event time.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from millstream.core.records.batches import MIN_TIMESTAMP


class StreamTime(Struct, frozen=True):
    """One of several streams that event time is made of."""

    name: str
    """A producer's task, or a split; empty where a source does not distinguish its splits."""
    watermark: int
    moved_at: int = 0
    """When its watermark moved last; until then, when the stream began."""
    record_at: int = 0
    """When a record came last, where watermarks are made; 0: none came."""
    idle: bool = False
    paused: bool = False
    """A split that waits for others of its alignment group."""


class EventTime(Struct, frozen=True):
    """What the channels of a task, or the splits of a source, together say of event time."""

    watermark: int = MIN_TIMESTAMP
    idle: bool = False
    """All of them are."""
    streams: int = 0
    idle_streams: int = 0
    highest: int = MIN_TIMESTAMP
    """Of those that are not idle."""
    slowest: tuple[StreamTime, ...] = ()
    """A few of those that are not idle, the slowest first; of the idle ones, if all are."""


class AlignmentStatus(Struct, frozen=True):
    """Of a source whose event time is aligned with that of others."""

    group: str
    limit: int
    drift_ms: int = 0
    """How far it is ahead of the slowest of the group, as far as that is known."""
    paused_since: int = 0
    """0: it does not wait."""


class WatermarkOrigin(Struct, frozen=True):
    """An operator that makes watermarks, or a source that does not."""

    time: EventTime = field(default_factory=EventTime)
    makes_watermarks: bool = True
    idle_timeout_ms: int | None = None
    """None: none of its streams becomes idle by itself."""
    alignment: AlignmentStatus | None = None


COUNTED = 10_000
"""Windows and timers of single keys are counted up to here: that there are more is enough to know."""
COUNTED_OF_ALL_KEYS = 1_000


class TimedKind(StrEnum):
    """What it is that waits, and how it is counted."""

    WINDOWS = "WINDOWS"
    """Of single keys, up to `COUNTED`."""
    WINDOWS_OF_ALL_KEYS = "WINDOWS_OF_ALL_KEYS"
    """Of columns: each counts once, however many keys it has; those of `COUNTED_OF_ALL_KEYS` panes."""
    SESSIONS = "SESSIONS"
    """Of columns: there are at most so many, since records have not been merged yet."""
    TIMERS = "TIMERS"
    """Keys that have any, up to `COUNTED`."""


class TimedWork(Struct, frozen=True):
    """Windows, or timers of a process function, that wait for their time."""

    kind: TimedKind
    open: int
    records: int = 0
    """That windows took since one of them fired last; if none has, since the task started."""
    next_event_time: int | None = None
    next_processing_time: int | None = None


class KeptRecords(Struct, frozen=True):
    """Of an interval join: what it keeps of both streams, for partners that are to come."""

    left: int = 0
    right: int = 0
    left_came: int = 0
    """Since the task started."""
    right_came: int = 0
    next_event_time: int | None = None
    """When the oldest can go; before that, only more come."""


class PendingCalls(Struct, frozen=True):
    """Of an asynchronous function."""

    under_way: int = 0
    """Records whose results have not come."""
    full: bool = False
    """It takes no more records: there are as many as its capacity allows."""
    waiting_since: int = 0
    """No result has left since then; 0: there is nothing to wait for."""


class AwaitingEnd(Struct, frozen=True):
    """Of an operator of a batch, which has results only when its input has ended."""

    records: int = 0
    """That it has taken so far."""


class NonePassed(Struct, frozen=True):
    """Of an operator that has not emitted anything since the task started, and has nothing else to say."""

    records: int = 0
    """That it has taken."""


class PendingCommits(Struct, frozen=True):
    """Of a sink that writes into transactions."""

    pre_committed: int = 0
    """Transactions that wait for a checkpoint to complete."""
    waiting_since: int = 0
    """When the oldest record was written that is not committed; 0: all are."""


class OperatorProgress(Struct, frozen=True):
    """What one operator has to say."""

    operator: str
    kind: WatermarkOrigin | TimedWork | KeptRecords | PendingCalls | PendingCommits | AwaitingEnd | NonePassed


class TaskProgress(Struct, frozen=True):
    """Of one task."""

    inputs: EventTime | None = None
    """None: it has none."""
    operators: tuple[OperatorProgress, ...] = ()
    """Of those that have something to say, in the order of the chain."""
