"""What source readers, split enumerators and the job manager send each other."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import NO_ALLOCATION, NO_ATTEMPT, AllocationId, AttemptId, JobId, VertexId
from millstream.core.messages.checkpoints import CheckpointNotice

# From a reader to its enumerator


class Registered(Struct, frozen=True):
    """The reader has started."""


class SplitRequest(Struct, frozen=True):
    """The reader, on this host, wants another split."""

    host: str


class Custom(Struct, frozen=True):
    """Something of the connector's own, pickled."""

    event: bytes


class SplitsReturned(Struct, frozen=True):
    """A pickled list of splits that a lost reader had been given."""

    splits: bytes


class ReaderEvent(Struct, frozen=True):
    """The job manager passes on only what comes of the current attempt."""

    job_id: JobId
    vertex_id: VertexId
    subtask: int
    kind: Registered | SplitRequest | Custom | SplitsReturned
    attempt_id: AttemptId = NO_ATTEMPT


# From an enumerator to one reader


class Splits(Struct, frozen=True):
    """A pickled list of splits."""

    splits: bytes


class NoMoreSplits(Struct, frozen=True):
    """The reader has all its splits."""


class EnumeratorEvent(Struct, frozen=True):
    """The job manager adds where the reader runs."""

    job_id: JobId
    vertex_id: VertexId
    subtask: int
    kind: Splits | NoMoreSplits | Custom
    allocation_id: AllocationId = NO_ALLOCATION
    attempt_id: AttemptId = NO_ATTEMPT


# Readers whose event time is aligned, and the job manager


class WatermarkReport(Struct, frozen=True):
    """How far a reader of an alignment group is, and how far it may be ahead of the others."""

    job_id: JobId
    attempt_id: AttemptId
    group: str
    max_drift_ms: int
    watermark: int
    """The highest there is when no other reader has to wait for this one: it is idle, or has come to its end."""


class WatermarkLimit(Struct, frozen=True):
    """The response to a report: the reader waits while its watermark is above this."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    watermark: int


# The job manager and the enumerator process


class RunningReader(Struct, frozen=True):
    """A reader that runs on, and the pickled lists of splits that it was given after the enumerator's state."""

    subtask: int
    splits: tuple[bytes, ...] = ()


class SourceToEnumerate(Struct, frozen=True):
    """A source whose enumerator is wanted; with a state, it continues from there."""

    vertex_id: VertexId
    name: str
    parallelism: int
    source: bytes
    state: bytes = b""
    readers: tuple[RunningReader, ...] = ()
    """Of an enumerator that takes over from one that is gone: all of them."""


class StartEnumerators(Struct, frozen=True):
    """The first command."""

    job_id: JobId
    sources: tuple[SourceToEnumerate, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)


class SnapshotEnumerators(Struct, frozen=True):
    """The states of all enumerators are wanted, for this checkpoint."""

    checkpoint_id: int


class ResetSource(Struct, frozen=True):
    """The source starts again, for so many readers: from this state of its enumerator, or from nothing if empty."""

    vertex_id: VertexId
    state: bytes = b""
    parallelism: int = 1


class Stop(Struct, frozen=True):
    """The last command."""


EnumeratorsCommand = StartEnumerators | ReaderEvent | SnapshotEnumerators | CheckpointNotice | ResetSource | Stop
"""From the job manager to the enumerator process."""


class Ready(Struct, frozen=True):
    """All enumerators have started; later: one reset or one return of splits is done."""


class TakeoverRefused(Struct, frozen=True):
    """In place of the first `Ready`: the enumerator cannot continue, for splits were assigned since its state."""

    reason: str


class EnumeratorsSnapshot(Struct, frozen=True):
    """The states of all enumerators by vertex, or what could not be captured."""

    checkpoint_id: int
    states: Mapping[str, bytes] = field(default_factory=dict)
    error: str = ""
    failure: TaskFailure | None = None


class EnumeratorFigures(Struct, frozen=True):
    """What an enumerator has done since it was started, and what is left for it to do."""

    vertex_id: VertexId
    readers: int = 0
    """That have registered."""
    splits_assigned: int = 0
    splits_returned: int = 0
    """Of readers that failed."""
    events_in: int = 0
    """Of readers, such as requests for splits."""
    events_out: int = 0
    """To readers, such as assignments."""
    unassigned_splits: int | None = None
    """None: it does not say."""


EnumeratorsMessage = Ready | TakeoverRefused | EnumeratorEvent | TaskFailure | EnumeratorsSnapshot | EnumeratorFigures
"""From the enumerator process to the job manager."""
