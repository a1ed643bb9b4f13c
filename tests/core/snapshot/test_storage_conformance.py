"""What every checkpoint storage does; tested with memory, local files and a real S3 API."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from millstream.core.jobs.ids import JobId, OperatorId
from millstream.core.snapshot import (
    CheckpointStorage,
    FileSystemStorage,
    MemoryStorage,
    OperatorSnapshot,
    SnapshotError,
    SnapshotKind,
    SnapshotMetadata,
    StateFile,
    StateKind,
    StateSnapshot,
    check_files,
)

JOB = JobId("0123456789abcdef")
LONG = {"type": "basic", "name": "Long"}


@dataclass
class Place:
    storage: CheckpointStorage
    directory: str
    in_files: bool

    def again(self) -> CheckpointStorage:
        """Another process's view of the same storage, if there is one."""
        return FileSystemStorage(self.root, JOB) if self.in_files else self.storage

    root: str = ""


@pytest.fixture(params=["memory", "local", "local-uri", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "memory":
        return Place(MemoryStorage(JOB), str(tmp_path / "savepoints"), False)
    if request.param == "s3":
        root = request.getfixturevalue("s3_root").format(path=f"check points/{uuid.uuid4().hex}")
        return Place(FileSystemStorage(root, JOB), f"s3://bucket/savepoints-{uuid.uuid4().hex}", True, root)
    folder = tmp_path / "a folder%20 with # odd ? name"
    root = str(folder) if request.param == "local" else folder.as_uri()
    return Place(FileSystemStorage(root, JOB), str(tmp_path / "save points"), True, root)


def metadata_of(*files: StateFile, checkpoint_id: int = 1) -> SnapshotMetadata:
    state = StateSnapshot("count", StateKind.OPERATOR_LIST, value_type=LONG, files=files)
    operator = OperatorSnapshot(OperatorId("op"), "uid/1", "Map", 1, 128, (state,))
    return SnapshotMetadata(1, JOB, "job", checkpoint_id, SnapshotKind.CHECKPOINT, 5, (operator,), {"a": "b"})


def write(storage: CheckpointStorage, location: str, data: bytes, **options: object) -> StateFile:
    writer = storage.create_writer(location, "uid/1", "count", 0, "bin", **options)  # type: ignore[arg-type]
    for start in range(0, len(data), 1000):
        writer.write(data[start : start + 1000])
    done = writer.commit()
    assert done.path == writer.path
    assert done.size == len(data)
    assert done.checksum == f"sha256:{hashlib.sha256(data).hexdigest()}"
    return StateFile(done.path, 0, None, None, 1, done.size, done.checksum, done.inline)


def content(storage: CheckpointStorage, location: str, file: StateFile) -> bytes:
    if file.inline is not None:
        return file.inline
    return bytes(storage.read_file(location, file.path))


def test_what_was_written_is_read_back(place: Place) -> None:
    location = place.storage.checkpoint_location(7)
    data = bytes(range(256)) * 20
    file = write(place.storage, location, data)
    metadata = metadata_of(file, checkpoint_id=7)
    pointer = place.storage.write_metadata(location, metadata)
    storage = place.again()
    assert storage.read_metadata(pointer) == metadata
    assert storage.read_metadata(f"{pointer}/_metadata.json") == metadata
    assert content(storage, pointer, file) == data
    assert [(c.checkpoint_id, c.location, c.complete) for c in storage.list_checkpoints()] == [(7, pointer, True)]


def test_metadata_can_be_written_again(place: Place) -> None:
    location = place.storage.checkpoint_location(1)
    place.storage.write_metadata(location, metadata_of())
    again = metadata_of(write(place.storage, location, b"x"))
    pointer = place.storage.write_metadata(location, again)
    assert place.storage.read_metadata(pointer) == again


def test_small_content_is_kept_inline(place: Place) -> None:
    location = place.storage.checkpoint_location(1)
    file = write(place.storage, location, b"a" * 2999, inline_below=3000)
    assert file.inline == b"a" * 2999
    large = write(place.storage, location, b"b" * 3000, inline_below=3000, part=1)
    assert (large.inline is None) == place.in_files
    assert content(place.storage, location, large) == b"b" * 3000
    assert write(place.storage, location, b"", inline_below=1, part=2).inline == b""


def test_an_empty_file(place: Place) -> None:
    location = place.storage.checkpoint_location(1)
    assert content(place.storage, location, write(place.storage, location, b"")) == b""


def test_a_snapshot_without_metadata_does_not_exist(place: Place) -> None:
    location = place.storage.checkpoint_location(3)
    write(place.storage, location, b"data")
    with pytest.raises(SnapshotError, match="is no snapshot") as caught:
        place.storage.read_metadata(location)
    assert "chk-3" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert [c.complete for c in place.storage.list_checkpoints()] == ([False] if place.in_files else [])
    if place.in_files:
        for n in (2, 10):
            place.storage.write_metadata(place.storage.checkpoint_location(n), metadata_of(checkpoint_id=n))
        with pytest.raises(SnapshotError, match="; the newest checkpoint beside it is chk-10"):
            place.storage.read_metadata(location)
        with pytest.raises(SnapshotError, match="; the newest checkpoint in it is chk-10"):
            place.storage.read_metadata(location.removesuffix("/chk-3"))


def test_a_checkpoint_is_deleted_with_its_own_files_only(place: Place) -> None:
    shared = None
    for n in (1, 2, 10):
        location = place.storage.checkpoint_location(n)
        files = [write(place.storage, location, b"own %d" % n)]
        if n == 1:
            shared = write(place.storage, location, b"shared", shared=True)
        place.storage.write_metadata(location, metadata_of(*files, checkpoint_id=n))
    assert shared is not None
    place.storage.delete_checkpoint(1)
    place.storage.delete_checkpoint(1)
    assert [c.checkpoint_id for c in place.again().list_checkpoints()] == [2, 10]
    kept = place.storage.read_metadata(place.storage.checkpoint_location(10))
    assert content(place.storage, place.storage.checkpoint_location(10), next(iter(kept.files()))) == b"own 10"
    assert content(place.again(), place.storage.checkpoint_location(2), shared) == b"shared"


def test_an_incomplete_checkpoint_is_deleted(place: Place) -> None:
    location = place.storage.checkpoint_location(4)
    file = write(place.storage, location, b"data")
    place.storage.delete_checkpoint(4)
    assert place.storage.list_checkpoints() == []
    if place.in_files:
        with pytest.raises(SnapshotError, match="does not exist"):
            place.storage.read_file(location, file.path)


def test_shared_files_are_deleted_by_uri_and_then_the_empty_folders(place: Place) -> None:
    location = place.storage.checkpoint_location(1)
    file = write(place.storage, location, b"shared", shared=True)
    assert file.shared == place.in_files
    place.storage.delete_empty_folders()
    assert content(place.again(), location, file) == b"shared"
    if place.in_files:
        assert "/shared/" in file.path
        assert "secret" not in file.path
        place.storage.delete_files([file.path])
        place.storage.delete_files([file.path])
        with pytest.raises(SnapshotError, match="does not exist"):
            place.storage.read_file(location, file.path)
    place.storage.delete_empty_folders()
    place.storage.delete_empty_folders()
    assert place.storage.list_checkpoints() == []


def test_an_aborted_writer_leaves_nothing(place: Place) -> None:
    location = place.storage.checkpoint_location(1)
    writer = place.storage.create_writer(location, "o", "s", 0, "bin")
    writer.write(b"half")
    writer.abort()
    if place.in_files:
        with pytest.raises(SnapshotError, match="does not exist"):
            place.storage.read_file(location, writer.path)


def test_savepoints_have_a_folder_of_their_own(place: Place) -> None:
    one, other = (place.storage.savepoint_location(place.directory) for _ in range(2))
    assert one != other
    assert one.rpartition("/")[2].startswith("savepoint-012345-")
    file = write(place.storage, one, b"data")
    assert file.inline is None
    pointer = place.storage.write_metadata(one, metadata_of(file))
    assert place.again().read_metadata(pointer) == metadata_of(file)
    assert content(place.storage, pointer, file) == b"data"
    assert place.storage.list_checkpoints() == []


def test_a_savepoint_is_disposed_of_with_what_it_lists_only(place: Place) -> None:
    location = place.storage.savepoint_location(place.directory)
    listed, unlisted = write(place.storage, location, b"data"), write(place.storage, location, b"mine", part=1)
    elsewhere = f"{place.storage.savepoint_location(place.directory)}/x.bin"
    shared = StateFile(elsewhere, 0, None, None, 1, 4, listed.checksum)
    pointer = place.storage.write_metadata(location, metadata_of(listed, shared))
    place.storage.delete_snapshot(pointer)
    with pytest.raises(SnapshotError, match="is no snapshot"):
        place.storage.read_metadata(pointer)
    with pytest.raises(SnapshotError, match="does not exist"):
        place.storage.read_file(location, listed.path)
    assert bytes(place.storage.read_file(location, unlisted.path)) == b"mine"
    with pytest.raises(SnapshotError, match="is no snapshot"):
        place.storage.delete_snapshot(pointer)


def test_unusual_names_of_operators_and_states_do_not_collide(place: Place) -> None:
    location = place.storage.savepoint_location(place.directory)
    names = ["a/b", "a", "..", ".", "a b", "a%20b", "ä", "a\N{COMBINING DIAERESIS}", "x" * 300, "x" * 301, "A~2fb"]
    names += ["a~2fb", "a\\b", " ", "\udc80", "#?&", "_metadata.json"]
    files = {}
    for name in names:
        writer = place.storage.create_writer(location, name, name, 0, "bin")
        writer.write(name.encode("utf-8", "surrogatepass"))
        files[name] = writer.commit().path
    assert len(set(files.values())) == len(names)
    place.storage.write_metadata(location, metadata_of())
    assert place.storage.read_metadata(location) == metadata_of()
    for name, path in files.items():
        assert bytes(place.storage.read_file(location, path)) == name.encode("utf-8", "surrogatepass")


def test_the_size_of_a_file_is_known_without_reading_it(place: Place) -> None:
    location = place.storage.savepoint_location(place.directory)
    file = write(place.storage, location, b"12345")
    assert place.again().file_size(location, file.path) == 5
    with pytest.raises(SnapshotError, match="does not exist"):
        place.storage.file_size(location, "no/such/file")


def test_a_folder_is_deleted_by_its_location_and_nothing_else(place: Place) -> None:
    one, other = (place.storage.savepoint_location(place.directory) for _ in range(2))
    files = [write(place.storage, location, b"data") for location in (one, other)]
    place.storage.write_metadata(one, metadata_of(files[0]))
    place.storage.delete_folder(one)
    place.storage.delete_folder(one)
    with pytest.raises(SnapshotError, match="is no snapshot"):
        place.storage.read_metadata(one)
    with pytest.raises(SnapshotError, match="does not exist"):
        place.storage.file_size(one, files[0].path)
    assert content(place.storage, other, files[1]) == b"data"
    checkpoint = place.storage.checkpoint_location(1)
    place.storage.write_metadata(checkpoint, metadata_of())
    place.storage.delete_folder(checkpoint)
    assert place.storage.list_checkpoints() == []


def test_unreferenced_shared_files_are_deleted(place: Place) -> None:
    location = place.storage.checkpoint_location(1)
    place.storage.delete_unused_files([])
    used, unused = (write(place.storage, location, b"shared", shared=True) for _ in range(2))
    own = write(place.storage, location, b"own")
    place.again().delete_unused_files([used.path])
    assert content(place.storage, location, used) == b"shared"
    assert content(place.storage, location, own) == b"own"
    if place.in_files:
        with pytest.raises(SnapshotError, match="does not exist"):
            place.storage.read_file(location, unused.path)


@pytest.mark.parametrize("kind", list(SnapshotKind))
def test_missing_or_damaged_files_are_found_before_they_are_used(place: Place, kind: SnapshotKind) -> None:
    location = place.storage.savepoint_location(place.directory)
    files = [write(place.storage, location, b"data", part=part) for part in range(3)]
    inline = StateFile("nowhere", 0, None, None, 1, 1, "sha256:0", b"x")
    check_files(place.storage, location, replace(metadata_of(*files, inline), kind=kind))
    other = replace(files[1], checksum=files[1].checksum.replace("a", "b"))
    if kind is SnapshotKind.SAVEPOINT:
        with pytest.raises(SnapshotError, match=r"part-0-1\.bin: is damaged: its content"):
            check_files(place.storage, location, replace(metadata_of(files[0], other), kind=kind))
    else:
        check_files(place.storage, location, replace(metadata_of(files[0], other), kind=kind))
    with pytest.raises(SnapshotError, match=r"part-0-2\.bin: is damaged: it has 4 bytes instead of 5"):
        check_files(place.storage, location, replace(metadata_of(*files[:2], replace(files[2], size=5)), kind=kind))
    missing = replace(files[0], path="uid~2f1/count/part-9-0.bin")
    with pytest.raises(SnapshotError, match=r"part-9-0\.bin: does not exist"):
        check_files(place.storage, location, replace(metadata_of(missing), kind=kind))
