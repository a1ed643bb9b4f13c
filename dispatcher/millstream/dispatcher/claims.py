"""Snapshots that belong to running jobs: their own checkpoints, and what they have claimed. They delete both.

So no other job claims such a snapshot, and no other job starts from, and no request deletes, one that was claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.details import JobDetails
from millstream.core.settings.options.execution import STATE_RECOVERY_CLAIM_MODE, STATE_RECOVERY_PATH
from millstream.core.snapshot.storage.storage import checkpoint_id_of, location_of
from millstream.core.snapshot.storage.uri_files import plain_uri

_RECOVERY = "execution.state-recovery"


def claimant(location: str, jobs: Iterable[JobDetails]) -> JobDetails | None:
    """The job that has claimed the snapshot at a location and has not ended, if there is one."""
    folder = _folder(location)
    for job in _live(jobs):
        if _claims(job.configuration) and _folder(job.configuration.get(STATE_RECOVERY_PATH, "")) == folder:
            return job
    return None


def check_start(options: Mapping[str, str], jobs: Iterable[JobDetails]) -> None:
    """Raises InvalidProgramError when a job with these options may not start from the snapshot that they name."""
    path = options.get(STATE_RECOVERY_PATH, "")
    if not path:
        return
    known = list(jobs)
    relation, owner = "was claimed by", claimant(path, known)
    if owner is None and _claims(options):
        relation, owner = "is a checkpoint of", _taker(path, known)
    if owner is not None:
        raise InvalidProgramError(
            f"{_folder(path)}: {relation} job {owner.job_id}, which is {owner.state} and deletes it: take a savepoint "
            "of that job to start from"
        )


def _taker(location: str, jobs: Iterable[JobDetails]) -> JobDetails | None:
    """The job that took the checkpoint, which lies in `<job id>/chk-<n>`, and has not ended."""
    home, _, name = _folder(location).rpartition("/")
    if checkpoint_id_of(name) is None:
        return None
    return next((job for job in _live(jobs) if home.endswith(f"/{job.job_id}")), None)


def _live(jobs: Iterable[JobDetails]) -> Iterable[JobDetails]:
    return (job for job in jobs if not job.state.is_terminal)


def _claims(options: Mapping[str, str]) -> bool:
    claims = options.get(STATE_RECOVERY_CLAIM_MODE, "").upper() == "CLAIM"
    return claims and bool(options.get(STATE_RECOVERY_PATH))


def _folder(path: str) -> str:
    return location_of(plain_uri(path))
