"""Cleans up a job that has ended but whose leader died before its cleanup was complete.

The job's result was stored before any of its files was deleted, and its pointers are deleted last. So as long as there
are pointers, files may be left, and the pointers show which. A checkpoint that is retained for the user is kept, and so
is everything that may belong to others: savepoints, and what an earlier job with the same id left. Blocks on storage.
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
from millstream.jobmanager.job_checkpoints.kept_checkpoints import OUTCOMES


def delete_left_over(
    graph: JobGraph, status: JobStatus, stored: JobPointers, cluster: Configuration, directory: str
) -> None:
    """Deletes the remaining files of the job. `directory` is the default for jobs that set none for checkpoints.

    Raises MillstreamError and OSError; the call has to be repeated then.
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
    """Deletes shared files first, because only the metadata lists them."""
    used, shared = set[str](), set[str]()
    for checkpoint in complete:
        try:
            files = storage.read_metadata(checkpoint.location).shared_files()
        except UnusableFileError:  # no job can be started from it
            continue
        (shared if checkpoint.location in pointers else used).update(files)
    storage.delete_files(sorted(path for path in shared - used if path.startswith(f"{storage.home}/")))
    for checkpoint in complete:
        if checkpoint.location in pointers:
            storage.delete_folder(checkpoint.location)
