"""Where the checkpoints of a job are, and which of them is kept after its end."""

from __future__ import annotations

from millstream.core.jobs.states import JobStatus
from millstream.core.snapshot.storage.memory_storage import SCHEME as MEMORY_SCHEME
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.policies.retention import is_kept
from millstream.jobmanager.job_checkpoints.context import CheckpointedJob

OUTCOMES = {
    JobStatus.FINISHED: ev.StopOutcome.FINISHED,
    JobStatus.CANCELED: ev.StopOutcome.CANCELED,
    JobStatus.FAILED: ev.StopOutcome.FAILED,
}


def outcome(status: JobStatus, keeps_all: bool) -> ev.StopOutcome:
    """Returns the outcome of a job's end; `keeps_all` if it was suspended or abandoned."""
    return ev.StopOutcome.SUSPENDED if keeps_all and status is JobStatus.FAILED else OUTCOMES[status]


class KeptCheckpoints:
    """A view of the coordinator's restore points."""

    def __init__(self, job: CheckpointedJob) -> None:
        self._job = job

    def places(self) -> tuple[str, str]:
        """The latest completed checkpoint and the folder of checkpoints; empty for what is not in files."""
        pointers = [c.pointer for c in self._job.coordinator.retained if not c.pointer.startswith(MEMORY_SCHEME)]
        return (pointers[-1] if pointers else ""), (self._job.files.home if self._job.settings.enabled else "")

    def kept(self, status: JobStatus, keeps_all: bool) -> str:
        """Returns the last checkpoint that is kept after the job has ended with this status, or an empty string."""
        return self.places()[0] if is_kept(self._job.settings.retention, outcome(status, keeps_all)) else ""

    def is_lost(self, status: JobStatus, keeps_all: bool) -> bool:
        """Whether the last checkpoint would be kept after the job has ended, but is in the job manager's memory."""
        retained = self._job.coordinator.retained
        in_memory = bool(retained) and retained[-1].pointer.startswith(MEMORY_SCHEME)
        return in_memory and is_kept(self._job.settings.retention, outcome(status, keeps_all))
