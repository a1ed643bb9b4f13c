"""Checkpoint storages for programs, with PyFlink's names: each stands for options below `execution.checkpointing`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from millstream.core.errors import InvalidProgramError
from millstream.core.settings.options.execution import (
    CHECKPOINTING_DATA_INLINE_THRESHOLD,
    CHECKPOINTING_DIR,
    CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE,
    CHECKPOINTING_STORAGE,
    CHECKPOINTING_WRITE_BUFFER_SIZE,
)


class CheckpointStorage(ABC):
    """Where checkpoints are kept."""

    type_name: ClassVar[str]

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """What it stands for, by the keys of options."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """In the memory of the job manager: for trying things out.

    With a path, checkpoints are in files there, with small states in the metadata: they outlive the job manager.
    """

    type_name = "jobmanager"
    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(
        self, checkpoint_path: str | os.PathLike[str] | None = None, max_state_size: int | None = None
    ) -> None:
        self._size_is_given = max_state_size is not None
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self._max_state_size = _checked("JobManagerCheckpointStorage: max_state_size", size, at_least=1)
        self._path = None if checkpoint_path is None else _absolute(checkpoint_path)

    def get_checkpoint_path(self) -> str | None:
        """Where checkpoints are in files, if they are."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Returns None: `set_default_savepoint_directory` sets the folder of savepoints."""
        return None

    def get_max_state_size(self) -> int:
        """The largest state of a subtask in memory, in bytes."""
        return self._max_state_size

    def options(self) -> dict[str, Any]:
        """In memory, or files when there is a path."""
        if self._path is not None:
            return {CHECKPOINTING_STORAGE: FileSystemCheckpointStorage.type_name, CHECKPOINTING_DIR: self._path}
        size: dict[str, Any] = {}
        if self._size_is_given:
            size[CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE] = self._max_state_size
        return {CHECKPOINTING_STORAGE: self.type_name, **size}


class FileSystemCheckpointStorage(CheckpointStorage):
    """In files below a directory or URI that all hosts reach.

    State of less than `file_state_size_threshold` bytes is in the metadata, not in a file of its own.
    """

    type_name = "filesystem"
    MAX_FILE_STATE_THRESHOLD = 1024 * 1024
    _DEFAULT_THRESHOLD = 20 * 1024
    _DEFAULT_BUFFER = 4 * 1024

    def __init__(
        self,
        checkpoint_path: str | os.PathLike[str],
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = -1,
    ) -> None:
        name = "FileSystemCheckpointStorage"
        threshold = self._DEFAULT_THRESHOLD if file_state_size_threshold in (None, -1) else file_state_size_threshold
        self._threshold = _checked(
            f"{name}: file_state_size_threshold", threshold, at_most=self.MAX_FILE_STATE_THRESHOLD
        )
        buffer = self._DEFAULT_BUFFER if write_buffer_size in (None, -1) else write_buffer_size
        self._buffer = max(_checked(f"{name}: write_buffer_size", buffer, at_least=1), self._threshold)
        self._given: dict[str, Any] = {}
        if file_state_size_threshold not in (None, -1):
            self._given[CHECKPOINTING_DATA_INLINE_THRESHOLD] = self._threshold
        if write_buffer_size not in (None, -1):
            self._given[CHECKPOINTING_WRITE_BUFFER_SIZE] = self._buffer
        self._path = _absolute(checkpoint_path)

    def get_checkpoint_path(self) -> str:
        """The directory or URI."""
        return self._path

    def get_savepoint_path(self) -> str | None:
        """Returns None: `set_default_savepoint_directory` sets the folder of savepoints."""
        return None

    def get_min_file_size_threshold(self) -> int:
        """Returns the size in bytes below which state is stored in the metadata."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """How many bytes are gathered before they are written; at least the threshold."""
        return self._buffer

    def options(self) -> dict[str, Any]:
        """The directory, and the sizes if they were given."""
        return {CHECKPOINTING_STORAGE: self.type_name, CHECKPOINTING_DIR: self._path, **self._given}


class CustomCheckpointStorage(CheckpointStorage):
    """Of a Java class, which there is no JVM for: making one is an error."""

    def __init__(self, *arguments: Any) -> None:
        raise InvalidProgramError(
            "CustomCheckpointStorage: it stands for a Java class, and there is no JVM; use FileSystemCheckpointStorage"
        )

    def options(self) -> dict[str, Any]:
        """None: there is no such storage."""
        return {}


def _absolute(path: str | os.PathLike[str]) -> str:
    from millstream.core.snapshot.metadata.model import absolute_location

    location = absolute_location(os.fspath(path))
    return location.rstrip("/") or location


def _checked(what: str, value: Any, at_least: int = 0, at_most: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        raise InvalidProgramError(f"{what} is a number of bytes, of at least {at_least}, not {value!r}")
    if at_most is not None and value > at_most:
        raise InvalidProgramError(f"{what} is at most {at_most} bytes, not {value}")
    return value
