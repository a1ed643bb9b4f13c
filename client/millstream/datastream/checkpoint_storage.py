"""Checkpoint storages for programs, with PyFlink's names: values of `execution.checkpointing.storage`."""

from __future__ import annotations

import os
from typing import ClassVar

from millstream.core.errors import InvalidProgramError


class CheckpointStorage:
    """Where checkpoints are kept."""

    type_name: ClassVar[str]


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the memory of the job manager, at most 5 MB for each state: for trying things out."""

    type_name = "jobmanager"
    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self, checkpoint_path: str | os.PathLike[str] | None = None, max_state_size: int | None = None
    ) -> None:
        if checkpoint_path is not None or max_state_size not in (None, self.DEFAULT_MAX_STATE_SIZE):
            raise InvalidProgramError(
                "JobManagerCheckpointStorage: it holds at most 5 MB for each state, and writes no files; use "
                "FileSystemCheckpointStorage(path) for more"
            )

    def get_max_state_size(self) -> int:
        """The largest state, in bytes."""
        return self.DEFAULT_MAX_STATE_SIZE


class FileSystemCheckpointStorage(CheckpointStorage):
    """In files below a directory or URI that all hosts reach."""

    type_name = "filesystem"

    def __init__(self, checkpoint_path: str | os.PathLike[str]) -> None:
        from millstream.core.snapshot.metadata.model import absolute_location

        self._path = absolute_location(os.fspath(checkpoint_path))

    def get_checkpoint_path(self) -> str:
        """The directory or URI."""
        return self._path
