"""The graphs of the jobs that the dispatcher has taken: a pointer in the store, the graph among the contents.

Graphs name artifacts by the hash of their content, and those lie in a folder under that name (the dispatcher's
`ArtifactStore`): whoever has the graph and the folder has the artifacts, and they need no entry of their own.
"""

from __future__ import annotations

from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.store.changes import change, names, read
from millstream.core.store.contents import Contents
from millstream.core.store.store import Key, Kind, Leadership, Store


class StoredGraph(Struct, frozen=True):
    """A graph, and where it lies."""

    graph: JobGraph
    pointer: str


class JobGraphStore:
    """Written under the dispatcher's leadership. All calls wait for a store that does not answer."""

    def __init__(self, store: Store, contents: Contents[JobGraph], leadership: Leadership) -> None:
        self._store = store
        self._contents = contents
        self._leadership = leadership

    async def add(self, graph: JobGraph) -> StoredGraph:
        """Returns when the graph cannot be lost any more. Raises InvalidProgramError when its job is there already."""
        pointer = await self._contents.put(graph)
        mine = pointer.encode()

        def new(stored: bytes | None) -> bytes:
            if stored not in (None, mine):
                raise InvalidProgramError(f"a job with the id {graph.job_id} was already submitted")
            return mine

        try:
            await change(self._store, _key(graph.job_id), self._leadership, new)
        except InvalidProgramError:
            await self._contents.delete(pointer)
            raise
        return StoredGraph(graph, pointer)

    async def get(self, job_id: JobId) -> StoredGraph | None:
        """The graph of a job, or None."""
        stored = await read(self._store, _key(job_id))
        if stored is None:
            return None
        pointer = stored.decode()
        return StoredGraph(await self._contents.get(pointer), pointer)

    async def remove(self, stored: StoredGraph) -> None:
        """Removes this graph, if it is there; one that was added since under the same id stays."""
        mine = stored.pointer.encode()
        key = _key(stored.graph.job_id)
        await change(self._store, key, self._leadership, lambda now: None if now == mine else now)
        await self._contents.delete(stored.pointer)

    async def job_ids(self) -> list[JobId]:
        """Of all graphs."""
        return [JobId(name) for name in await names(self._store, Kind.JOB_GRAPH)]


def _key(job_id: JobId) -> Key:
    return Key(Kind.JOB_GRAPH, job_id)
