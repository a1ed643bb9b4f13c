"""The messages between source readers, split enumerators and the job manager."""

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
    """The reader, on this host, requests another split."""

    host: str


class Custom(Struct, frozen=True):
    """A custom event of the connector, pickled."""

    event: bytes


class SplitsReturned(Struct, frozen=True):
    """A pickled list of splits that were assigned to a lost reader."""

    splits: bytes


class ReaderEvent(Struct, frozen=True):
    """An event of a reader; the job manager forwards only those of the current attempt."""

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
    """The reader gets no more splits."""


class EnumeratorEvent(Struct, frozen=True):
    """An event for a reader; the job manager adds the reader's location."""

    job_id: JobId
    vertex_id: VertexId
    subtask: int
    kind: Splits | NoMoreSplits | Custom
    allocation_id: AllocationId = NO_ALLOCATION
    attempt_id: AttemptId = NO_ATTEMPT


# Readers whose event time is aligned, and the job manager


class WatermarkReport(Struct, frozen=True):
    """The watermark of a reader of an alignment group, and the maximum drift."""

    job_id: JobId
    attempt_id: AttemptId
    group: str
    max_drift_ms: int
    watermark: int
    """The maximum watermark if no other reader has to wait for this one, because it is idle or has ended."""


class WatermarkLimit(Struct, frozen=True):
    """The response to a report: the reader waits while its watermark is above this."""

    allocation_id: AllocationId
    attempt_id: AttemptId
    watermark: int


# The job manager and the enumerator process


class RunningReader(Struct, frozen=True):
    """A running reader, and the pickled lists of splits that were assigned to it after the enumerator's state."""

    subtask: int
    splits: tuple[bytes, ...] = ()


class SourceToEnumerate(Struct, frozen=True):
    """A source whose enumerator is to be started; it is restored if there is a state."""

    vertex_id: VertexId
    name: str
    parallelism: int
    source: bytes
    state: bytes = b""
    readers: tuple[RunningReader, ...] = ()
    """For an enumerator that takes over running readers: all of them."""


class StartEnumerators(Struct, frozen=True):
    """The first command."""

    job_id: JobId
    sources: tuple[SourceToEnumerate, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)


class SnapshotEnumerators(Struct, frozen=True):
    """Requests the states of all enumerators, for this checkpoint."""

    checkpoint_id: int


class ResetSource(Struct, frozen=True):
    """Restarts the enumerator of a source for this number of readers, from this state unless it is empty."""

    vertex_id: VertexId
    state: bytes = b""
    parallelism: int = 1


class Stop(Struct, frozen=True):
    """The last command."""


EnumeratorsCommand = StartEnumerators | ReaderEvent | SnapshotEnumerators | CheckpointNotice | ResetSource | Stop
"""From the job manager to the enumerator process."""


class Ready(Struct, frozen=True):
    """All enumerators have started; later: a reset or a return of splits is complete."""


class TakeoverRefused(Struct, frozen=True):
    """Instead of the first `Ready`: the enumerator cannot continue, because splits were assigned since its state."""

    reason: str


class EnumeratorsSnapshot(Struct, frozen=True):
    """The states of all enumerators by vertex, or what could not be captured."""

    checkpoint_id: int
    states: Mapping[str, bytes] = field(default_factory=dict)
    error: str = ""
    failure: TaskFailure | None = None


class EnumeratorFigures(Struct, frozen=True):
    """The figures of an enumerator since its start."""

    vertex_id: VertexId
    readers: int = 0
    """The number of registered readers."""
    splits_assigned: int = 0
    splits_returned: int = 0
    """The splits of readers that failed."""
    events_in: int = 0
    """The events from readers, such as requests for splits."""
    events_out: int = 0
    """The events to readers, such as assignments."""
    unassigned_splits: int | None = None
    """None if the enumerator does not report it."""


EnumeratorsMessage = Ready | TakeoverRefused | EnumeratorEvent | TaskFailure | EnumeratorsSnapshot | EnumeratorFigures
"""From the enumerator process to the job manager."""
