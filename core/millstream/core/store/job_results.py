"""How jobs have ended: a pointer in the store, all that is shown of the job among the contents.

A result is written before anything else of the job is cleaned up, by the leader of the job, or by the dispatcher for a
job without a leader. From then on the job is not run again, even if its graph is read: what is left of it is only to be
cleaned up, and that is tried until it is done. The result goes when the dispatcher remembers the job no longer.
"""

from __future__ import annotations

from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.ids import JobId
from millstream.core.store.changes import change, names, read
from millstream.core.store.contents import Contents, NoContentError, until_reached
from millstream.core.store.store import Key, Kind, Leadership, Store


class JobResultStore:
    """All calls wait for a store that does not respond. What changes something raises FencedError.

    What changes something is tried until content can be written or deleted; `get` raises UnreachableContentError.
    """

    def __init__(self, store: Store, contents: Contents[JobDetails], leadership: Leadership) -> None:
        self._store = store
        self._contents = contents
        self._leadership = leadership

    async def add(self, details: JobDetails) -> None:
        """Returns when the end of the job is known for good. One that was there before stays.

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
        """How the job ended, or None. What its content has lost is a job that has ended, and no more."""
        stored = await read(self._store, _key(job_id))
        if stored is None:
            return None
        try:
            return await self._contents.get(stored.decode())
        except NoContentError:
            return None

    async def remove(self, job_id: JobId) -> None:
        """The job is remembered no longer."""
        stored = await read(self._store, _key(job_id))
        if stored is not None:
            await change(self._store, _key(job_id), self._leadership, lambda _: None)
            await until_reached(lambda: self._contents.delete(stored.decode()))

    async def job_ids(self) -> list[JobId]:
        """Of all that have ended and are remembered."""
        return [JobId(name) for name in await names(self._store, Kind.JOB_RESULT)]


def _key(job_id: JobId) -> Key:
    return Key(Kind.JOB_RESULT, job_id)
