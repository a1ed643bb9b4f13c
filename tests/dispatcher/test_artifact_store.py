"""Artifacts of jobs: on this host, and in storage that dispatchers of several hosts share."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.core.environments.artifacts import ArtifactError
from millstream.core.jobs.graph import Artifact, ArtifactKind
from millstream.core.snapshot.storage.uri_files import UriFiles
from millstream.dispatcher.artifact_store import ArtifactStore
from millstream.dispatcher.shared_artifacts import SharedArtifacts

LONG = 3600.0


class Hosts:
    """Dispatchers with what they share: one folder, or none and other storage."""

    def __init__(self, folder: Path, shared: UriFiles | None = None) -> None:
        self._folder = folder
        self.shared = shared

    def folder(self, host: str) -> Path:
        made = self._folder / (host if self.shared is not None else "common")
        made.mkdir(exist_ok=True)
        return made

    def store(self, host: str = "one", max_size: int = 1000, max_total_size: int = 1500) -> ArtifactStore:
        shared = None if self.shared is None else SharedArtifacts(self.shared)
        return ArtifactStore(self.folder(host), max_size, max_total_size, shared, LONG)


@pytest.fixture(params=["folder", "renaming", "s3"])
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Hosts:
    match request.param:
        case "folder":
            return Hosts(tmp_path)
        case "renaming":  # as on HDFS
            return Hosts(tmp_path, UriFiles(f"file://{tmp_path}/shared"))
    root: str = request.getfixturevalue("s3_root")
    return Hosts(tmp_path, UriFiles(root.format(path=f"artifacts/{tmp_path.name}")))


async def upload(store: ArtifactStore, content: bytes, name: str = "file") -> str:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 7):
            yield content[start : start + 7]

    artifact = Artifact(hashlib.sha256(content).hexdigest(), name, ArtifactKind.ARCHIVE)
    await store.store(artifact, chunks())
    return artifact.sha256


async def read(store: ArtifactStore, sha256: str) -> bytes:
    return b"".join([data async for data in store.read(sha256)])


async def test_what_one_dispatcher_was_given_all_have(hosts: Hosts, tmp_path: Path) -> None:
    one, two = hosts.store("one"), hosts.store("two")
    sha256 = await upload(one, b"the content of a wheel")
    assert await two.has(sha256)
    assert await asyncio.gather(*(read(two, sha256) for _ in range(5))) == [b"the content of a wheel"] * 5
    await two.copy(Artifact(sha256, "file", ArtifactKind.ARCHIVE), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"the content of a wheel"
    adopted = await two.adopt(tmp_path / "copy", "copy", ArtifactKind.WHEEL)
    assert adopted.sha256 == sha256
    assert os.listdir(hosts.folder("two")) == [sha256]


async def test_an_artifact_that_is_not_there_is_refused(hosts: Hosts) -> None:
    store = hosts.store()
    for sha256 in ("0" * 64, "../../etc/passwd"):
        with pytest.raises(ArtifactError, match=r"upload it first|not a sha256"):
            await read(store, sha256)
    assert not await store.has("0" * 64)
    assert os.listdir(hosts.folder("one")) == []


async def test_artifacts_have_a_limit_together(hosts: Hosts) -> None:
    store = hosts.store()
    await upload(store, b"a" * 900)
    with pytest.raises(ArtifactError, match=r"dispatcher\.artifacts\.max-total-size"):
        await upload(hosts.store("two"), b"b" * 900)
    await upload(store, b"c" * 600)
    assert len(os.listdir(hosts.folder("one"))) == 2


@pytest.mark.parametrize("hosts", ["folder", "renaming"], indirect=True)  # objects cannot be made older
async def test_artifacts_that_no_job_needs_are_deleted(hosts: Hosts, tmp_path: Path) -> None:
    store = hosts.store()
    used, asked_for, unused = [await upload(store, content) for content in (b"used", b"asked for", b"unused")]
    kept = hosts.folder("one") if hosts.shared is None else tmp_path / "shared"
    left_over = kept / (".partial-x" if hosts.shared is None else ".tmp-x")
    left_over.touch()
    for name in os.listdir(kept):
        os.utime(kept / name, (1, 1))
    assert await store.has(asked_for)
    assert unused in await store.clean([used], LONG)
    assert await store.clean([], LONG) == []
    assert [await store.has(sha256) for sha256 in (used, asked_for, unused)] == [True, True, False]
    assert not left_over.exists()


async def test_unused_objects_are_removed_with_their_marks(tmp_path: Path, s3_root: str) -> None:
    hosts = Hosts(tmp_path, UriFiles(s3_root.format(path="cleaned")))
    store = hosts.store()
    first, second = await upload(store, b"first"), await upload(store, b"second")
    assert await store.has(first)
    assert await store.clean([second], LONG) == []
    await store.clean([], -LONG)  # everything is older than an hour from now
    assert hosts.shared is not None
    assert hosts.shared.listing(hosts.shared.root) == []
    assert [await store.has(sha256) for sha256 in (first, second)] == [False, False]


async def test_a_host_keeps_what_it_needs_of_shared_artifacts(tmp_path: Path, s3_root: str) -> None:
    hosts = Hosts(tmp_path, UriFiles(s3_root.format(path="kept")))
    store = hosts.store()
    first = await upload(store, b"first")
    os.utime(hosts.folder("one") / first, (1, 1))
    second = await upload(store, b"second")
    assert os.listdir(hosts.folder("one")) == [second]
    assert await read(store, first) == b"first"


async def test_what_was_damaged_in_shared_storage_is_not_handed_out(tmp_path: Path, s3_root: str) -> None:
    hosts = Hosts(tmp_path, UriFiles(s3_root.format(path="harmed")))
    sha256 = await upload(hosts.store("one"), b"content")
    assert hosts.shared is not None
    hosts.shared.write_whole(f"{hosts.shared.root}/{sha256}", b"other")
    with pytest.raises(ArtifactError, match="arrived damaged"):
        await read(hosts.store("two"), sha256)
    assert os.listdir(hosts.folder("two")) == []
