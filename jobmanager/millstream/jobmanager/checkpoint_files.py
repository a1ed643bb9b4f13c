"""The files of a job's checkpoints in storage, and the order in which they are deleted.

Owned by the job manager's loop; everything that may block runs on threads. Deletions run one after another. A file
that another retained checkpoint refers to is kept, and so is one that a pending checkpoint may refer to, until that has
ended; failed deletions are logged, and retried with each completed checkpoint and when the job ends.

A task that is notified too late that a checkpoint was aborted may write into its folder after that was deleted. So the
folder is deleted once more when a later checkpoint completes, or after many more aborted ones. When the job has ended,
what it does not keep is deleted at once, and again when the last slot workers have ended.

A job deletes only what it wrote or claimed. What is in its folder when it starts belongs to an earlier run under the
same id, and this or another job may start from it: it is kept, and the ids of checkpoints begin after it. What an
earlier leader of the job has stored belongs to the job, with the shared files that it refers to.

A leader that is killed leaves folders of pending checkpoints, and shared files that no checkpoint refers to. The next
leader deletes what the first one did not find there already (`inherit`), once all restore points are read: folders at
once, shared files after a checkpoint of its own. That needs no fencing, since these files can never be needed again,
even if the leader has changed: ids are not reused, only restore points are restored from, and tasks refer only to files
of completed checkpoints, none of which refers to these.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from millstream.core.errors import MillstreamError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import JobId
from millstream.core.processes.background import BackgroundTasks
from millstream.core.snapshot import (
    CheckpointStorage,
    FileSystemStorage,
    MemoryStorage,
    SharedFileRegistry,
    SnapshotMetadata,
)
from millstream.core.snapshot.storage.uri_files import has_options, root_of, with_options_of
from millstream.core.store.checkpoint_pointers import Home
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    CompletedCheckpoint,
    SnapshotOptions,
)
from millstream.jobmanager.checkpoints.settings import CheckpointSettings, StorageKind
from millstream.jobmanager.restoring.starting_snapshot import StartingSnapshot, completed_checkpoint
from millstream.jobmanager.snapshot_content import AcknowledgedState, snapshot_metadata

log = logging.getLogger(__name__)

_REMEMBERED = 128  # aborted checkpoints that are remembered, while none completes
_LAST_WRITERS = 10.0  # seconds that slot workers may take to end, after their job


def storage_of(job_id: JobId, settings: CheckpointSettings) -> CheckpointStorage:
    """Returns file storage when a directory is set, unless the job manager's memory is configured."""
    if settings.directory is not None and settings.storage is not StorageKind.JOB_MANAGER:
        return FileSystemStorage(settings.directory, job_id)
    if settings.storage is StorageKind.FILESYSTEM:
        raise MillstreamError(
            "option 'execution.checkpointing.storage': filesystem needs a directory; set execution.checkpointing.dir"
        )
    return MemoryStorage(job_id)


class CheckpointFiles:
    """The files of one job. `directories` are configured; their credentials also serve others of their scheme."""

    def __init__(
        self, job_id: JobId, storage: CheckpointStorage, background: BackgroundTasks, directories: Sequence[str] = ()
    ) -> None:
        self._job_id = job_id
        self._storage = storage
        self._directories = directories
        self._background = background
        self._shared = SharedFileRegistry()
        self._start: StartingSnapshot | None = None
        self._first_id: int | None = None
        self._is_prepared = False
        self._found: list[int] = []
        self._foreign: frozenset[str] = frozenset()
        self._abandoned: frozenset[str] = frozenset()
        self._kept_start: frozenset[str] = frozenset()
        self._folders: dict[CheckpointId, tuple[CheckpointStorage, str]] = {}
        self._written: dict[CheckpointId, tuple[str, ...]] = {}
        self._discarded: dict[CheckpointId, tuple[CheckpointStorage, str]] = {}
        self._reserved: dict[str, deque[tuple[CheckpointStorage, str]]] = {}
        self._given_up: list[Callable[[], None]] = []
        self._unused: dict[str, tuple[CheckpointStorage, frozenset[CheckpointId]]] = {}
        self._deletions: deque[tuple[str, Callable[[], None]]] = deque()
        self._not_deleted: deque[tuple[str, Callable[[], None]]] = deque(maxlen=_REMEMBERED)
        self._deleting = False
        self._all_deleted = asyncio.Event()
        self._all_deleted.set()

    @property
    def home(self) -> str:
        """The folder of the job's checkpoints; empty if they are in memory."""
        return self._storage.home if isinstance(self._storage, FileSystemStorage) else ""

    def start_from(self, snapshot: StartingSnapshot) -> None:
        """Sets the job's first restore point; if it is claimed, so are the shared files that it refers to."""
        self._start = snapshot
        if snapshot.claimed:
            claimed = snapshot.metadata.shared_files()
            self._shared.register(snapshot.metadata.checkpoint_id, claimed)
            self._foreign -= {path.rpartition("/")[2] for path in claimed}
        else:
            self._kept_start = frozenset(snapshot.metadata.shared_files())

    async def take_up(self, pointers: Iterable[str]) -> list[CompletedCheckpoint]:
        """Reads the completed checkpoints of an earlier leader; one that cannot be read is skipped and kept."""
        found: list[CompletedCheckpoint] = []
        for pointer in pointers:
            try:
                metadata = await asyncio.to_thread(self._storage.read_metadata, pointer)
            except (MillstreamError, OSError) as error:
                log.warning("job %s: skipping the unreadable checkpoint at %s: %s", self._job_id, pointer, error)
                continue
            shared = metadata.shared_files()
            self._shared.register(metadata.checkpoint_id, shared)
            self._foreign -= {path.rpartition("/")[2] for path in shared}
            found.append(completed_checkpoint(metadata, pointer, owned=True))
        return found

    def given_up(self, checkpoint_ids: Iterable[CheckpointId]) -> None:
        """Deletes the folders of an earlier leader's pending checkpoints; tasks may still write into them."""
        for number in checkpoint_ids:
            self._discarded[number] = self._storage, self._storage.checkpoint_location(number)
            self._delete_folder(f"the remains of checkpoint {number}", *self._discarded[number])

    async def prepare_checkpoints(self, create: bool = True, follows: bool = False) -> int:
        """Creates the directory of checkpoints, if they are in files, and lists what an earlier run left there.

        With `follows`, that may belong to an earlier leader of the job. Returns the highest used checkpoint id, or 0.
        """
        storage = self._storage
        if isinstance(storage, FileSystemStorage):
            if create:
                await asyncio.to_thread(storage.create_root, private=True)
            self._found = [stored.checkpoint_id for stored in await asyncio.to_thread(storage.list_checkpoints)]
            self._foreign = frozenset(await asyncio.to_thread(storage.shared_files))
            if (self._found or self._foreign) and not follows:
                log.warning(
                    "job %s: an earlier run with this id left checkpoints (%d, the last is chk-%d) and shared files "
                    "(%d) in %s. They are kept; delete those that are not needed, while no job with this id runs",
                    self._job_id,
                    len(self._found),
                    max(self._found, default=0),
                    len(self._foreign),
                    storage.home,
                )
        self._is_prepared = True
        return max(self._found, default=0)

    def settled(self) -> Home:
        """Returns which files of the folder belong to the job, as its first leader found it."""
        return Home(self.home, max(self._found, default=0) + 1, not self._foreign)

    def inherit(self, home: Home, retained: Collection[int]) -> None:
        """Deletes what earlier leaders left in the folder, except these checkpoints, whose files are registered."""
        if not home.location or home.location != self.home:
            return
        self._first_id = home.first_id
        self.given_up(CheckpointId(n) for n in self._found if n >= home.first_id and n not in retained)
        if home.owns_shared:
            self._abandoned, self._foreign = self._foreign, frozenset()

    def _sweep(self) -> None:
        """Deletes unreferenced shared files of earlier leaders, once a checkpoint of this leader is complete."""
        storage, used = self._storage, {path.rpartition("/")[2] for path in (*self._shared.files, *self._kept_start)}
        names = sorted(self._abandoned - used)
        self._abandoned = frozenset()
        if names and isinstance(storage, FileSystemStorage):
            log.info("job %s: deleting %d unneeded shared files of earlier leaders", self._job_id, len(names))
            self._delete_later("shared files of earlier leaders", lambda: storage.delete_shared_files(names))

    @property
    def is_prepared(self) -> bool:
        """Whether it is known which files in the job's folder do not belong to it."""
        return self._is_prepared or not isinstance(self._storage, FileSystemStorage)

    def _owned(self, paths: Iterable[str]) -> list[str]:
        """Returns the shared files that the job may delete."""
        kept = self._kept_start
        return [path for path in paths if path not in kept and path.rpartition("/")[2] not in self._foreign]

    async def prepare_savepoint(self, directory: str) -> str:
        """Creates the directory of savepoints, so that an error is found before the checkpoint would fail.

        Returns the folder in it for the next savepoint.
        """
        storage = FileSystemStorage(self.reachable(directory), self._job_id)
        await asyncio.to_thread(storage.create_root, private=False)
        location = storage.savepoint_location()
        self._reserved.setdefault(directory, deque()).append((storage, location))
        return location

    def give_up_savepoints(self, locations: Iterable[str]) -> None:
        """Deletes the unfinished savepoints of an earlier leader, and again what tasks write after that."""
        for location in locations:
            try:
                storage = FileSystemStorage(self.reachable(location.rpartition("/")[0]), self._job_id)
            except (MillstreamError, OSError) as error:
                log.warning("job %s: keeping the unfinished savepoint at %s: %s", self._job_id, location, error)
                continue
            self._given_up.append(partial(storage.delete_unfinished, location))
        self._delete_given_up()

    def _delete_given_up(self) -> None:
        for delete in self._given_up:
            self._delete_later("an unfinished savepoint of an earlier leader", delete)

    def reachable(self, directory: str) -> str:
        """Adds the credentials and options of a configured directory to a location, unless it has its own."""
        if has_options(directory):
            return directory
        return with_options_of(root_of(directory, self._directories), directory)

    def location(self, checkpoint_id: CheckpointId, options: SnapshotOptions) -> str:
        """Returns the folder of a pending snapshot, with the credentials that tasks need; always the same one."""
        location = self._folder(checkpoint_id, options)[1]
        directory = options.target_directory
        return location if directory is None else with_options_of(self.reachable(directory), location)

    def _folder(self, checkpoint_id: CheckpointId, options: SnapshotOptions) -> tuple[CheckpointStorage, str]:
        if checkpoint_id not in self._folders:
            if self._first_id is None:
                self._first_id = checkpoint_id
            if reserved := self._reserved.get(options.target_directory or ""):
                self._folders[checkpoint_id] = reserved.popleft()
            elif options.target_directory is not None:
                files = FileSystemStorage(self.reachable(options.target_directory), self._job_id)
                self._folders[checkpoint_id] = files, files.savepoint_location()
            else:
                self._folders[checkpoint_id] = self._storage, self._storage.checkpoint_location(checkpoint_id)
        return self._folders[checkpoint_id]

    async def write_metadata(
        self, graph: JobGraph, content: CheckpointContent, now_ms: int
    ) -> ev.MetadataWritten | ev.MetadataFailed:
        """Writes the metadata of a snapshot; returns its pointer."""
        checkpoint_id, options = content.checkpoint_id, content.options

        def write() -> tuple[str, SnapshotMetadata]:
            metadata = snapshot_metadata(graph, content, now_ms)
            storage, location = self._folder(checkpoint_id, options)
            return storage.write_metadata(location, metadata), metadata

        try:
            pointer, metadata = await asyncio.to_thread(write)
        except (MillstreamError, OSError, ValueError) as error:
            return ev.MetadataFailed(checkpoint_id, str(error))
        self._written[checkpoint_id] = metadata.shared_files()
        return ev.MetadataWritten(checkpoint_id, pointer)

    async def read_metadata(self, pointer: str) -> SnapshotMetadata:
        """Reads a restore point's metadata. A savepoint that stopped the job may be in another storage."""
        if self._start is not None and pointer == self._start.location:
            return self._start.metadata
        where = (storage for storage, location in self._folders.values() if location == pointer)
        return await asyncio.to_thread(next(where, self._storage).read_metadata, pointer)

    def retained(self, checkpoint_id: CheckpointId) -> None:
        """Registers the shared files of a new restore point, so that they are kept."""
        self._shared.register(checkpoint_id, self._written.pop(checkpoint_id, ()))
        for number in [number for number in self._discarded if number < checkpoint_id]:
            self._delete_again(number)
        self._delete_given_up()
        self._given_up.clear()
        self._sweep()
        self._try_again()

    def _try_again(self) -> None:
        again = list(self._not_deleted)
        self._not_deleted.clear()
        for what, work in again:
            self._delete_later(what, work)

    def released(self, checkpoint_id: CheckpointId) -> None:
        """Unregisters a snapshot that belongs to the user; its files are kept."""
        self._shared.unregister(checkpoint_id)
        self._folders.pop(checkpoint_id, None)
        self._written.pop(checkpoint_id, None)

    def delete(self, checkpoint: CompletedCheckpoint, under_way: Collection[CheckpointId]) -> None:
        """Deletes a completed checkpoint, with the shared files that no other refers to.

        Pending ones may be based on it: what they refer to is known when they have ended (`ended`).
        """
        checkpoint_id, start = checkpoint.checkpoint_id, self._start
        self._folders.pop(checkpoint_id, None)
        storage: CheckpointStorage = self._storage
        if start is not None and checkpoint.pointer == start.location:
            storage = start.storage
            self._delete_later(f"the snapshot {start.location}", lambda: storage.delete_snapshot(checkpoint.pointer))
        else:
            self._delete_folder(f"checkpoint {checkpoint_id}", storage, checkpoint.pointer)
        waits_for = frozenset(under_way)
        self._unused.update((path, (storage, waits_for)) for path in self._shared.unregister(checkpoint_id))

    def ended(self, under_way: Collection[CheckpointId]) -> None:
        """Deletes the shared files that none of the checkpoints that are still pending can refer to."""
        free: dict[CheckpointStorage, list[str]] = {}
        for path, (storage, waits_for) in self._unused.items():
            if waits_for.isdisjoint(under_way):
                free.setdefault(storage, []).append(path)
        for storage, paths in free.items():
            for path in paths:
                del self._unused[path]
            if unused := self._owned(self._shared.unused(paths)):
                self._delete_files("shared files of deleted checkpoints", storage, unused)

    def discard(self, effect: ev.DiscardState, is_alive: bool) -> None:
        """Deletes the states of an aborted checkpoint, and its folder unless the checkpoint `is_alive`."""
        shared = (
            file.path
            for state in effect.states
            if isinstance(state, AcknowledgedState)
            for operator in state.operators
            for kept in operator.states
            for file in kept.files
            if file.inline is None and file.shared
        )
        what = f"the remains of checkpoint {effect.checkpoint_id}"
        if unused := self._owned(path for path in self._shared.unused(shared) if path not in self._unused):
            self._delete_files(what, self._storage, unused)
        folder = self._folders.get(effect.checkpoint_id)
        if folder is not None and not is_alive:
            self._written.pop(effect.checkpoint_id, None)
            self._discarded[effect.checkpoint_id] = folder
            self._delete_folder(what, *folder)
            if len(self._discarded) > _REMEMBERED:
                self._delete_again(next(iter(self._discarded)))

    def _delete_again(self, number: CheckpointId) -> None:
        self._folders.pop(number, None)
        self._delete_folder(f"the remains of checkpoint {number}", *self._discarded.pop(number))

    async def clean_up(self) -> bool:
        """Deletes what the ended job does not keep, and retries failed deletions; returns whether all succeeded."""
        self._try_again()
        self._delete_leftovers()
        await self._all_deleted.wait()
        return not self._not_deleted

    def job_ended(self) -> None:
        """Schedules the deletion of what the last slot workers write after the job's end."""
        self._delete_leftovers()
        self._background.spawn(self._delete_leftovers_later())

    async def _delete_leftovers_later(self) -> None:
        await asyncio.sleep(_LAST_WRITERS)
        self._delete_leftovers()

    def _delete_leftovers(self) -> None:
        for number, folder in self._discarded.items():
            self._delete_folder(f"the remains of checkpoint {number}", *folder)
        self._delete_given_up()
        self._not_deleted.clear()
        self._delete_later("what the job left", self._clean_up)

    def _clean_up(self) -> None:
        first, kept = self._first_id, set(self._shared.checkpoints)
        if first is None or not self._is_prepared:
            return
        for stored in self._storage.list_checkpoints():
            if stored.checkpoint_id >= first and stored.checkpoint_id not in kept:
                self._storage.delete_folder(stored.location)
        self._storage.delete_unused_files([*self._shared.files, *self._foreign, *self._kept_start])
        self._storage.delete_empty_folders()

    def _delete_folder(self, what: str, storage: CheckpointStorage, location: str) -> None:
        self._delete_later(what, lambda: storage.delete_folder(location))

    def _delete_files(self, what: str, storage: CheckpointStorage, paths: Collection[str]) -> None:
        self._delete_later(what, lambda: storage.delete_files(paths))

    def _delete_later(self, what: str, work: Callable[[], None]) -> None:
        self._deletions.append((what, work))
        if not self._deleting:
            self._deleting = True
            self._all_deleted.clear()
            self._background.spawn(self._delete_all())

    async def _delete_all(self) -> None:
        try:
            while self._deletions:
                what, work = self._deletions.popleft()
                try:
                    await asyncio.to_thread(work)
                except (MillstreamError, OSError) as error:
                    log.warning("job %s: %s could not be deleted: %s", self._job_id, what, error)
                    self._not_deleted.append((what, work))
        finally:
            self._deleting = False
            self._all_deleted.set()
