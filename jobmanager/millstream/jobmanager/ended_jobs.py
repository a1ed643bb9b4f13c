"""What is left of a job that has ended, for a job manager that comes to lead it: its leader died while it cleaned up.

How the job ended was stored before anything of it was deleted, and its pointers go last. So as long as there are any,
something may be left, and they say what. A checkpoint that the job's user keeps stays, and so does all that may be
somebody else's: savepoints, and what an earlier job of the same id has left. Blocks on storage.
"""

from __future__ import annotations

from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.states import JobStatus
from millstream.core.settings.configuration import Configuration
from millstream.core.snapshot import FileSystemStorage, StoredCheckpoint
from millstream.core.snapshot.errors import UnusableFileError
from millstream.core.store.checkpoint_pointers import JobPointers
from millstream.jobmanager.checkpoint_files import storage_of
from millstream.jobmanager.checkpoints.policies.retention import is_kept
from millstream.jobmanager.checkpoints.settings import CheckpointSettings
from millstream.jobmanager.job_checkpoints import OUTCOMES


def delete_left_over(
    graph: JobGraph, status: JobStatus, stored: JobPointers, cluster: Configuration, directory: str
) -> None:
    """Deletes what is left of the job in files. `directory` is that of jobs which have none for their checkpoints.

    Raises MillstreamError and OSError; then it is to be tried again.
    """
    settings = CheckpointSettings.from_configuration(cluster.for_job(graph.configuration)).kept_in(directory)
    storage = storage_of(graph.job_id, settings)
    if not isinstance(storage, FileSystemStorage):
        return
    found = storage.list_checkpoints()
    if not is_kept(settings.retention, OUTCOMES[status]):
        pointers = {pointer.location for pointer in stored.pointers}
        _delete_checkpoints(storage, [checkpoint for checkpoint in found if checkpoint.complete], pointers)
    for checkpoint in found:
        if not checkpoint.complete and checkpoint.checkpoint_id < stored.next_id:
            storage.delete_folder(checkpoint.location)
    storage.delete_empty_folders()


def _delete_checkpoints(storage: FileSystemStorage, complete: list[StoredCheckpoint], pointers: set[str]) -> None:
    """Their shared files first: only their metadata says which those are."""
    used, shared = set[str](), set[str]()
    for checkpoint in complete:
        try:
            files = storage.read_metadata(checkpoint.location).shared_files()
        except UnusableFileError:  # nothing can be started from it, whoever has left it
            continue
        (shared if checkpoint.location in pointers else used).update(files)
    storage.delete_files(sorted(path for path in shared - used if path.startswith(f"{storage.home}/")))
    for checkpoint in complete:
        if checkpoint.location in pointers:
            storage.delete_folder(checkpoint.location)
