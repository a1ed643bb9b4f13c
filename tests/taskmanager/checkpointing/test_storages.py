"""Which storage a slot worker uses for a location, and with whose credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.core.settings.configuration import Configuration
from millstream.core.snapshot import FileSystemStorage, MemoryStorage
from millstream.core.snapshot.errors import SnapshotError
from millstream.taskmanager.worker.checkpointing.storages import Storages, StorageSizes

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
def test_a_location_uses_the_configuration_of_its_directory(location: str, directory: str | None) -> None:
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


def test_memory_and_files_are_distinguished(tmp_path: Path) -> None:
    storages = Storages("job")
    assert isinstance(storages.at("memory://job/chk-1"), MemoryStorage)
    assert isinstance(storages.at((tmp_path / "savepoint-1").as_uri()), FileSystemStorage)


def test_sizes_come_from_the_configuration(tmp_path: Path) -> None:
    options = {
        "execution.checkpointing.data-inline-threshold": "1 kb",
        "execution.checkpointing.write-buffer-size": "8 kb",
        "execution.checkpointing.jobmanager-storage.max-state-size": "10",
    }
    sizes = StorageSizes.of(Configuration(options))
    assert sizes == StorageSizes(1024, 8192, 10)
    storages = Storages("job", str(tmp_path), sizes=sizes)
    with pytest.raises(SnapshotError, match="is larger than the 10 bytes that the job manager's memory takes"):
        storages.at("memory://job/chk-1").create_writer("memory://job/chk-1", "op", "s", 0, "arrow").write(b"x" * 11)
    location = f"{tmp_path}/job/chk-1"
    small, large = (storages.at(location).create_writer(location, "op", name, 0, "arrow") for name in ("a", "b"))
    large.write(b"x" * 100_000)
    assert (tmp_path / "job" / "chk-1" / large.commit().path).read_bytes() == b"x" * 100_000
    small.abort()
