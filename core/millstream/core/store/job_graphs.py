"""The graphs of the jobs that the dispatcher has accepted: a pointer in the store, the graph in the contents.

Graphs refer to artifacts by the hash of their content, which is their name in storage (the dispatcher's
`ArtifactStore`), so artifacts need no entries.

The entry also contains the dispatcher's requests for a job whose job manager it may not reach: to cancel it, and to
resign its leadership in favour of another job manager (`Recall`).
"""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch
from millstream.core.services.leader_lookup import Role
from millstream.core.store.changes import change, names, read
from millstream.core.store.contents import Contents, until_reached
from millstream.core.store.store import Contest, Key, Kind, Leadership, Store


class Recall(Struct, frozen=True):
    """The epoch of the job's leader that is to resign, and the epoch of the dispatcher that requests it."""

    leader: LeaderEpoch = ANY_EPOCH
    by: LeaderEpoch = ANY_EPOCH


class _Entry(Struct, frozen=True):
    pointer: str
    cancelled: bool = False
    recall: Recall = Recall()

    def to_bytes(self) -> bytes:
        recall = [self.recall.leader, self.recall.by]
        return json.dumps({"pointer": self.pointer, "cancelled": self.cancelled, "recall": recall}).encode()

    @staticmethod
    def from_bytes(stored: bytes | None) -> _Entry | None:
        if stored is None:
            return None
        fields = json.loads(stored)
        return _Entry(fields["pointer"], fields["cancelled"], Recall(*fields.get("recall", ())))


class StoredGraph(Struct, frozen=True):
    """A graph, its pointer, and whether the cancellation of the job was requested."""

    graph: JobGraph
    pointer: str
    cancelled: bool = False


class JobGraphStore:
    """Written under the dispatcher's leadership. All calls wait for a store that does not respond.

    Deletions are retried until they succeed; reading and writing a graph raises UnreachableContentError.
    """

    def __init__(self, store: Store, contents: Contents[JobGraph], leadership: Leadership) -> None:
        self._store = store
        self._contents = contents
        self._leadership = leadership

    async def add(self, graph: JobGraph) -> StoredGraph:
        """Stores the graph durably. Raises InvalidProgramError if there is already a job with its id."""
        pointer = await self._contents.put(graph)

        def new(stored: bytes | None) -> bytes:
            entry = _Entry.from_bytes(stored)
            if entry is not None and entry.pointer != pointer:
                raise InvalidProgramError(f"a job with the id {graph.job_id} was already submitted")
            return _Entry(pointer).to_bytes()

        try:
            await change(self._store, _key(graph.job_id), self._leadership, new)
        except InvalidProgramError:
            await until_reached(lambda: self._contents.delete(pointer))
            raise
        return StoredGraph(graph, pointer)

    async def get(self, job_id: JobId) -> StoredGraph | None:
        """Returns the graph of a job, or None."""
        entry = _Entry.from_bytes(await read(self._store, _key(job_id)))
        if entry is None:
            return None
        return StoredGraph(await self._contents.get(entry.pointer), entry.pointer, entry.cancelled)

    async def cancel(self, job_id: JobId) -> None:
        """Stores durably that the job is to be cancelled."""
        await self._change(job_id, lambda entry: replace(entry, cancelled=True))

    async def recall(self, job_id: JobId, leader: LeaderEpoch) -> None:
        """Requests the job's leader of this epoch to resign; epoch 0 withdraws the request."""
        recall = Recall(leader, self._leadership.epoch) if leader else Recall()
        await self._change(job_id, lambda entry: replace(entry, recall=recall))

    async def _change(self, job_id: JobId, changed: Callable[[_Entry], _Entry]) -> None:
        def new(stored: bytes | None) -> bytes | None:
            entry = _Entry.from_bytes(stored)
            return None if entry is None else changed(entry).to_bytes()

        await change(self._store, _key(job_id), self._leadership, new)

    async def remove(self, stored: StoredGraph) -> None:
        """Removes this graph, if it exists, but not one that was added later with the same id."""

        def new(now: bytes | None) -> bytes | None:
            entry = _Entry.from_bytes(now)
            return None if entry is None or entry.pointer == stored.pointer else now

        await change(self._store, _key(stored.graph.job_id), self._leadership, new)
        await until_reached(lambda: self._contents.delete(stored.pointer))

    async def job_ids(self) -> list[JobId]:
        """Returns the ids of all stored jobs."""
        return [JobId(name) for name in await names(self._store, Kind.JOB_GRAPH)]


async def is_recalled(store: Store, job_id: JobId, leader: LeaderEpoch) -> bool:
    """Whether the leading dispatcher requests this leader of the job to resign. Raises StoreError."""
    stored = await store.read(_key(job_id))
    entry = _Entry.from_bytes(stored.value if stored is not None else None)
    if entry is None or entry.recall.leader != leader:
        return False
    dispatcher = await store.leader(Contest(Role.DISPATCHER))
    return dispatcher is not None and dispatcher.epoch == entry.recall.by


def _key(job_id: JobId) -> Key:
    return Key(Kind.JOB_GRAPH, job_id)
