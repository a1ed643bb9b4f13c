"""The tasks in a slot that continue without a job manager: the data with which a new leader takes them over."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.details import Accumulator, TaskMetrics
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.core.jobs.states import ExecutionState

NOT_CAPTURED = 0
"""Instead of a checkpoint's id: none was triggered since."""


class AssignedSplits(Struct, frozen=True):
    """Pickled lists of splits that were assigned to a reader, and the first checkpoint that will include them."""

    checkpoint_id: int
    splits: tuple[bytes, ...]


class FoundReader(Struct, frozen=True):
    """The exchange between a source's reader and its enumerator since the latest completed checkpoint."""

    assigned: tuple[AssignedSplits, ...] = ()
    is_known: bool = True
    """Whether that is complete: too many splits are not kept."""
    has_events: bool = False
    """Whether custom events were exchanged at any time, which may have changed the enumerator's state."""


class FoundTask(Struct, frozen=True):
    """One attempt, running or finished."""

    attempt_id: AttemptId
    vertex_id: VertexId
    subtask: int
    parallelism: int
    max_parallelism: int
    attempt: int
    state: ExecutionState
    accumulators: tuple[Accumulator, ...] = ()
    metrics: TaskMetrics | None = None
    highest_channel: int = 0
    inputs_ended: bool = False
    """Whether it waits for a checkpoint that holds its end."""
    completed: int = 0
    """The latest checkpoint that was reported to it as complete, or that it was restored from."""
    under_way: tuple[int, ...] = ()
    """The checkpoints that were triggered since. Not savepoints: one of those may be complete, and the user's."""
    drains: bool = False
    """Whether one of them is to drain the job: event time has reached its end, which only a restart can reset."""
    reader: FoundReader | None = None
    """Of a source."""


class FoundSlot(Struct, frozen=True):
    """All attempts of a slot, and the data address of its worker."""

    data_address: str
    tasks: tuple[FoundTask, ...] = ()
