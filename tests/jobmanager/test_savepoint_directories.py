"""How tasks receive the directory of a savepoint."""

from __future__ import annotations

import re

import pytest

from millstream.core.jobs.ids import JobId
from millstream.core.processes.background import BackgroundTasks
from millstream.core.snapshot import MemoryStorage
from millstream.jobmanager.checkpoint_files import CheckpointFiles
from millstream.jobmanager.checkpoints.model import CheckpointId, SnapshotOptions

JOB = JobId("0123456789abcdef")
CONFIGURED = ("s3://me:hidden@bucket/checkpoints?region=x", "/var/savepoints")


@pytest.mark.parametrize(
    ("directory", "location"),
    [
        ("s3://bucket/mine", r"s3://me:hidden@bucket/mine/savepoint-012345-\w{12}\?region=x"),
        ("s3://archive/mine", r"s3://me:hidden@archive/mine/savepoint-012345-\w{12}\?region=x"),
        ("s3://you:secret@archive/mine?region=y", r"s3://you:secret@archive/mine/savepoint-012345-\w{12}\?region=y"),
        ("gs://archive/mine", r"gs://archive/mine/savepoint-012345-\w{12}"),
        ("/tmp/my savepoints", r"file:///tmp/my%20savepoints/savepoint-012345-\w{12}"),
    ],
)
def test_a_directory_is_reached_with_its_own_options_or_configured_ones(directory: str, location: str) -> None:
    files = CheckpointFiles(JOB, MemoryStorage(JOB), BackgroundTasks(), CONFIGURED)
    wanted = SnapshotOptions(is_savepoint=True, target_directory=directory)
    assert re.fullmatch(location, files.location(CheckpointId(1), wanted))
    assert files.location(CheckpointId(1), wanted) == files.location(CheckpointId(1), wanted)
