"""What checkpoints leave in storage: removed when it is no longer needed, and never sooner."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from job_graphs import pipeline
from waiting import wait_until

from millstream.core.jobs.barriers import StopMode
from millstream.core.jobs.ids import AttemptId, JobId, OperatorId
from millstream.core.processes.background import BackgroundTasks
from millstream.core.snapshot import (
    CheckpointStorage,
    FileSystemStorage,
    MemoryStorage,
    OperatorSnapshot,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
)
from millstream.core.snapshot.errors import SnapshotError
from millstream.core.store.checkpoint_pointers import Home
from millstream.jobmanager.checkpoint_files import CheckpointFiles
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import (
    CheckpointContent,
    CheckpointId,
    SnapshotOptions,
    TaskRef,
    TaskSnapshot,
)
from millstream.jobmanager.failover.topology import Subtask
from millstream.jobmanager.snapshot_content import AcknowledgedState


@asynccontextmanager
async def checkpoint_files(storage: CheckpointStorage) -> AsyncIterator[CheckpointFiles]:
    background = BackgroundTasks()
    try:
        yield CheckpointFiles(JobId("job"), storage, background)
    finally:
        await background.cancel()


async def gone(path: Path) -> None:
    """For deletions, which happen on threads, without an event."""
    await asyncio.to_thread(wait_until, lambda: not path.exists(), f"{path} to be gone")


class OtherStorage(MemoryStorage):
    """Does not reach savepoints: in another place, they need other credentials."""

    def read_metadata(self, pointer: str) -> SnapshotMetadata:
        raise AssertionError(f"{pointer} is not here")


def half_written(location: str) -> None:
    """A checkpoint that is in progress has its first file."""
    folder = Path(location.removeprefix("file://"))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "half").write_text("")


class FailingStorage(FileSystemStorage):
    """Does not delete while it is `out_of_order`."""

    out_of_order = True

    def delete_folder(self, location: str) -> None:
        if self.out_of_order:
            raise SnapshotError(location, "storage failed")
        super().delete_folder(location)


async def test_what_could_not_be_deleted_is_tried_again_when_the_job_has_ended(tmp_path: Path) -> None:
    storage = FailingStorage(str(tmp_path), JobId("job"))
    async with checkpoint_files(storage) as files:
        half_written(files.location(CheckpointId(3), SnapshotOptions()))
        files.discard(ev.DiscardState(CheckpointId(3), ()), is_alive=False)
        assert not await files.clean_up()
        assert storage.list_checkpoints()
        storage.out_of_order = False
        assert await files.clean_up()
        assert not storage.list_checkpoints()


async def test_a_savepoint_that_was_to_stop_the_job_is_read_where_it_was_written(tmp_path: Path) -> None:
    async with checkpoint_files(OtherStorage(JobId("job"))) as files:
        options = SnapshotOptions(is_savepoint=True, stop=StopMode.SUSPEND, target_directory=str(tmp_path))
        content = CheckpointContent(CheckpointId(3), options, 0, ())
        written = await files.write_metadata(pipeline(1), content, 0)
        assert isinstance(written, ev.MetadataWritten)
        files.retained(CheckpointId(3))
        assert (await files.read_metadata(written.pointer)).checkpoint_id == 3


async def test_what_comes_late_to_a_checkpoint_that_was_given_up_goes_although_none_completes(tmp_path: Path) -> None:
    async with checkpoint_files(FileSystemStorage(str(tmp_path), JobId("job"))) as files:

        def give_up(number: int) -> Path:
            checkpoint_id = CheckpointId(number)
            location = Path(files.location(checkpoint_id, SnapshotOptions()).removeprefix("file://"))
            location.mkdir(parents=True)
            files.discard(ev.DiscardState(checkpoint_id, ()), is_alive=False)
            return location

        first = give_up(1)
        await gone(first)
        await asyncio.to_thread(first.mkdir, parents=True)
        for number in range(2, 200):
            give_up(number)
        await gone(first)


def shared_file(folder: Path, name: str) -> Path:
    path = folder / "job" / "shared" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"state")
    return path


def acknowledged(*paths: Path, operator: str = "o") -> AcknowledgedState:
    files = tuple(StateFile(f"file://{path}", 0, None, None, 1, 5, "") for path in paths)
    state = StateSnapshot("s", StateKind.VALUE, files=files)
    return AcknowledgedState((OperatorSnapshot(OperatorId(operator), None, "o", 1, 128, (state,)),))


async def test_what_an_earlier_run_under_the_same_id_left_is_not_deleted(tmp_path: Path) -> None:
    """Nor what the job may have started from, whatever the checkpoints of tasks refer to."""
    base, other = shared_file(tmp_path, "base.arrow"), shared_file(tmp_path, "other.arrow")
    older = tmp_path / "job" / "chk-7"
    older.mkdir()
    (older / "part").touch()

    async with checkpoint_files(FileSystemStorage(str(tmp_path), JobId("job"))) as files:
        assert await files.prepare_checkpoints() == 7
        location = Path(files.location(CheckpointId(8), SnapshotOptions()).removeprefix("file://"))
        await asyncio.to_thread(location.mkdir)
        mine = await asyncio.to_thread(shared_file, tmp_path, "mine.arrow")
        files.discard(ev.DiscardState(CheckpointId(8), (acknowledged(base, mine),)), is_alive=False)
        await gone(mine)
        late = await asyncio.to_thread(shared_file, tmp_path, "late.arrow")
        files.job_ended()
        await gone(late)
        await gone(location)
    assert base.exists()
    assert other.exists()
    assert (older / "part").exists()


def folder(home: Path, number: int) -> Path:
    path = home / "job" / f"chk-{number}"
    path.mkdir(parents=True)
    (path / "part").touch()
    return path


async def test_what_earlier_leaders_left_goes_and_what_was_there_before_them_stays(tmp_path: Path) -> None:
    earlier_run, storage = folder(tmp_path, 3), FileSystemStorage(str(tmp_path), JobId("job"))
    async with checkpoint_files(storage) as first:
        await first.prepare_checkpoints()
        home = first.settled()
    assert home == Home(f"file://{tmp_path}/job", 4, owns_shared=True)
    retained, under_way = folder(tmp_path, 5), folder(tmp_path, 6)
    used, unused = shared_file(tmp_path, "used.arrow"), shared_file(tmp_path, "unused.arrow")
    async with checkpoint_files(storage) as second:
        assert await second.prepare_checkpoints(follows=True) == 6
        second.inherit(home, [5])
        await gone(under_way)
        new = await asyncio.to_thread(shared_file, tmp_path, "new.arrow")
        assert unused.exists(), "it has completed no checkpoint"
        await complete(second, 7, used)
        await gone(unused)
        second.job_ended()
        await gone(new)
    assert used.exists()
    assert (earlier_run / "part").exists()
    assert (tmp_path / "job" / "chk-7").exists()
    assert not retained.exists(), "the restore points that are registered are those that stay, when the job ends"


@pytest.mark.parametrize("home", [Home(), Home("file:///elsewhere/job", 1, owns_shared=True)])
async def test_nothing_goes_of_a_folder_of_which_it_is_not_known_whose_it_is(tmp_path: Path, home: Home) -> None:
    left, unused = folder(tmp_path, 5), shared_file(tmp_path, "unused.arrow")
    async with checkpoint_files(FileSystemStorage(str(tmp_path), JobId("job"))) as files:
        await files.prepare_checkpoints(follows=True)
        files.inherit(home, [])
        await complete(files, 7, await asyncio.to_thread(shared_file, tmp_path, "used.arrow"))
        late = await asyncio.to_thread(shared_file, tmp_path, "late.arrow")
        files.job_ended()
        await gone(late)
    assert left.exists()
    assert unused.exists()


async def test_shared_files_stay_where_an_earlier_run_has_left_some(tmp_path: Path) -> None:
    storage, theirs = FileSystemStorage(str(tmp_path), JobId("job")), shared_file(tmp_path, "theirs.arrow")
    async with checkpoint_files(storage) as first:
        await first.prepare_checkpoints()
        home = first.settled()
    left = folder(tmp_path, 1)
    async with checkpoint_files(storage) as second:
        await second.prepare_checkpoints(follows=True)
        second.inherit(home, [])
        await gone(left)
        await complete(second, 7, await asyncio.to_thread(shared_file, tmp_path, "used.arrow"))
        late = await asyncio.to_thread(shared_file, tmp_path, "late.arrow")
        second.job_ended()
        await gone(late)
    assert theirs.exists()


async def test_what_could_not_be_deleted_is_tried_again_with_the_next_checkpoint(tmp_path: Path) -> None:
    class Unreliable(FileSystemStorage):
        fails = True

        def delete_folder(self, location: str) -> None:
            if self.fails:
                tried.set()
                raise OSError("input/output error")
            super().delete_folder(location)

    tried, storage, left = threading.Event(), Unreliable(str(tmp_path), JobId("job")), folder(tmp_path, 1)
    async with checkpoint_files(storage) as files:
        await files.prepare_checkpoints(follows=True)
        files.inherit(Home(files.home, 1), [])
        await asyncio.to_thread(tried.wait, 60)
        await complete(files, 2, await asyncio.to_thread(shared_file, tmp_path, "used.arrow"))
        storage.fails = False
        await complete(files, 3, await asyncio.to_thread(shared_file, tmp_path, "more.arrow"))
        await gone(left)


async def complete(files: CheckpointFiles, number: int, *shared: Path) -> None:
    """A checkpoint that refers to these shared files is a restore point."""
    checkpoint_id = CheckpointId(number)
    graph = pipeline(1)
    (vertex,) = graph.vertices
    task = TaskRef(Subtask(vertex.id, 0), AttemptId("attempt"))
    snapshot = TaskSnapshot(task, acknowledged(*shared, operator=vertex.operators[0].id))
    content = CheckpointContent(checkpoint_id, SnapshotOptions(), 0, (snapshot,))
    written = await files.write_metadata(graph, content, 0)
    assert isinstance(written, ev.MetadataWritten), written
    files.retained(checkpoint_id)
