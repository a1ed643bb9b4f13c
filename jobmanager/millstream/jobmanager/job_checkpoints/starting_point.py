"""The first restore point of a job: the checkpoint of an earlier leader, or the snapshot that it is started from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from msgspec.structs import replace

from millstream.core.jobs.states import ExecutionState
from millstream.jobmanager.checkpoints.coordinator import CheckpointCoordinator
from millstream.jobmanager.checkpoints.model import CompletedCheckpoint
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob
from millstream.jobmanager.job_checkpoints.preparation import Preparation
from millstream.jobmanager.restoring.starting_snapshot import RecoverySettings, StartingSnapshot, read_starting_snapshot

_OPENED = frozenset({ExecutionState.RUNNING, ExecutionState.FINISHED})


class Phase(Enum):
    """The phase of the first restore point."""

    NONE = "none"
    """The job starts without one."""
    AWAITED = "awaited"
    """It has not been read yet."""
    READ = "read"
    """It is the coordinator's restore point, and may still be needed for the first start of the tasks."""
    RUN = "run"
    """All tasks have run on it: it may be deleted."""


class StartingPoint:
    """`coordinator` creates the coordinator whose restore points begin with these checkpoints."""

    def __init__(
        self,
        job: CheckpointedJob,
        preparation: Preparation,
        recovery: RecoverySettings | None,
        coordinator: Callable[[list[CompletedCheckpoint]], CheckpointCoordinator],
    ) -> None:
        self.phase = Phase.NONE if recovery is None else Phase.AWAITED
        self._job = job
        self._preparation = preparation
        self._recovery = recovery
        self._coordinator = coordinator
        self._snapshot: StartingSnapshot | None = None
        self._turn = asyncio.Lock()

    @property
    def is_known(self) -> bool:
        """Whether the restore point of the job is known."""
        return self.phase is not Phase.AWAITED

    async def load(self, is_wanted: Callable[[], bool]) -> None:
        """Reads it and makes it the coordinator's. Does nothing if it is read, or the restore is outdated.

        Raises MillstreamError if it cannot be used.
        """
        async with self._turn:
            if self.is_known or self._recovery is None:
                return
            recovery, job = self._recovery, self._job
            path = job.files.reachable(recovery.path)
            snapshot = await asyncio.to_thread(read_starting_snapshot, replace(recovery, path=path), job.graph)
            await self._preparation.done.wait()
            older = await job.files.take_up(recovery.older)
            if not is_wanted():
                return
            self.phase = Phase.READ
            self._snapshot, job.graph = snapshot, snapshot.graph
            job.files.start_from(snapshot)
            if len(older) == len(recovery.older):  # else the files that one of them refers to are unknown
                self._preparation.inherit()
            job.driver.coordinator = self._coordinator([*older, snapshot.checkpoint])

    def task_changed(self) -> None:
        """The state of a task has changed."""
        if self.phase is Phase.READ and all(e.state in _OPENED for e in self._job.master.execution_graph.executions):
            self.phase = Phase.RUN

    def needs(self, checkpoint: CompletedCheckpoint) -> bool:
        """Whether the job may still start from this checkpoint, so that its files are kept."""
        return self.phase is Phase.READ and self._is(checkpoint)

    def _is(self, checkpoint: CompletedCheckpoint) -> bool:
        return self._snapshot is not None and checkpoint.pointer == self._snapshot.location

    @property
    def restore_point(self) -> int:
        """The id of the last checkpoint that the job has completed, under any leader; 0: none."""
        if self._recovery is not None and not self.is_known:
            return self._recovery.own_id
        taken = self._job.coordinator.retained
        if self._recovery is None or not self._recovery.own_id:  # the snapshot it was started from is not its own
            taken = tuple(checkpoint for checkpoint in taken if not self._is(checkpoint))
        return taken[-1].checkpoint_id if taken else 0
