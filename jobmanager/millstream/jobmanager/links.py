"""The connections of the job manager, as its jobs use them."""

from __future__ import annotations

from typing import Protocol

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId, TaskManagerId
from millstream.core.messages import task_manager as msg
from millstream.core.messages.rescaling import RescaleResult
from millstream.core.messages.resource_manager import Requirement
from millstream.core.messages.snapshots import SnapshotResult
from millstream.core.store.store import Leadership


class Links(Protocol):
    """The connections of the job manager to the other services."""

    @property
    def artifact_address(self) -> str:
        """The address from which artifacts are fetched."""
        ...

    @property
    def checkpoint_directory(self) -> str:
        """The directory of checkpoints of jobs that set none; empty: they are kept in memory."""
        ...

    async def record_end(self, details: JobDetails, leadership: Leadership) -> None:
        """Stores the result of the job durably. Raises StoreError when this job manager has lost the leadership."""
        ...

    def command(self, task_manager: TaskManagerId, command: msg.JobManagerCommand) -> None:
        """Sends a command to a task manager; does nothing without a session."""
        ...

    def declare(self, requirement: Requirement) -> None:
        """Declares to the resource manager how many slots a job wants."""
        ...

    def report_soon(self, job_id: JobId) -> None:
        """Schedules a report of the job to the dispatcher."""
        ...

    def send_snapshot_result(self, result: SnapshotResult) -> None:
        """Sends the result of a requested snapshot to the dispatcher."""
        ...

    def send_rescale_result(self, result: RescaleResult) -> None:
        """Sends the result of a requested rescale to the dispatcher."""
        ...

    def in_charge(self) -> bool:
        """Whether this job manager still holds its lease from the dispatcher."""
        ...

    @property
    def recovers(self) -> bool:
        """Whether another job manager can become the leader of the job after this one."""
        ...
