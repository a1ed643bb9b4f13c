"""The behaviour of single storages."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote

import pytest
from test_storage_conformance import JOB, metadata_of, write

from millstream.core.snapshot import FileSystemStorage, MemoryStorage, SnapshotError, storage_at
from millstream.core.snapshot.metadata.model import absolute_location
from millstream.core.snapshot.storage.uri_files import UriFiles, plain_uri


@pytest.fixture
def storage(tmp_path: Path) -> FileSystemStorage:
    return FileSystemStorage(str(tmp_path), JOB)


def test_memory_refuses_a_state_over_its_limit() -> None:
    storage = MemoryStorage(JOB, limit=10)
    location = storage.checkpoint_location(1)
    assert write(storage, location, b"0123456789").size == 10
    with pytest.raises(SnapshotError, match=r"larger than the 10 bytes .* execution.checkpointing.dir"):
        write(storage, location, b"0123456789a")


def test_memory_cannot_store_a_savepoint() -> None:
    with pytest.raises(SnapshotError, match="needs a directory"):
        MemoryStorage(JOB).savepoint_location()


def test_the_layout_on_disk(tmp_path: Path, storage: FileSystemStorage) -> None:
    location = storage.checkpoint_location(3)
    file = write(storage, location, b"data")
    shared = write(storage, location, b"data", shared=True)
    metadata = metadata_of(file, shared, checkpoint_id=3)
    assert metadata.shared_files() == (shared.path,)
    storage.write_metadata(location, metadata)
    found = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    own = [f"{JOB}/chk-3/_metadata.json", f"{JOB}/chk-3/uid~2f1/count/part-0-0.bin"]
    assert found == sorted([*own, f"{JOB}/shared/{shared.path.rpartition('/')[2]}"])
    storage.delete_checkpoint(3)
    storage.delete_files([shared.path])
    storage.delete_empty_folders()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_checkpoints_are_readable_by_their_user_only_and_savepoints_follow_umask(tmp_path: Path, mask: int) -> None:
    storage = FileSystemStorage(str(tmp_path / "checkpoints"), JOB)
    before = os.umask(mask)
    try:
        storage.create_root(private=True)
        FileSystemStorage(str(tmp_path / "savepoints"), JOB).create_root(private=False)
        own = storage.checkpoint_location(1)
        shared = storage.savepoint_location(str(tmp_path / "savepoints"))
        for location in (own, shared):
            storage.write_metadata(location, metadata_of(write(storage, location, b"data")))
        write(storage, own, b"data", shared=True)
    finally:
        os.umask(before)
    modes = {p: p.stat().st_mode & 0o777 for p in tmp_path.rglob("*")}
    for path, mode in modes.items():
        most = 0o777 if path.is_dir() else 0o666
        is_private = "checkpoints" in path.relative_to(tmp_path).parts
        assert mode == (most & 0o700 if is_private else most & ~mask), path
    assert sum(path.is_file() for path in modes) == 5


def test_a_folder_is_never_deleted_as_a_file(tmp_path: Path, storage: FileSystemStorage) -> None:
    (tmp_path / "precious").mkdir()
    with pytest.raises(SnapshotError, match="is a folder"):
        storage.delete_files([plain_uri(str(tmp_path / "precious"))])
    with pytest.raises(SnapshotError, match="is not a URI"):
        storage.delete_files(["precious"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, storage: FileSystemStorage) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(SnapshotError, match=f"{tmp_path}: storage failed: it cannot be written to"):
            storage.create_root()
        with pytest.raises(SnapshotError, match=str(tmp_path)):
            storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    finally:
        tmp_path.chmod(0o700)


def test_a_file_at_the_path_of_a_folder_is_named_and_nothing_is_left(
    tmp_path: Path, storage: FileSystemStorage
) -> None:
    (tmp_path / JOB).write_text("in the way")
    with pytest.raises(SnapshotError, match=r"chk-1/_metadata.json: storage failed"):
        storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    with pytest.raises(SnapshotError, match=r"part-0-0.bin: storage failed"):
        write(storage, storage.checkpoint_location(1), b"data")
    assert [p.name for p in tmp_path.rglob("*")] == [JOB]


def test_a_failed_rename_leaves_no_temporary_file(tmp_path: Path, storage: FileSystemStorage) -> None:
    blocked = tmp_path / JOB / "chk-1" / "_metadata.json"
    (blocked / "folder").mkdir(parents=True)
    with pytest.raises(SnapshotError, match="storage failed"):
        storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    assert [p.name for p in blocked.parent.iterdir()] == ["_metadata.json"]


def test_everything_is_on_the_disk_before_it_is_referred_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    def renamed(source: str, target: str) -> None:
        assert source in done, "the metadata is renamed before it is on the disk"
        done.append(f"renamed {target}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    storage = FileSystemStorage(str(tmp_path / "new" / "and" / "deep" / "folders"), JOB)
    location = storage.savepoint_location()
    file = write(storage, location, b"data")
    folder = Path(location.removeprefix("file://"))
    state = folder / file.path
    assert str(state) in done
    storage.write_metadata(location, metadata_of(file))
    metadata = done.index(f"renamed {folder}/_metadata.json")
    for changed in [parent for parent in state.parents if tmp_path in (parent, *parent.parents)]:
        assert str(changed) in done[:metadata], f"{changed} may lack a name that the metadata refers to"
    assert str(folder) in done[metadata:], "the metadata may be gone"


def test_an_unreachable_store_is_named_without_its_secrets() -> None:
    root = "s3://me:hidden@bucket/x?scheme=http&endpoint_override=127.0.0.1:1&region=us-east-1&connect_timeout=1"
    storage = FileSystemStorage(root, JOB)
    with pytest.raises(SnapshotError) as caught:
        storage.read_metadata(storage.checkpoint_location(1))
    assert str(caught.value).startswith("s3://bucket/x/")
    assert "hidden" not in str(caught.value)


def test_a_bucket_that_does_not_exist_is_named(s3_root: str) -> None:
    storage = FileSystemStorage(s3_root.replace("@bucket", "@nowhere").format(path="x"), JOB)
    with pytest.raises(SnapshotError, match="s3://nowhere/x: storage failed: there is no bucket 'nowhere'"):
        storage.create_root()
    with pytest.raises(SnapshotError, match="s3://nowhere/x/"):
        storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    with pytest.raises(SnapshotError, match="s3://nowhere/x/"):
        storage.read_metadata(storage.checkpoint_location(1))


def test_a_snapshot_is_found_by_a_path_as_users_write_it(
    tmp_path: Path, storage: FileSystemStorage, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    monkeypatch.chdir(tmp_path)
    for typed in (f"{JOB}/chk-1", f"./{JOB}/chk-1/", str(tmp_path / JOB / "chk-1" / "_metadata.json")):
        found, location = storage_at(typed)
        assert found.read_metadata(location) == metadata_of()
        assert location == storage.checkpoint_location(1)
    remote = FileSystemStorage(s3_root.format(path="typed"), JOB)
    pointer = remote.write_metadata(remote.checkpoint_location(1), metadata_of())
    found, location = storage_at(s3_root.format(path=f"typed/{JOB}/chk-1"))
    assert location == pointer
    assert found.read_metadata(location) == metadata_of()
    with pytest.raises(SnapshotError, match="has options in it"):
        remote.read_metadata(f"{pointer}?region=x")


def test_paths_may_be_relative_or_begin_with_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = FileSystemStorage("file:save%20points", JOB)
    location = storage.savepoint_location()
    assert location.startswith(f"{tmp_path.as_uri()}/save%20points/savepoint-")
    pointer = storage.write_metadata(location, metadata_of())
    path = os.path.relpath(unquote(pointer.removeprefix("file://")))
    for spelled in (pointer, pointer.replace("file://", "file:"), path):
        found, where = storage_at(f"{spelled}/_metadata.json")
        assert where == pointer
        assert found.read_metadata(where) == metadata_of()


def test_a_path_of_a_user_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_location("file:/tmp/save%20point") == "/tmp/save point"
    assert absolute_location("/tmp/save%20point") == "/tmp/save%20point"
    assert absolute_location("file:savepoint") == absolute_location("savepoint") == str(tmp_path / "savepoint")
    assert absolute_location("s3://bucket/x?region=y") == "s3://bucket/x?region=y"


@pytest.mark.parametrize("typed", ["hdfs:///user/me", "viewfs:///user/me", "hdfs://name:8020/user/me"])
def test_missing_hadoop_is_reported_in_one_line(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("JAVA_HOME", "HADOOP_HOME", "ARROW_LIBHDFS_DIR"):
        monkeypatch.setenv(variable, "/nowhere")
    storage, location = storage_at(typed)
    assert location == typed
    with pytest.raises(SnapshotError, match=r"HDFS needs Java and Hadoop's libhdfs; set JAVA_HOME") as caught:
        storage.read_metadata(location)
    assert str(caught.value).startswith(f"{typed}/_metadata.json: ")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("s3:///x", "names no bucket: write s3://bucket/path"),
        ("gs://", "names no bucket|is neither a path nor a URI"),
        ("s3:/bucket/x", "is neither a path nor a URI: write s3://"),
        ("ftp://host/x", "has a scheme that is not known"),
        ("file://tmp/checkpoints", "third slash"),
    ],
)
def test_an_invalid_uri_is_not_a_local_path(typed: str, message: str) -> None:
    for use in (storage_at, lambda uri: FileSystemStorage(uri, JOB)):
        with pytest.raises(SnapshotError, match=message):
            use(typed)


@pytest.mark.parametrize(("options", "patience"), [("", 30), ("?retry_limit_seconds=90", 90)])
def test_a_store_of_google_is_not_retried_for_a_quarter_of_an_hour(options: str, patience: int) -> None:
    system, path = UriFiles(f"gs://anonymous@bucket/x{options}").locate("gs://bucket/x/y")
    assert path == "bucket/x/y"
    _, (settings,) = system.__reduce__()
    assert settings["retry_time_limit"] == timedelta(seconds=patience)


def test_a_root_needs_only_an_existing_bucket(s3_root: str) -> None:
    for path in ("", "no/such/folder"):
        FileSystemStorage(s3_root.format(path=path), JOB).create_root()


def test_a_root_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    FileSystemStorage(str(tmp_path / "a" / "b"), JOB).create_root()
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=f"{tmp_path}/file"):
        FileSystemStorage(str(tmp_path / "file"), JOB).create_root()
    with pytest.raises(SnapshotError, match="/proc/self/here: storage failed: it cannot be made there"):
        FileSystemStorage("/proc/self/here", JOB).create_root()


def test_a_file_is_not_a_snapshot(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no snapshot")
    storage, location = storage_at(str(tmp_path / "notes.txt"))
    with pytest.raises(SnapshotError, match=r"notes\.txt: is no snapshot: there is no _metadata\.json in it"):
        storage.read_metadata(location)
