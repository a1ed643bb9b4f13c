"""Which storage a slot worker uses for a location, and with whose credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.core.snapshot import FileSystemStorage, MemoryStorage
from millstream.taskmanager.worker.checkpointing.storages import Storages

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
    examples = {
        CHECKPOINTS: storages.at("s3://bucket/checkpoints/job"), SAVEPOINTS: storages.at("s3://archive/savepoints/a")
    }  # fmt: skip
    assert examples[CHECKPOINTS] is not examples[SAVEPOINTS]
    found = storages.at(location)
    assert next((d for d, storage in examples.items() if storage is found), None) == directory


def test_the_options_of_a_savepoint_are_those_of_its_directory_from_then_on() -> None:
    storages = Storages("job", CHECKPOINTS)
    typed = storages.at("s3://me:secret@bucket/checkpoints/mine/savepoint-1?region=eu-west-1")
    assert storages.at("s3://bucket/checkpoints/mine/savepoint-1") is typed
    assert storages.at("s3://bucket/checkpoints/mine/savepoint-2") is typed
    assert storages.at("s3://bucket/checkpoints/job/chk-1") is not typed


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
