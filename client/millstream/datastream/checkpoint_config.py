"""`CheckpointConfig`, with PyFlink's names: setters and getters over the options `execution.checkpointing.*`."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import Self

from millstream.common.configuration import Configuration
from millstream.common.time import Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)

_PREFIX = "execution.checkpointing."


class CheckpointingMode(StrEnum):
    """What a restored state is the effect of."""

    EXACTLY_ONCE = "EXACTLY_ONCE"  # each record before the checkpoint, once
    AT_LEAST_ONCE = "AT_LEAST_ONCE"  # each of them, some maybe twice; no channel is ever blocked


class ExternalizedCheckpointRetention(StrEnum):
    """What happens to the last checkpoints of a job that does not finish."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""Its name up to Flink 1.20."""


class CheckpointConfig:
    """How the checkpoints of an environment's jobs are taken. Times are milliseconds, or durations.

    Setters answer the configuration itself, so that calls can be chained.
    """

    def __init__(self, explicit: Configuration, effective: Callable[[], Configuration]) -> None:
        """Writes into `explicit`, and reads what is effective."""
        self._explicit = explicit
        self._effective = effective

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken periodically."""
        return self.get_checkpoint_interval() > 0

    def set_checkpoint_interval(self, checkpoint_interval: Interval) -> Self:
        """How often a checkpoint is taken."""
        return self._set_duration("set_checkpoint_interval", "interval", checkpoint_interval, at_least=1)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; 0: no checkpoints are taken."""
        return self._milliseconds("interval")

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> Self:
        """Exactly once, or at least once."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise InvalidProgramError(
                f"set_checkpointing_mode: expected a CheckpointingMode, not {checkpointing_mode!r}"
            )
        return self._set("mode", checkpointing_mode.value)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once, or at least once."""
        return CheckpointingMode(self._effective().string(f"{_PREFIX}mode"))

    def set_checkpoint_timeout(self, checkpoint_timeout: Interval) -> Self:
        """A checkpoint that takes longer is given up."""
        return self._set_duration("set_checkpoint_timeout", "timeout", checkpoint_timeout, at_least=1)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds."""
        return self._milliseconds("timeout")

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: Interval) -> Self:
        """The shortest time between the end of one checkpoint and the start of the next."""
        return self._set_duration("set_min_pause_between_checkpoints", "min-pause", min_pause_between_checkpoints)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds."""
        return self._milliseconds("min-pause")

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> Self:
        """How many checkpoints may be under way at the same time."""
        return self._set_number(
            "set_max_concurrent_checkpoints", "max-concurrent-checkpoints", max_concurrent_checkpoints, at_least=1
        )

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at the same time."""
        return self._effective().integer(f"{_PREFIX}max-concurrent-checkpoints")

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> Self:
        """How many checkpoints in a row may fail before the job does."""
        return self._set_number(
            "set_tolerable_checkpoint_failure_number",
            "tolerable-failed-checkpoints",
            tolerable_checkpoint_failure_number,
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does."""
        return self._effective().integer(f"{_PREFIX}tolerable-failed-checkpoints")

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention) -> Self:
        """What happens to the last checkpoints of a job that does not finish."""
        if not isinstance(retention, ExternalizedCheckpointRetention):
            raise InvalidProgramError(
                f"set_externalized_checkpoint_retention: expected an ExternalizedCheckpointRetention, not {retention!r}"
            )
        return self._set("externalized-checkpoint-retention", retention.value)

    enable_externalized_checkpoints = set_externalized_checkpoint_retention
    set_externalized_checkpoint_cleanup = set_externalized_checkpoint_retention

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to the last checkpoints of a job that does not finish."""
        value = self._effective().string(f"{_PREFIX}externalized-checkpoint-retention")
        return ExternalizedCheckpointRetention(value)

    get_externalized_checkpoint_cleanup = get_externalized_checkpoint_retention

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether they are kept in some case."""
        disabled = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not disabled

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Barriers overtake records under backpressure."""
        return self._set("unaligned.enabled", bool(enabled))

    def disable_unaligned_checkpoints(self) -> Self:
        """Barriers stay in their place among the records."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers overtake records under backpressure."""
        return self._effective().boolean(f"{_PREFIX}unaligned.enabled")

    def set_aligned_checkpoint_timeout(self, aligned_checkpoint_timeout: Interval) -> Self:
        """With unaligned checkpoints: each begins aligned, and turns unaligned when it is this old."""
        name = "aligned-checkpoint-timeout"
        return self._set_duration("set_aligned_checkpoint_timeout", name, aligned_checkpoint_timeout)

    def get_aligned_checkpoint_timeout(self) -> timedelta:
        """How old an aligned checkpoint becomes before it turns unaligned."""
        return timedelta(milliseconds=self._milliseconds("aligned-checkpoint-timeout"))

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> Self:
        """Where checkpoints are kept: in files, or in the job manager's memory."""
        if not isinstance(storage, CheckpointStorage):
            raise InvalidProgramError(
                f"set_checkpoint_storage: expected a CheckpointStorage such as FileSystemCheckpointStorage(path), "
                f"not {storage!r}"
            )
        if isinstance(storage, FileSystemCheckpointStorage):
            self._set("dir", storage.get_checkpoint_path())
        return self._set("storage", storage.type_name)

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Where checkpoints are kept, when the program or the configuration says so."""
        kind, directory = self._effective().string(f"{_PREFIX}storage").lower(), self.get_checkpoint_storage_dir()
        if directory is not None and kind != JobManagerCheckpointStorage.type_name:
            return FileSystemCheckpointStorage(directory)
        return JobManagerCheckpointStorage() if kind == JobManagerCheckpointStorage.type_name else None

    def set_checkpoint_storage_dir(self, checkpoint_path: str | os.PathLike[str]) -> Self:
        """The directory or URI for checkpoints, which all hosts reach."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage_dir(self) -> str | None:
        """The directory or URI for checkpoints, when there is one."""
        return self._effective().string(f"{_PREFIX}dir") or None

    def _set(self, name: str, value: object) -> Self:
        self._explicit.set(f"{_PREFIX}{name}", value)
        return self

    def _set_number(self, method: str, name: str, value: int, at_least: int = 0) -> Self:
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise InvalidProgramError(f"{method}: expected a whole number of at least {at_least}, not {value!r}")
        return self._set(name, value)

    def _set_duration(self, method: str, name: str, value: Interval, at_least: int = 0) -> Self:
        milliseconds = plain_milliseconds(value)
        if isinstance(milliseconds, bool) or not isinstance(milliseconds, int) or milliseconds < at_least:
            raise InvalidProgramError(
                f"{method}: expected milliseconds or a duration, of at least {at_least} ms, not {value!r}"
            )
        return self._set(name, f"{milliseconds} ms")

    def _milliseconds(self, name: str) -> int:
        return round(self._effective().seconds(f"{_PREFIX}{name}") * 1000)
