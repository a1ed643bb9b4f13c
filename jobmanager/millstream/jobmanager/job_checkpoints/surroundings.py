"""What the checkpoints of a job use of the job manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from millstream.core.jobs.ids import TaskManagerId, VertexId
from millstream.core.messages.snapshots import SnapshotResult
from millstream.core.messages.sources import EnumeratorsCommand, RunningReader
from millstream.core.messages.task_manager import JobManagerCommand
from millstream.jobmanager.job_master import events as job_ev


class Surroundings(Protocol):
    """The services of the job manager that a job's checkpoints use."""

    def command(self, task_manager: TaskManagerId, command: JobManagerCommand) -> None:
        """Sends a command to a task manager."""
        ...

    def enumerators(self, command: EnumeratorsCommand) -> bool:
        """Sends a command to the enumerator process; returns false when there is none."""
        ...

    def start_enumerators(
        self, states: Mapping[VertexId, bytes], readers: Mapping[VertexId, tuple[RunningReader, ...]] | None = None
    ) -> None:
        """Starts a new enumerator process with these states, replacing one that failed.

        With `readers`, the enumerators continue with these running readers.
        """
        ...

    def tell(self, event: job_ev.Event) -> None:
        """Passes an event to the JobMaster."""
        ...

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Sends the result of a requested snapshot to the dispatcher."""
        ...

    def in_charge(self) -> bool:
        """Whether the job cannot have been reported as ended to users: only then checkpoints may complete."""
        ...
