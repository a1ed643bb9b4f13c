"""Where the checkpoints of a job are, and which of them is kept after its end."""

from __future__ import annotations

from millstream.core.jobs.kept_checkpoint import IN_MEMORY, kept_text
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

    @property
    def _is_kept(self) -> bool:
        master = self._job.master
        return is_kept(self._job.settings.retention, outcome(master.status, master.keeps_checkpoints))

    def kept(self) -> str:
        """Returns the last checkpoint that is kept after the job has ended, or an empty string."""
        return self.places()[0] if self._is_kept else ""

    def last_words(self) -> str:
        """Returns what to report of the ended job besides its failure."""
        kept, retained = self.kept(), self._job.coordinator.retained
        about = kept_text(kept) if kept else ""
        if retained and retained[-1].pointer.startswith(MEMORY_SCHEME) and self._is_kept:
            about = IN_MEMORY
        return "; ".join(text for text in (self._job.master.message, about) if text)
