"""Which storage a slot worker uses for a location, and with whose credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.core.snapshot import FileSystemStorage, MemoryStorage
from millstream.taskmanager.checkpointing.storages import Storages

CHECKPOINTS = "s3://key:secret@bucket/checkpoints?region=us-east-1"
SAVEPOINTS = "s3://other:secret@archive/savepoints?region=us-east-1"


@pytest.mark.parametrize(
    ("location", "directory"),
    [
        ("s3://bucket/checkpoints/job/chk-1", CHECKPOINTS),
        ("s3://archive/savepoints/savepoint-1", SAVEPOINTS),
        ("s3://archive/savepoints", SAVEPOINTS),
        ("s3://archive/savepoints-of-others/savepoint-1", CHECKPOINTS),
        ("file:///tmp/savepoints/savepoint-1", None),
    ],
)
def test_a_location_is_reached_as_its_directory_is_configured(location: str, directory: str | None) -> None:
    storages = Storages("job", CHECKPOINTS, "", SAVEPOINTS)
    assert storages.at(location) is storages.at(directory or location)
    assert (storages.at(location) is storages.at(CHECKPOINTS)) == (directory == CHECKPOINTS)


def test_the_metadata_file_names_its_folder_too() -> None:
    path = "s3://other:secret@archive/savepoint-1/_metadata.json"
    storages = Storages("job", CHECKPOINTS, "", path)
    assert storages.at("s3://archive/savepoint-1") is not storages.at("s3://bucket/checkpoints/job/chk-1")


def test_only_the_jobs_own_checkpoints_share_files(tmp_path: Path) -> None:
    storages = Storages("job", str(tmp_path / "checkpoints"), str(tmp_path))
    assert storages.shares_files((tmp_path / "checkpoints" / "job" / "chk-3").as_uri(), 3)
    assert not storages.shares_files((tmp_path / "checkpoints" / "another" / "chk-3").as_uri(), 3)
    assert not storages.shares_files((tmp_path / "savepoint-1").as_uri(), 3)
    assert not storages.shares_files("memory://job/chk-3", 3)


def test_memory_and_files_are_told_apart(tmp_path: Path) -> None:
    storages = Storages("job")
    assert isinstance(storages.at("memory://job/chk-1"), MemoryStorage)
    assert isinstance(storages.at((tmp_path / "savepoint-1").as_uri()), FileSystemStorage)
