"""What checkpoints leave in storage: removed when nobody needs it any more, and never sooner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from job_graphs import pipeline
from waiting import wait_until

from millstream.core.background import BackgroundTasks
from millstream.core.barriers import StopMode
from millstream.core.ids import JobId
from millstream.core.snapshot import CheckpointStorage, FileSystemStorage, MemoryStorage, SnapshotMetadata
from millstream.jobmanager.checkpoint_files import CheckpointFiles
from millstream.jobmanager.checkpoints import events as ev
from millstream.jobmanager.checkpoints.model import CheckpointContent, CheckpointId, SnapshotKind, SnapshotOptions


def run(scenario: Callable[[CheckpointFiles], Coroutine[Any, Any, None]], storage: CheckpointStorage) -> None:
    async def with_files() -> None:
        background = BackgroundTasks()
        try:
            await scenario(CheckpointFiles(JobId("job"), storage, background))
        finally:
            await background.cancel()

    asyncio.run(with_files())


async def gone(path: Path) -> None:
    """Deletions happen on threads, which tell nobody."""
    await asyncio.to_thread(wait_until, lambda: not path.exists(), f"{path} to be gone")


class OtherStorage(MemoryStorage):
    """Knows nothing of savepoints: in another place, they need other credentials."""

    def read_metadata(self, pointer: str) -> SnapshotMetadata:
        raise AssertionError(f"{pointer} is not here")


def test_a_savepoint_that_was_to_stop_the_job_is_read_where_it_was_written(tmp_path: Path) -> None:
    async def scenario(files: CheckpointFiles) -> None:
        options = SnapshotOptions(SnapshotKind.SAVEPOINT, stop=StopMode.SUSPEND, target_directory=str(tmp_path))
        content = CheckpointContent(CheckpointId(3), options, 0, ())
        written = await files.write_metadata(pipeline(1), content, 0)
        assert isinstance(written, ev.MetadataWritten)
        files.retained(CheckpointId(3))
        assert (await files.read_metadata(written.pointer)).checkpoint_id == 3

    run(scenario, OtherStorage(JobId("job")))


def test_what_comes_late_to_a_checkpoint_that_was_given_up_goes_although_none_completes(tmp_path: Path) -> None:
    async def scenario(files: CheckpointFiles) -> None:
        def give_up(number: int) -> Path:
            checkpoint_id = CheckpointId(number)
            location = Path(files.location(checkpoint_id, SnapshotOptions()).removeprefix("file://"))
            location.mkdir(parents=True)
            files.discard(ev.DiscardState(checkpoint_id, ()), is_alive=False)
            return location

        first = give_up(1)
        await gone(first)
        await asyncio.to_thread(first.mkdir, parents=True)
        for number in range(2, 200):
            give_up(number)
        await gone(first)

    run(scenario, FileSystemStorage(str(tmp_path), JobId("job")))
