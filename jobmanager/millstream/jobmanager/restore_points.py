"""A job's restore points in the store, written by the job manager that leads the job.

Owned by the job manager's loop. Calls take effect one after the other, in the order in which they are made; all of them
raise StoreError when this job manager has lost the leadership. The next leader may rely on anything that was stored
until then, so nothing may be deleted after such an error.

Ids of checkpoints are reserved well before they are used, so that barriers do not wait for the store.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId
from millstream.core.services.leader_lookup import Role
from millstream.core.store.changes import resign
from millstream.core.store.checkpoint_pointers import CheckpointPointers, Home, JobPointers, Pointer, Terms
from millstream.core.store.leaders import Candidate
from millstream.core.store.store import Contest, Leadership, StoreError
from millstream.jobmanager.checkpoints.model import CheckpointId

_BLOCK = 64
_AHEAD = 32


class RestorePoints:
    """`lead` is called first, `leave` or `resign` last."""

    def __init__(self, job_id: JobId, candidate: Candidate) -> None:
        self._job_id = job_id
        self._candidate = candidate
        self._turn = asyncio.Lock()
        self._leadership: Leadership | None = None
        self._blocks: list[range] = []

    async def lead(self) -> Led:
        """Waits until this job manager is the leader of the job; returns what an earlier leader has stored."""
        async with self._turn:
            if self._leadership is None:
                self._leadership = await self._candidate.campaign(Contest(Role.JOB_MANAGER, self._job_id))
            return Led(self, self._leadership, await self._pointers.read())

    async def begin(self, led: Led, now_ms: int) -> Led:
        """Counts this leader among those of the job; returns `led` with the new count."""
        async with self._turn:
            terms = led.stored.terms.begun(led.leadership.epoch, now_ms)
            with contextlib.suppress(StoreError):  # the watcher of the leadership notices it
                await self._pointers.begin(now_ms)
            return replace(led, stored=replace(led.stored, terms=terms))

    async def leave(self, keeps_pointers: bool) -> None:
        """Resigns after the job has ended, and deletes its pointers unless a later leader may need them."""
        async with self._turn:
            assert self._leadership is not None, "lead is called first"
            try:
                if not keeps_pointers:
                    await self._pointers.clear()
            finally:
                await resign(self._candidate.store, self._leadership)

    async def resign(self) -> None:
        """Resigns in favour of another job manager; everything that is stored of the job is kept."""
        async with self._turn:
            if self._leadership is not None:
                await resign(self._candidate.store, self._leadership)

    def may_use(self, checkpoint_id: CheckpointId) -> bool:
        """Whether the id is reserved for this leader."""
        return any(checkpoint_id in block for block in self._blocks)

    def runs_out_at(self, checkpoint_id: CheckpointId) -> bool:
        """Whether more ids have to be reserved for the checkpoints after this one."""
        return not self.may_use(CheckpointId(checkpoint_id + _AHEAD))

    async def reserve(self, at_least: int) -> int:
        """Reserves a batch of ids; returns the lowest usable one that is not below `at_least`."""
        async with self._turn:
            if not self.may_use(CheckpointId(at_least + _AHEAD)):
                start = max([at_least, *(block.stop for block in self._blocks)])
                self._blocks.append(await self._pointers.reserve(start, _BLOCK))
                del self._blocks[:-2]
            return min(max(block.start, at_least) for block in self._blocks if block.stop > at_least)

    async def add(self, checkpoint_id: CheckpointId, location: str) -> None:
        """Stores the checkpoint as the restore point of the job, for this and later leaders."""
        async with self._turn:
            await self._pointers.add(Pointer(checkpoint_id, location))

    async def deploying(self, attempts: Mapping[str, tuple[int, ...]], restarts: int) -> None:
        """Stores the latest attempts and the number of restarts for the next leader."""
        async with self._turn:
            await self._pointers.deploying(attempts, restarts)

    async def settle(self, home: Home) -> None:
        """Stores which files in the job's folder belong to it, for the next leader."""
        async with self._turn:
            await self._pointers.settle(home)

    async def require(self, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Stores the bounds of the job's parallelism for the next leader."""
        async with self._turn:
            await self._pointers.require(bounds)

    async def saving(self, location: str) -> None:
        """Stores the folder of a pending savepoint, so that the next leader can delete it."""
        async with self._turn:
            await self._pointers.saving(location)

    async def saved(self, location: str) -> None:
        """Removes the folder of a completed savepoint, so that the next leader does not delete it."""
        async with self._turn:
            await self._pointers.saved(location)

    async def remove(self, checkpoint_id: CheckpointId) -> None:
        """Removes the checkpoint from the restore points of the job."""
        async with self._turn:
            await self._pointers.remove(checkpoint_id)

    @property
    def _pointers(self) -> CheckpointPointers:
        assert self._leadership is not None, "lead is called first"
        return CheckpointPointers(self._candidate.store, self._job_id, self._leadership)


class Led(Struct, frozen=True):
    """The leadership of a job by this job manager, and what an earlier leader has stored."""

    points: RestorePoints
    leadership: Leadership
    stored: JobPointers = JobPointers()

    @property
    def left(self) -> tuple[Pointer, ...]:
        """The restore points that an earlier leader has stored."""
        return self.stored.pointers

    @property
    def follows(self) -> bool:
        """Whether there was an earlier leader, which may have started tasks that still run."""
        return replace(self.stored, terms=Terms()) != JobPointers()

    @property
    def failovers(self) -> int:
        """The number of leaders that the job has had before this one."""
        return max(0, self.stored.terms.count - 1)
