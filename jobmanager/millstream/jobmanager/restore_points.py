"""A job's restore points in the store, written by the job manager that leads the job.

Owned by the job manager's loop. Calls take effect one after the other, in the order in which they are made; all of them
raise StoreError when this job manager leads the job no more. Whoever follows it may rely on anything that was stored
until then, so nothing may be deleted after such an error.

Ids of checkpoints are reserved well before they are used: barriers cannot wait for the store.
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
    """`lead` comes first, `leave` last."""

    def __init__(self, job_id: JobId, candidate: Candidate) -> None:
        self._job_id = job_id
        self._candidate = candidate
        self._turn = asyncio.Lock()
        self._leadership: Leadership | None = None
        self._blocks: list[range] = []

    async def lead(self) -> Led:
        """Returns when this job manager leads the job, with what an earlier leader of it left to restore it from."""
        async with self._turn:
            if self._leadership is None:
                self._leadership = await self._candidate.campaign(Contest(Role.JOB_MANAGER, self._job_id))
            return Led(self, self._leadership, await self._pointers.read())

    async def begin(self, led: Led, now_ms: int) -> Led:
        """Counts this leader among those of the job; answers the same with that."""
        async with self._turn:
            terms = led.stored.terms.begun(led.leadership.epoch, now_ms)
            with contextlib.suppress(StoreError):  # whoever watches the leadership is told
                await self._pointers.begin(now_ms)
            return replace(led, stored=replace(led.stored, terms=terms))

    async def leave(self, keeps_pointers: bool) -> None:
        """The job has ended; its pointers go, unless a later leader may want them."""
        async with self._turn:
            assert self._leadership is not None, "lead comes first"
            try:
                if not keeps_pointers:
                    await self._pointers.clear()
            finally:
                await resign(self._candidate.store, self._leadership)

    async def resign(self) -> None:
        """Leaves the job to another job manager, with all that is stored of it."""
        async with self._turn:
            if self._leadership is not None:
                await resign(self._candidate.store, self._leadership)

    def may_use(self, checkpoint_id: CheckpointId) -> bool:
        """Whether the id is reserved for this leader."""
        return any(checkpoint_id in block for block in self._blocks)

    def runs_out_at(self, checkpoint_id: CheckpointId) -> bool:
        """Whether it is time to reserve ids for those that come after this one."""
        return not self.may_use(CheckpointId(checkpoint_id + _AHEAD))

    async def reserve(self, at_least: int) -> int:
        """Reserves ids, as many as will do for a while; answers the lowest usable one that is not below `at_least`."""
        async with self._turn:
            if not self.may_use(CheckpointId(at_least + _AHEAD)):
                start = max([at_least, *(block.stop for block in self._blocks)])
                self._blocks.append(await self._pointers.reserve(start, _BLOCK))
                del self._blocks[:-2]
            return min(max(block.start, at_least) for block in self._blocks if block.stop > at_least)

    async def add(self, checkpoint_id: CheckpointId, location: str) -> None:
        """Returns when the checkpoint is what the job is restored from, whoever leads it."""
        async with self._turn:
            await self._pointers.add(Pointer(checkpoint_id, location))

    async def deploying(self, attempts: Mapping[str, tuple[int, ...]], restarts: int) -> None:
        """Returns when the next leader of the job will know that these attempts are the latest, and of the restarts."""
        async with self._turn:
            await self._pointers.deploying(attempts, restarts)

    async def settle(self, home: Home) -> None:
        """Returns when whoever leads the job next knows what of its folder is its own."""
        async with self._turn:
            await self._pointers.settle(home)

    async def require(self, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Returns when whoever leads the job next keeps to these bounds of its parallelism."""
        async with self._turn:
            await self._pointers.require(bounds)

    async def saving(self, location: str) -> None:
        """Returns when the next leader of the job will find the folder of this savepoint."""
        async with self._turn:
            await self._pointers.saving(location)

    async def saved(self, location: str) -> None:
        """Returns when the savepoint, which is complete, is nothing to the next leader."""
        async with self._turn:
            await self._pointers.saved(location)

    async def remove(self, checkpoint_id: CheckpointId) -> None:
        """Returns when nobody restores the job from this checkpoint any more."""
        async with self._turn:
            await self._pointers.remove(checkpoint_id)

    @property
    def _pointers(self) -> CheckpointPointers:
        assert self._leadership is not None, "lead comes first"
        return CheckpointPointers(self._candidate.store, self._job_id, self._leadership)


class Led(Struct, frozen=True):
    """A job that this job manager leads, and what an earlier leader of it has stored."""

    points: RestorePoints
    leadership: Leadership
    stored: JobPointers = JobPointers()

    @property
    def left(self) -> tuple[Pointer, ...]:
        """What the job is restored from."""
        return self.stored.pointers

    @property
    def follows(self) -> bool:
        """Whether there was an earlier leader, which may have started tasks that still run."""
        return replace(self.stored, terms=Terms()) != JobPointers()

    @property
    def failovers(self) -> int:
        """How many leaders the job has had before this one."""
        return max(0, self.stored.terms.count - 1)
