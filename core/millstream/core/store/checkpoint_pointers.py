"""The restore points of a job, and the ids reserved for its checkpoints: one entry of the store for each job.

The pointers are in the order of their checkpoints; the last one is the restore point. Ids are reserved in blocks before
they are used, and none is used twice under any leader of the job: tasks of an earlier leader may still write into the
folder of a checkpoint that is no longer known. A new leader continues after the last block, so some ids are skipped.

Attempts are numbered over all leaders, too. Which are the latest is stored before they are deployed, so a new leader
can distinguish the tasks that it may continue with from those of attempts that were given up, and whether the job has
run at all. How often tasks were started again is counted over all leaders, too.

Folders of savepoints have random names. They are stored before anything is written there, until the savepoint is
complete: so a new leader finds what its predecessor left behind.

Bounds of the parallelism that were requested are stored before the request returns. When the job began, and how many
leaders it has had, is stored for display. The files that an earlier run under the same id has left in the job's
folder are known only to the first leader, which stores them, so that later leaders recognise their predecessors' files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.store.changes import change, read
from millstream.core.store.store import Key, Kind, Leadership, Store

_SAVEPOINTS = 16


class Pointer(Struct, frozen=True):
    """A completed checkpoint, and where its metadata is."""

    checkpoint_id: int
    location: str


class Terms(Struct, frozen=True):
    """The start of the job in milliseconds since the Unix epoch, the number of its leaders, and the last epoch."""

    began_ms: int = 0
    count: int = 0
    epoch: LeaderEpoch = ANY_EPOCH

    def begun(self, epoch: LeaderEpoch, now_ms: int) -> Terms:
        """Adds a leader, unless it is already the last one."""
        return self if self.epoch == epoch else Terms(self.began_ms or now_ms, self.count + 1, epoch)


class Home(Struct, frozen=True):
    """Ownership in the job's folder: the first checkpoint id of its own, and whether it owns all shared files."""

    location: str = ""
    first_id: int = 0
    owns_shared: bool = False


class JobPointers(Struct, frozen=True):
    """What is stored for a job. `next_id` is the lowest id that is not reserved.

    `attempts` are the numbers of the latest attempts of each vertex, by subtask; those of other vertices are the first.
    `bounds` are the least and the most parallelism of each vertex; none: as the job was submitted.
    """

    next_id: int = 1
    pointers: tuple[Pointer, ...] = ()
    attempts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    terms: Terms = Terms()
    home: Home = Home()
    has_run: bool = False
    """Whether tasks of the job may have been deployed."""
    restarts: int = 0
    savepoints: tuple[str, ...] = ()
    """The folders of the last savepoints that were started and are not known to be complete."""

    def attempt(self, vertex_id: str, subtask: int) -> int:
        """The number of a subtask's latest attempt."""
        known = self.attempts.get(vertex_id, ())
        return known[subtask] if subtask < len(known) else 0

    def to_bytes(self) -> bytes:
        """Encodes for the store."""
        fields = {
            "next_id": self.next_id,
            "pointers": [[p.checkpoint_id, p.location] for p in self.pointers],
            "attempts": self.attempts,
            "bounds": self.bounds,
            "terms": [self.terms.began_ms, self.terms.count, self.terms.epoch],
            "home": [self.home.location, self.home.first_id, self.home.owns_shared],
            "runs": [self.has_run, self.restarts],
            "savepoints": self.savepoints,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(stored: bytes | None) -> JobPointers:
        """Decodes from the store; None stands for a new job."""
        if stored is None:
            return JobPointers()
        fields = json.loads(stored)
        attempts = {vertex: tuple(numbers) for vertex, numbers in fields.get("attempts", {}).items()}
        bounds = {vertex: (lower, upper) for vertex, (lower, upper) in fields.get("bounds", {}).items()}
        pointers, terms = tuple(Pointer(*pointer) for pointer in fields["pointers"]), Terms(*fields.get("terms", ()))
        home, runs = Home(*fields.get("home", ())), fields.get("runs", ())
        known = JobPointers(fields["next_id"], pointers, attempts, bounds, terms, home, *runs)
        return replace(known, savepoints=tuple(fields.get("savepoints", ())))


class CheckpointPointers:
    """The entry of one job, written under its leadership. Every call waits for a store that does not respond.

    Calls that change the entry raise FencedError when the leadership has ended, also if there was nothing to change. It
    is unknown then whether the change has taken effect, so no file may be deleted because of it.
    """

    def __init__(self, store: Store, job_id: JobId, leadership: Leadership) -> None:
        self._store = store
        self._key = Key(Kind.CHECKPOINTS, job_id)
        self._leadership = leadership

    async def read(self) -> JobPointers:
        """What is stored."""
        return JobPointers.from_bytes(await read(self._store, self._key))

    async def begin(self, now_ms: int) -> None:
        """Stores that the term of this leader begins."""
        epoch = self._leadership.epoch
        await self._change(lambda stored: replace(stored, terms=stored.terms.begun(epoch, now_ms)))

    async def reserve(self, at_least: int, count: int) -> range:
        """Reserves this many unused ids, none of them below `at_least`."""
        block = range(0)

        def reserved(stored: JobPointers) -> JobPointers:
            nonlocal block  # if the outcome of the first attempt is unknown, its block is skipped
            first = max(stored.next_id, at_least)
            block = range(first, first + count)
            return replace(stored, next_id=block.stop)

        await self._change(reserved)
        return block

    async def add(self, pointer: Pointer) -> None:
        """Adds the pointer. The pointer with the highest id is the restore point."""

        def added(stored: JobPointers) -> JobPointers:
            pointers = sorted({*stored.pointers, pointer}, key=lambda p: p.checkpoint_id)
            next_id = max(stored.next_id, pointer.checkpoint_id + 1)
            return replace(stored, next_id=next_id, pointers=tuple(pointers))

        await self._change(added)

    async def deploying(self, attempts: Mapping[str, tuple[int, ...]], restarts: int) -> None:
        """Stores the latest attempts of all subtasks and the number of restarts, before tasks are deployed."""
        await self._change(lambda stored: replace(stored, attempts=attempts, has_run=True, restarts=restarts))

    async def settle(self, home: Home) -> None:
        """Stores which files of the job's folder belong to it, as its first leader found it."""
        await self._change(lambda stored: replace(stored, home=home))

    async def require(self, bounds: Mapping[str, tuple[int, int]]) -> None:
        """Stores the bounds of the job's parallelism for the next leader."""
        await self._change(lambda stored: replace(stored, bounds=bounds))

    async def saving(self, location: str) -> None:
        """Stores the folder of a savepoint, before it is written."""
        await self._change(lambda stored: replace(stored, savepoints=(*stored.savepoints, location)[-_SAVEPOINTS:]))

    async def saved(self, location: str) -> None:
        """Removes the folder of a completed savepoint, which belongs to the user."""
        await self._change(
            lambda stored: replace(stored, savepoints=tuple(known for known in stored.savepoints if known != location))
        )

    async def remove(self, checkpoint_id: int) -> None:
        """Removes the checkpoint's pointer, if there is one."""
        await self._change(
            lambda stored: replace(
                stored, pointers=tuple(p for p in stored.pointers if p.checkpoint_id != checkpoint_id)
            )
        )

    async def clear(self) -> None:
        """Removes all data of an ended job, its ids included."""
        await self._change(lambda stored: JobPointers(stored.next_id))  # checks the leadership in any case
        await change(self._store, self._key, self._leadership, lambda _stored: None)

    async def _change(self, new: Callable[[JobPointers], JobPointers]) -> None:
        await change(
            self._store, self._key, self._leadership, lambda stored: new(JobPointers.from_bytes(stored)).to_bytes()
        )
