"""Symbolic links among a snapshot's files: their targets are never deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import pytest
from test_storage_conformance import JOB, metadata_of, write

from millstream.core.files import deleting
from millstream.core.snapshot import FileSystemStorage, SnapshotError, StateFile, storage_at


@pytest.fixture
def storage(tmp_path: Path) -> FileSystemStorage:
    return FileSystemStorage(str(tmp_path / "root"), JOB)


def savepoint(storage: FileSystemStorage, directory: Path) -> tuple[Path, StateFile]:
    location = storage.savepoint_location(str(directory))
    file = write(storage, location, b"data")
    storage.write_metadata(location, metadata_of(file))
    return Path(location.removeprefix("file://")), file


def move_behind_a_link(folder: Path, target: Path) -> None:
    """Moves the folder's contents to the target, and replaces the folder by a link to it."""
    shutil.move(folder, target)
    folder.symlink_to(target, target_is_directory=True)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("levels", [1, 2])
def test_a_folder_of_a_savepoint_that_became_a_link(tmp_path: Path, storage: FileSystemStorage, levels: int) -> None:
    folder, file = savepoint(storage, tmp_path / "savepoints")
    moved = folder.joinpath(*Path(file.path).parts[:levels])
    target = tmp_path / "precious"
    move_behind_a_link(moved, target)
    before = files_in(target)
    opened, location = storage_at(str(folder))
    opened.delete_snapshot(location)
    assert files_in(target) == before != []
    assert not folder.exists(), "the link and the savepoint's own files are deleted"


def test_a_savepoint_named_by_a_link_is_refused(tmp_path: Path, storage: FileSystemStorage) -> None:
    folder, _ = savepoint(storage, tmp_path / "savepoints")
    before = files_in(folder)
    latest = tmp_path / "savepoints" / "latest"
    latest.symlink_to(folder, target_is_directory=True)
    opened, location = storage_at(str(latest))
    with pytest.raises(SnapshotError, match=r"latest: is a symbolic link: name the folder that it leads to"):
        opened.delete_snapshot(location)
    assert files_in(folder) == before != []
    assert latest.is_symlink()


def test_files_that_became_links_are_deleted_themselves(tmp_path: Path, storage: FileSystemStorage) -> None:
    folder, file = savepoint(storage, tmp_path / "savepoints")
    for number, name in enumerate((file.path, "_metadata.json")):
        target = tmp_path / f"precious-{number}"
        shutil.move(folder / name, target)
        (folder / name).symlink_to(target)
    storage.delete_snapshot(str(folder))
    assert not folder.exists()
    assert (tmp_path / "precious-0").read_bytes() == b"data"
    assert (tmp_path / "precious-1").exists()


def test_a_file_that_became_a_link_to_a_folder(tmp_path: Path, storage: FileSystemStorage) -> None:
    folder, file = savepoint(storage, tmp_path / "savepoints")
    (tmp_path / "precious").mkdir()
    (folder / file.path).unlink()
    (folder / file.path).symlink_to(tmp_path / "precious", target_is_directory=True)
    storage.delete_snapshot(str(folder))
    assert not folder.exists()
    assert (tmp_path / "precious").is_dir()


def test_a_link_beside_a_savepoints_files_stays(tmp_path: Path, storage: FileSystemStorage) -> None:
    folder, _ = savepoint(storage, tmp_path / "savepoints")
    (tmp_path / "empty").mkdir()
    (folder / "mine").symlink_to(tmp_path / "empty", target_is_directory=True)
    storage.delete_snapshot(str(folder))
    assert [path.name for path in folder.iterdir()] == ["mine"]
    assert (tmp_path / "empty").is_dir()


def test_a_checkpoint_that_became_a_link(tmp_path: Path, storage: FileSystemStorage) -> None:
    location = storage.checkpoint_location(4)
    storage.write_metadata(location, metadata_of(write(storage, location, b"data"), checkpoint_id=4))
    folder, target = Path(location.removeprefix("file://")), tmp_path / "precious"
    move_behind_a_link(folder, target)
    before = files_in(target)
    storage.delete_checkpoint(4)
    assert files_in(target) == before != []
    assert not folder.is_symlink()


def test_links_in_a_checkpoint_are_deleted_themselves(tmp_path: Path, storage: FileSystemStorage) -> None:
    location = storage.checkpoint_location(4)
    file = write(storage, location, b"data")
    storage.write_metadata(location, metadata_of(file, checkpoint_id=4))
    folder, target = Path(location.removeprefix("file://")), tmp_path / "precious"
    move_behind_a_link((folder / file.path).parent, target)
    before = files_in(target)
    storage.delete_checkpoint(4)
    assert files_in(target) == before != []
    assert not folder.exists()


def test_shared_files_behind_a_link_stay(tmp_path: Path, storage: FileSystemStorage) -> None:
    file = write(storage, storage.checkpoint_location(1), b"data", shared=True)
    target = tmp_path / "precious"
    move_behind_a_link(tmp_path / "root" / JOB / "shared", target)
    with pytest.raises(SnapshotError, match="nothing is deleted through the symbolic link 'shared'"):
        storage.delete_files([file.path])
    storage.delete_empty_folders()
    assert len(files_in(target)) == 1


def test_the_root_itself_may_be_behind_links(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk", target_is_directory=True)
    storage = FileSystemStorage(str(tmp_path / "root"), JOB)
    folder, _ = savepoint(storage, tmp_path / "root")
    location = storage.checkpoint_location(1)
    storage.write_metadata(location, metadata_of(write(storage, location, b"data")))
    storage.delete_snapshot(str(folder))
    storage.delete_checkpoint(1)
    storage.delete_empty_folders()
    assert list((tmp_path / "disk").iterdir()) == []


def test_a_link_that_is_created_while_files_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the check of a folder and its opening, another process replaces it."""
    folder, target = tmp_path / "folder", tmp_path / "precious"
    for place in (folder, target):
        place.mkdir()
        (place / "file").write_text("content")
    look = os.lstat

    def replaced(path: str, *, dir_fd: int | None = None) -> os.stat_result:
        found = look(path, dir_fd=dir_fd)
        if path == "folder" and not folder.is_symlink():
            shutil.rmtree(folder)
            folder.symlink_to(target, target_is_directory=True)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(deleting.os, "lstat", replaced)
        assert deleting.delete_file(str(tmp_path), ["folder", "file"]) is False
    assert folder.is_symlink()
    assert files_in(target) == ["file"]


@pytest.mark.parametrize("written", ["/.", "/./", "/%2E", "/count/..", "/count/%2e%2E/", "//."])
def test_a_link_is_refused_however_its_uri_is_written(tmp_path: Path, storage: FileSystemStorage, written: str) -> None:
    folder, _ = savepoint(storage, tmp_path / "savepoints")
    before = files_in(folder)
    latest = tmp_path / "latest"
    latest.symlink_to(folder, target_is_directory=True)
    opened, location = storage_at(f"file://{latest}{written}")
    with pytest.raises(SnapshotError, match=r"latest: is a symbolic link: name the folder that it leads to"):
        opened.delete_snapshot(location)
    with pytest.raises(SnapshotError, match=r"latest: is a symbolic link"):
        storage.delete_snapshot(f"file://{latest}{written}")
    assert files_in(folder) == before != []


@pytest.mark.parametrize("moment", ["read_metadata", "read"])
def test_a_link_that_replaces_the_folder_above_a_savepoint_while_it_is_deleted(
    tmp_path: Path, storage: FileSystemStorage, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Between two steps of the deletion, another process makes the savepoint's path lead to files of the same names."""
    folder, file = savepoint(storage, tmp_path / "shared" / "mine")
    target = tmp_path / "precious" / folder.name / file.path
    target.parent.mkdir(parents=True)
    target.write_text("content")
    owner = FileSystemStorage if moment == "read_metadata" else deleting.OpenedFolder
    step = getattr(owner, moment)

    def replaced(*arguments: object) -> object:
        found = step(*arguments)
        (tmp_path / "shared" / "mine").rename(tmp_path / "moved")
        (tmp_path / "shared" / "mine").symlink_to(tmp_path / "precious", target_is_directory=True)
        return found

    opened, location = storage_at(str(folder))
    with monkeypatch.context() as patched:
        patched.setattr(owner, moment, replaced)
        with contextlib.suppress(SnapshotError):
            opened.delete_snapshot(location)
    assert target.read_text() == "content"
    assert (tmp_path / "moved" / folder.name).exists() == (moment == "read_metadata"), "what was opened is deleted"
