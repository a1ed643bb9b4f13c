"""What is kept in the store: job graphs, the pointers of checkpoints; and contents, which are stored elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from store_implementations import InterruptedStore, StoreServer, still_waits, until_suspended

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import JobGraph
from millstream.core.jobs.ids import ANY_EPOCH, JobId, LeaderEpoch, new_id
from millstream.core.services.leader_lookup import Role
from millstream.core.snapshot.storage.uri_files import UriFiles
from millstream.core.store.checkpoint_pointers import CheckpointPointers, JobPointers, Pointer
from millstream.core.store.contents import Contents, MemoryContents, NoContentError, UnreachableContentError
from millstream.core.store.directory.lock_files import release_lock, take_lock
from millstream.core.store.file_contents import FileContents
from millstream.core.store.folder_files import FolderFiles
from millstream.core.store.job_graphs import JobGraphStore, is_recalled
from millstream.core.store.store import Contest, FencedError
from millstream.core.store.uri_content_files import UriContentFiles
from millstream.core.wire.contracts import JOB_GRAPH

JOB = JobId("job")
CONTEST = Contest(Role.JOB_MANAGER, JOB)


async def pointers_of(store: InterruptedStore) -> CheckpointPointers:
    return CheckpointPointers(store, JOB, await store.campaign(CONTEST, "host:1"))


async def graphs_of(store: InterruptedStore, contents: Contents[JobGraph]) -> JobGraphStore:
    return JobGraphStore(store, contents, await store.campaign(Contest(Role.DISPATCHER), "host:1"))


def graph(name: str, job_id: JobId = JOB) -> JobGraph:
    return JobGraph(job_id, name, (), ())


def folder_contents(folder: Path) -> FileContents[JobGraph]:
    return FileContents(FolderFiles(folder), JOB_GRAPH.to_bytes, JOB_GRAPH.from_bytes)


def uri_contents(uri: str) -> FileContents[JobGraph]:
    return FileContents(UriContentFiles(UriFiles(uri)), JOB_GRAPH.to_bytes, JOB_GRAPH.from_bytes)


@pytest.fixture(params=["memory", "folder", "renaming", "s3"])
def contents(request: pytest.FixtureRequest, tmp_path: Path) -> Contents[JobGraph]:
    match request.param:
        case "memory":
            return MemoryContents()
        case "folder":
            return folder_contents(tmp_path / "graphs")
        case "renaming":  # as on HDFS
            return uri_contents(f"file://{tmp_path}/graphs")
    root: str = request.getfixturevalue("s3_root")
    return uri_contents(root.format(path=f"graphs/{tmp_path.name}"))


# Contents


async def test_content_is_found_by_its_pointer_until_it_is_deleted(contents: Contents[JobGraph]) -> None:
    first, second = await contents.put(graph("same")), await contents.put(graph("same"))
    assert first != second
    await contents.delete(first)
    await contents.delete(first)
    assert await contents.get(second) == graph("same")
    with pytest.raises(NoContentError, match=first):
        await contents.get(first)


async def test_content_in_a_folder_is_found_by_the_next_process_even_if_the_folder_was_moved(tmp_path: Path) -> None:
    pointer = await folder_contents(tmp_path / "graphs").put(graph("kept"))
    (tmp_path / "graphs").rename(tmp_path / "moved")
    assert await folder_contents(tmp_path / "moved").get(pointer) == graph("kept")


async def test_content_left_by_a_crash_is_removed_and_content_being_written_is_not(tmp_path: Path) -> None:
    left_over, written = tmp_path / ".partial-1", tmp_path / ".partial-2"
    left_over.write_bytes(b"hal")
    held = take_lock(written)
    pointer = await folder_contents(tmp_path).put(graph("a"))
    release_lock(held)
    assert sorted(os.listdir(tmp_path)) == sorted([written.name, pointer])


@pytest.mark.parametrize("damage", [b"", b"half", b"00000000\nother"])
async def test_damaged_content_is_none_and_is_named(tmp_path: Path, damage: bytes) -> None:
    contents = folder_contents(tmp_path)
    pointer = await contents.put(graph("a"))
    (tmp_path / pointer).write_bytes(damage)
    with pytest.raises(NoContentError, match=f"{pointer} is damaged"):
        await contents.get(pointer)


async def test_a_pointer_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    outside = await folder_contents(tmp_path).put(graph("a"))
    contents = folder_contents(tmp_path / "graphs")
    for pointer in (f"../{outside}", str(tmp_path / outside), "", "."):
        await contents.delete(pointer)
        with pytest.raises(NoContentError):
            await contents.get(pointer)
    assert (tmp_path / outside).exists()


@pytest.mark.parametrize("damage", [b"", b"half", b"00000000\nother"])
async def test_damaged_content_in_object_storage_is_none_and_is_named(s3_root: str, damage: bytes) -> None:
    root = s3_root.format(path="damaged")
    contents = uri_contents(root)
    pointer = await contents.put(graph("a"))
    files = UriFiles(root)
    files.write_whole(f"{files.root}/{pointer}", damage)
    with pytest.raises(NoContentError, match=f"s3://bucket/damaged/{pointer} is damaged"):
        await contents.get(pointer)


async def test_object_storage_that_does_not_respond_is_not_mistaken_for_lost_content(s3_root: str) -> None:
    contents = uri_contents(s3_root.format(path="x").replace("bucket/", "nosuchbucket/"))
    with pytest.raises(UnreachableContentError, match=r"s3://nosuchbucket/x/.*") as refused:
        await contents.put(graph("a"))
    assert "testsecret" not in str(refused.value)


async def test_a_folder_that_cannot_be_written_to_is_not_mistaken_for_lost_content(tmp_path: Path) -> None:
    (tmp_path / "graphs").write_text("a file")
    with pytest.raises(UnreachableContentError, match=str(tmp_path)):
        await folder_contents(tmp_path / "graphs").put(graph("a"))


async def test_leftovers_of_a_crash_are_removed_when_old_where_files_are_renamed(tmp_path: Path) -> None:
    old, new = tmp_path / f".tmp-{new_id()}", tmp_path / f".tmp-{new_id()}"
    for path in (old, new):
        path.write_bytes(b"hal")
    os.utime(old, (1, 1))
    pointer = await uri_contents(f"file://{tmp_path}").put(graph("a"))
    assert sorted(os.listdir(tmp_path)) == sorted([new.name, pointer])


class _Failing(MemoryContents[JobGraph]):
    """Fails for so many deletions."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    async def delete(self, pointer: str) -> None:
        self.left -= 1
        if self.left >= 0:
            raise UnreachableContentError("no response")
        await super().delete(pointer)


# Job graphs


async def test_a_removed_graph_is_deleted_once_storage_responds(server: StoreServer) -> None:
    contents = _Failing(1)
    graphs = await graphs_of(server.connect(), contents)
    await graphs.remove(await graphs.add(graph("a")))
    assert (await graphs.job_ids(), len(contents), contents.left) == ([], 0, -1)


async def test_a_graph_is_found_by_the_next_leader(server: StoreServer, contents: Contents[JobGraph]) -> None:
    first, second = server.connect(), server.connect()
    graphs = await graphs_of(first, contents)
    added = await graphs.add(graph("a"))
    await graphs.add(graph("b", JobId("other")))
    await first.close()
    graphs = await graphs_of(second, contents)
    assert await graphs.job_ids() == ["job", "other"]
    assert await graphs.get(JOB) == added
    await graphs.remove(added)
    assert await graphs.get(JOB) is None
    assert await graphs.job_ids() == ["other"]


async def test_a_recall_is_valid_for_one_leader_of_the_job_while_the_dispatcher_that_made_it_leads(
    server: StoreServer,
) -> None:
    first, second, job_manager = server.connect(), server.connect(), server.connect()
    contents = MemoryContents[JobGraph]()
    epoch = (await job_manager.campaign(CONTEST, "host:2")).epoch
    graphs = await graphs_of(first, contents)
    await graphs.add(graph("a"))
    assert not await is_recalled(job_manager, JOB, epoch)
    await graphs.recall(JOB, epoch)
    assert await is_recalled(job_manager, JOB, epoch)
    assert not await is_recalled(job_manager, JOB, LeaderEpoch(epoch + 1))
    await graphs.cancel(JOB)
    assert await is_recalled(job_manager, JOB, epoch), "each of both wishes is kept"
    await graphs.recall(JOB, ANY_EPOCH)
    assert not await is_recalled(job_manager, JOB, epoch)
    await graphs.recall(JOB, epoch)
    await first.close()
    graphs = await graphs_of(second, contents)
    assert not await is_recalled(job_manager, JOB, epoch), "the current leader has not recalled it"
    stored = await graphs.get(JOB)
    assert stored is not None
    assert stored.cancelled


async def test_a_second_job_with_the_same_id_is_refused_and_leaves_nothing(server: StoreServer) -> None:
    contents = MemoryContents[JobGraph]()
    graphs = await graphs_of(server.connect(), contents)
    first = await graphs.add(graph("first"))
    with pytest.raises(InvalidProgramError, match="a job with the id job was already submitted"):
        await graphs.add(graph("second"))
    assert await graphs.get(JOB) == first
    assert len(contents) == 1


async def test_a_late_removal_does_not_affect_the_next_job_with_the_id(
    server: StoreServer, contents: Contents[JobGraph]
) -> None:
    graphs = await graphs_of(server.connect(), contents)
    first = await graphs.add(graph("first"))
    await graphs.remove(first)
    second = await graphs.add(graph("second"))
    await graphs.remove(first)
    assert await graphs.get(JOB) == second


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_submission_waits_until_the_store_has_responded(
    server: StoreServer, contents: Contents[JobGraph], takes_effect: bool
) -> None:
    store = server.connect()
    graphs = await graphs_of(store, contents)
    store.suspend_within_write(takes_effect)
    adding = asyncio.create_task(graphs.add(graph("a")))
    await until_suspended(store)
    await still_waits(adding)
    store.resume()
    added = await adding
    assert await graphs.get(JOB) == added


# Pointers of checkpoints


async def test_pointers_are_kept_in_order_for_the_next_leader(server: StoreServer) -> None:
    first, second = server.connect(), server.connect()
    pointers = await pointers_of(first)
    assert await pointers.read() == JobPointers(1, ())
    assert await pointers.reserve(1, 4) == range(1, 5)
    for number in (1, 3, 4):
        await pointers.add(Pointer(number, f"file:///chk-{number}"))
    await pointers.remove(1)
    await pointers.remove(2)
    await first.close()
    pointers = await pointers_of(second)
    assert await pointers.read() == JobPointers(5, (Pointer(3, "file:///chk-3"), Pointer(4, "file:///chk-4")))
    await pointers.clear()
    await pointers.clear()
    assert await pointers.read() == JobPointers(1, ())


async def test_no_id_is_assigned_twice_whoever_leads_and_however_the_store_responds(server: StoreServer) -> None:
    given: list[int] = []
    for takes_effect in (None, False, True):
        store = server.connect()
        pointers = await pointers_of(store)
        for _ in range(3):
            if takes_effect is not None:
                store.suspend_within_write(takes_effect)
            reserving = asyncio.create_task(pointers.reserve(1, 3))
            if takes_effect is not None:
                await until_suspended(store)
                store.resume()
            given += await reserving
        await store.close()
    assert given == sorted(set(given))
    pointers = await pointers_of(server.connect())
    assert (await pointers.reserve(1, 1)).start > given[-1]
    assert await pointers.reserve(1000, 2) == range(1000, 1002)
    assert await pointers.reserve(5, 2) == range(1002, 1004)
    blocks = await asyncio.gather(*(pointers.reserve(1, 2) for _ in range(5)))
    assert len({number for block in blocks for number in block}) == 10


@pytest.mark.parametrize("takes_effect", [False, True])
async def test_a_pointer_is_stored_once_although_the_store_did_not_respond(
    server: StoreServer, takes_effect: bool
) -> None:
    store = server.connect()
    pointers = await pointers_of(store)
    await pointers.reserve(1, 4)
    store.suspend_within_write(takes_effect)
    adding = asyncio.create_task(pointers.add(Pointer(1, "chk-1")))
    await until_suspended(store)
    await still_waits(adding)
    store.resume()
    await adding
    assert (await pointers.read()).pointers == (Pointer(1, "chk-1"),)


async def test_a_replaced_leader_changes_no_pointer(server: StoreServer) -> None:
    old, new = server.connect(), server.connect()
    before = await pointers_of(old)
    await before.reserve(1, 4)
    await before.add(Pointer(1, "chk-1"))
    old.lose()
    old.resume()
    after = await pointers_of(new)
    stored = await after.read()
    late: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: before.add(Pointer(2, "chk-2")),
        lambda: before.remove(1),
        lambda: before.remove(7),
        lambda: before.reserve(1, 4),
        before.clear,
    ]
    for call in late:
        with pytest.raises(FencedError):
            await call()
    assert await after.read() == stored
    await after.clear()
    for call in late:  # also where there is nothing to do
        with pytest.raises(FencedError):
            await call()
    assert await after.read() == JobPointers()
