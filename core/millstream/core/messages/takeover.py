"""What a slot holds that runs on without a job manager: what a new leader of the job has to know to take it over."""

from __future__ import annotations

from msgspec import Struct

from millstream.core.jobs.details import Accumulator, TaskMetrics
from millstream.core.jobs.ids import AttemptId, VertexId
from millstream.core.jobs.states import ExecutionState

NOT_CAPTURED = 0
"""In place of a checkpoint's id: none was triggered since."""


class AssignedSplits(Struct, frozen=True):
    """Pickled lists of splits that a reader was given, and the first checkpoint that holds them, once it completes."""

    checkpoint_id: int
    splits: tuple[bytes, ...]


class FoundReader(Struct, frozen=True):
    """What a source's reader and its enumerator have exchanged since the latest completed checkpoint."""

    assigned: tuple[AssignedSplits, ...] = ()
    is_known: bool = True
    """Whether that is all of it: too much is not kept."""
    has_events: bool = False
    """Whether there were events of the connector's own, at any time: an enumerator may have learned from them."""


class FoundTask(Struct, frozen=True):
    """One attempt, which runs or has finished."""

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
    """Whether one of them is to drain the job: its event time has come to an end, which only a restart takes back."""
    reader: FoundReader | None = None
    """Of a source."""


class FoundSlot(Struct, frozen=True):
    """All attempts of a slot, and where its worker listens for others."""

    data_address: str
    tasks: tuple[FoundTask, ...] = ()
