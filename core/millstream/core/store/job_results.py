"""The results of ended jobs: a pointer in the store, the details of the job in the contents.

A result is written before anything else of the job is deleted, by the leader of the job, or by the dispatcher for a job
without a leader. From then on the job is not run again, even if its graph still exists: its remaining data is only
deleted, which is retried until it succeeds. The result is removed when the dispatcher no longer remembers the job.
"""

from __future__ import annotations

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.store.changes import change, names, read
from millstream.core.store.contents import Contents, NoContentError, until_reached
from millstream.core.store.store import Key, Kind, Leadership, Store


class JobResultStore:
    """All calls wait for a store that does not respond. Calls that change data raise FencedError.

    They are retried until content can be written or deleted; `get` raises UnreachableContentError.
    """

    def __init__(self, store: Store, contents: Contents[JobDetails], leadership: Leadership) -> None:
        self._store = store
        self._contents = contents
        self._leadership = leadership

    async def add(self, details: JobDetails) -> None:
        """Stores the result of the job durably. An existing result is kept.

        Raises FencedError also then: an earlier leader of the job must not clean up after the one that ended it.
        """
        key = _key(details.job_id)
        if (kept := await read(self._store, key)) is not None:
            await change(self._store, key, self._leadership, lambda stored: stored or kept)
            return
        pointer = (await until_reached(lambda: self._contents.put(details))).encode()

        def first(stored: bytes | None) -> bytes:
            nonlocal kept  # what was read may be of a moment before
            kept = stored or pointer
            return kept

        await change(self._store, key, self._leadership, first)
        if kept != pointer:
            await until_reached(lambda: self._contents.delete(pointer.decode()))

    async def has(self, job_id: JobId) -> bool:
        """Whether the job has ended."""
        return await read(self._store, _key(job_id)) is not None

    async def get(self, job_id: JobId) -> JobDetails | None:
        """Returns the result of the job, or None. If its content is lost, only that the job has ended is known."""
        stored = await read(self._store, _key(job_id))
        if stored is None:
            return None
        try:
            return await self._contents.get(stored.decode())
        except NoContentError:
            return None

    async def remove(self, job_id: JobId) -> None:
        """Removes the result of a job."""
        stored = await read(self._store, _key(job_id))
        if stored is not None:
            await change(self._store, _key(job_id), self._leadership, lambda _: None)
            await until_reached(lambda: self._contents.delete(stored.decode()))

    async def job_ids(self) -> list[JobId]:
        """Returns the ids of all jobs with a result."""
        return [JobId(name) for name in await names(self._store, Kind.JOB_RESULT)]


def _key(job_id: JobId) -> Key:
    return Key(Kind.JOB_RESULT, job_id)
