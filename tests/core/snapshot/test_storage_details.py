"""What only one of the storages does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_storage_conformance import JOB, metadata_of, write

from millstream.core.snapshot import FileSystemStorage, MemoryStorage, SnapshotError, storage_at
from millstream.core.snapshot.uri_files import plain_uri


def test_memory_refuses_a_state_over_its_limit() -> None:
    storage = MemoryStorage(JOB, limit=10)
    location = storage.checkpoint_location(1)
    assert write(storage, location, b"0123456789").size == 10
    with pytest.raises(SnapshotError, match=r"larger than the 10 bytes .* execution.checkpointing.dir"):
        write(storage, location, b"0123456789a")


def test_memory_has_no_place_for_a_savepoint() -> None:
    with pytest.raises(SnapshotError, match="needs a directory"):
        MemoryStorage(JOB).savepoint_location()


def test_the_layout_on_disk(tmp_path: Path) -> None:
    storage = FileSystemStorage(str(tmp_path), JOB)
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


def test_a_folder_is_never_deleted_as_a_file(tmp_path: Path) -> None:
    storage = FileSystemStorage(str(tmp_path), JOB)
    (tmp_path / "precious").mkdir()
    with pytest.raises(SnapshotError, match="is a folder"):
        storage.delete_files([plain_uri(str(tmp_path / "precious"))])
    with pytest.raises(SnapshotError, match="is not a URI"):
        storage.delete_files(["precious"])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        storage = FileSystemStorage(str(tmp_path), JOB)
        with pytest.raises(SnapshotError, match=str(tmp_path)):
            storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    finally:
        tmp_path.chmod(0o700)


def test_a_file_in_the_way_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    storage = FileSystemStorage(str(tmp_path), JOB)
    (tmp_path / JOB).write_text("in the way")
    with pytest.raises(SnapshotError, match=r"chk-1/_metadata.json: storage failed"):
        storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    with pytest.raises(SnapshotError, match=r"part-0-0.bin: storage failed"):
        write(storage, storage.checkpoint_location(1), b"data")
    assert [p.name for p in tmp_path.rglob("*")] == [JOB]


def test_a_failed_rename_leaves_no_temporary_file(tmp_path: Path) -> None:
    storage = FileSystemStorage(str(tmp_path), JOB)
    blocked = tmp_path / JOB / "chk-1" / "_metadata.json"
    (blocked / "folder").mkdir(parents=True)
    with pytest.raises(SnapshotError, match="storage failed"):
        storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    assert [p.name for p in blocked.parent.iterdir()] == ["_metadata.json"]


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(SnapshotError, match="ftp://host/x: has a scheme that is not known"):
        FileSystemStorage("ftp://host/x", JOB)


def test_an_unreachable_store_is_named_without_its_secrets() -> None:
    root = "s3://me:hidden@bucket/x?scheme=http&endpoint_override=127.0.0.1:1&region=us-east-1&connect_timeout=1"
    storage = FileSystemStorage(root, JOB)
    with pytest.raises(SnapshotError) as caught:
        storage.read_metadata(storage.checkpoint_location(1))
    assert str(caught.value).startswith("s3://bucket/x/")
    assert "hidden" not in str(caught.value)


def test_a_bucket_that_does_not_exist_is_named(s3_root: str) -> None:
    storage = FileSystemStorage(s3_root.replace("@bucket", "@nowhere").format(path="x"), JOB)
    with pytest.raises(SnapshotError, match="s3://nowhere/x/"):
        storage.write_metadata(storage.checkpoint_location(1), metadata_of())
    with pytest.raises(SnapshotError, match="s3://nowhere/x/"):
        storage.read_metadata(storage.checkpoint_location(1))


def test_a_snapshot_is_found_by_what_a_user_types(
    tmp_path: Path, s3_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FileSystemStorage(str(tmp_path), JOB)
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
    storage = FileSystemStorage("file:savepoints", JOB)
    location = storage.savepoint_location()
    assert location.startswith(f"{tmp_path.as_uri()}/savepoints/savepoint-")
    pointer = storage.write_metadata(location, metadata_of())
    for spelled in (pointer, pointer.replace("file://", "file:"), os.path.relpath(pointer.removeprefix("file://"))):
        found, where = storage_at(f"{spelled}/_metadata.json")
        assert where == pointer
        assert found.read_metadata(where) == metadata_of()


def test_a_file_uri_with_a_host_is_refused() -> None:
    with pytest.raises(SnapshotError, match="third slash"):
        FileSystemStorage("file://tmp/checkpoints", JOB)


def test_a_root_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    FileSystemStorage(str(tmp_path / "a" / "b"), JOB).create_root()
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotError, match=f"{tmp_path}/file"):
        FileSystemStorage(str(tmp_path / "file"), JOB).create_root()


def test_a_file_is_no_snapshot(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no snapshot")
    storage, location = storage_at(str(tmp_path / "notes.txt"))
    with pytest.raises(SnapshotError, match=r"notes\.txt: is no snapshot: there is no _metadata\.json in it"):
        storage.read_metadata(location)
