"""`CheckpointConfig`, with PyFlink's names: setters and getters over the options `execution.checkpointing.*`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Self

from millstream.common.configuration import Configuration
from millstream.common.time import Duration, Interval, plain_milliseconds
from millstream.core.errors import InvalidProgramError
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.execution import (
    CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT,
    CHECKPOINTING_DATA_INLINE_THRESHOLD,
    CHECKPOINTING_DIR,
    CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION,
    CHECKPOINTING_INTERVAL,
    CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE,
    CHECKPOINTING_MAX_CONCURRENT_CHECKPOINTS,
    CHECKPOINTING_MIN_PAUSE,
    CHECKPOINTING_MODE,
    CHECKPOINTING_STORAGE,
    CHECKPOINTING_TIMEOUT,
    CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS,
    CHECKPOINTING_UNALIGNED_ENABLED,
    CHECKPOINTING_WRITE_BUFFER_SIZE,
)
from millstream.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from millstream.datastream.checkpointing_mode import CheckpointingMode
from millstream.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention

_ANY_NUMBER = 2**31 - 1


ExternalizedCheckpointCleanup = ExternalizedCheckpointRetention
"""Its name up to Flink 1.20."""


class CheckpointConfig:
    """How the checkpoints of an environment's jobs are taken. Times are milliseconds, or durations.

    Setters return the configuration itself, so that calls can be chained.
    """

    def __init__(self, explicit: Configuration, effective: Callable[[], Configuration]) -> None:
        """Writes into `explicit`, and reads what is effective."""
        self._explicit = explicit
        self._effective = effective

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken periodically."""
        return self._milliseconds(CHECKPOINTING_INTERVAL) > 0

    def set_checkpoint_interval(self, checkpoint_interval: Interval) -> Self:
        """Sets how often a checkpoint is taken: `checkpoint_interval`, milliseconds or a duration."""
        return self._set_duration("set_checkpoint_interval", CHECKPOINTING_INTERVAL, checkpoint_interval, at_least=1)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; -1: no checkpoints are taken."""
        return self._milliseconds(CHECKPOINTING_INTERVAL) or -1

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> Self:
        """Sets the guarantee for state: `checkpointing_mode` is EXACTLY_ONCE or AT_LEAST_ONCE.

        Raises `InvalidProgramError` for anything else.
        """
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise InvalidProgramError(
                f"set_checkpointing_mode: expected a CheckpointingMode, not {checkpointing_mode!r}"
            )
        return self._set(CHECKPOINTING_MODE, checkpointing_mode.value)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once, or at least once."""
        return CheckpointingMode(self._effective().get(CHECKPOINTING_MODE))

    def set_checkpoint_timeout(self, checkpoint_timeout: Interval) -> Self:
        """Sets the time after which a checkpoint is aborted: `checkpoint_timeout`, milliseconds or a duration."""
        return self._set_duration("set_checkpoint_timeout", CHECKPOINTING_TIMEOUT, checkpoint_timeout, at_least=1)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds."""
        return self._milliseconds(CHECKPOINTING_TIMEOUT)

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: Interval) -> Self:
        """Sets the shortest time between the end of one checkpoint and the start of the next one.

        `min_pause_between_checkpoints` is in milliseconds, or a duration.
        """
        method = "set_min_pause_between_checkpoints"
        return self._set_duration(method, CHECKPOINTING_MIN_PAUSE, min_pause_between_checkpoints)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds."""
        return self._milliseconds(CHECKPOINTING_MIN_PAUSE)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> Self:
        """Sets how many checkpoints may be in progress at the same time: `max_concurrent_checkpoints`."""
        return self._set_number(
            "set_max_concurrent_checkpoints",
            CHECKPOINTING_MAX_CONCURRENT_CHECKPOINTS,
            max_concurrent_checkpoints,
            at_least=1,
        )

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be in progress at the same time."""
        return self._effective().get(CHECKPOINTING_MAX_CONCURRENT_CHECKPOINTS)

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> Self:
        """Sets how many checkpoints in a row may fail before the job fails: `tolerable_checkpoint_failure_number`."""
        return self._set_number(
            "set_tolerable_checkpoint_failure_number",
            CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS,
            tolerable_checkpoint_failure_number,
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does."""
        return self._effective().get(CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS)

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Whether a checkpoint that fails fails the job: with a tolerable number of 0."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(self, fail_on_checkpointing_errors: bool) -> Self:
        """Sets whether failed checkpoints fail the job; with `fail_on_checkpointing_errors=False` any number may fail.

        `set_tolerable_checkpoint_failure_number` sets the number.
        """
        return self.set_tolerable_checkpoint_failure_number(0 if fail_on_checkpointing_errors else _ANY_NUMBER)

    def set_externalized_checkpoint_retention(self, retention_mode: ExternalizedCheckpointRetention) -> Self:
        """Sets with `retention_mode` what happens to the last checkpoints of a job that ends without finishing.

        Raises `InvalidProgramError` unless it is an ExternalizedCheckpointRetention.
        """
        if not isinstance(retention_mode, ExternalizedCheckpointRetention):
            raise InvalidProgramError(
                "set_externalized_checkpoint_retention: expected an ExternalizedCheckpointRetention, not "
                f"{retention_mode!r}"
            )
        return self._set(CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION, retention_mode.value)

    enable_externalized_checkpoints = set_externalized_checkpoint_retention
    set_externalized_checkpoint_cleanup = set_externalized_checkpoint_retention

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to the last checkpoints of a job that does not finish."""
        value = self._effective().get(CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION)
        return ExternalizedCheckpointRetention(value)

    get_externalized_checkpoint_cleanup = get_externalized_checkpoint_retention

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether they are kept in some case."""
        disabled = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not disabled

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> Self:
        """Enables unaligned checkpoints, or disables them with `enabled=False`.

        Their barriers overtake records under backpressure.
        """
        return self._set(CHECKPOINTING_UNALIGNED_ENABLED, bool(enabled))

    def disable_unaligned_checkpoints(self) -> Self:
        """Barriers stay in their place among the records."""
        return self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers overtake records under backpressure."""
        return self._effective().get(CHECKPOINTING_UNALIGNED_ENABLED)

    def set_force_unaligned_checkpoints(self, force_unaligned_checkpoints: bool = True) -> Self:
        """Accepts `force_unaligned_checkpoints=False` only: some channels have barriers that never overtake.

        Raises `InvalidProgramError` for True.
        """
        if force_unaligned_checkpoints:
            raise InvalidProgramError(
                "set_force_unaligned_checkpoints: barriers overtake records wherever that can be restored; where it "
                "cannot, as with partition_custom and broadcast, nothing can force them"
            )
        return self

    def is_force_unaligned_checkpoints(self) -> bool:
        """Never."""
        return False

    def set_aligned_checkpoint_timeout(self, alignment_timeout: Interval) -> Self:
        """Sets the age at which an aligned checkpoint becomes unaligned to `alignment_timeout`.

        It has an effect only if unaligned checkpoints are enabled.
        """
        option = CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT
        return self._set_duration("set_aligned_checkpoint_timeout", option, alignment_timeout)

    def get_aligned_checkpoint_timeout(self) -> Duration:
        """How old an aligned checkpoint becomes before it turns unaligned."""
        return Duration.of_millis(self._milliseconds(CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT))

    set_alignment_timeout = set_aligned_checkpoint_timeout
    get_alignment_timeout = get_aligned_checkpoint_timeout

    def set_checkpoint_storage(self, storage: CheckpointStorage) -> Self:
        """Sets where checkpoints are stored, in files or in the job manager's memory: `storage`.

        Raises `InvalidProgramError` unless it is a CheckpointStorage.
        """
        if not isinstance(storage, CheckpointStorage):
            raise InvalidProgramError(
                f"set_checkpoint_storage: expected a CheckpointStorage such as FileSystemCheckpointStorage(path), "
                f"not {storage!r}"
            )
        for option, value in storage.options().items():
            self._set(option, value)
        return self

    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Returns the storage that the program or the configuration sets, or None."""
        options = self._effective()
        kind, directory = options.get(CHECKPOINTING_STORAGE).lower(), self.get_checkpoint_storage_dir()
        if kind == JobManagerCheckpointStorage.type_name:
            size = options.get(CHECKPOINTING_JOBMANAGER_STORAGE_MAX_STATE_SIZE)
            return JobManagerCheckpointStorage(max_state_size=size)
        if directory is None:
            return None
        inline, buffer = options.get(CHECKPOINTING_DATA_INLINE_THRESHOLD), options.get(CHECKPOINTING_WRITE_BUFFER_SIZE)
        return FileSystemCheckpointStorage(directory, inline, buffer)

    def set_checkpoint_storage_dir(self, checkpoint_path: str | os.PathLike[str]) -> Self:
        """Sets the directory or URI of checkpoints, `checkpoint_path`, which all hosts have to reach."""
        return self.set_checkpoint_storage(FileSystemCheckpointStorage(checkpoint_path))

    def get_checkpoint_storage_dir(self) -> str | None:
        """The directory or URI for checkpoints, when there is one."""
        return self._effective().get(CHECKPOINTING_DIR) or None

    def _set(self, option: str, value: object) -> Self:
        self._explicit.set(option, value)
        return self

    def _set_number(self, method: str, option: OptionKey[int], value: int, at_least: int = 0) -> Self:
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise InvalidProgramError(f"{method}: expected a whole number of at least {at_least}, not {value!r}")
        return self._set(option, value)

    def _set_duration(self, method: str, option: OptionKey[float], value: Interval, at_least: int = 0) -> Self:
        milliseconds = plain_milliseconds(value)
        if isinstance(milliseconds, bool) or not isinstance(milliseconds, int) or milliseconds < at_least:
            raise InvalidProgramError(
                f"{method}: expected milliseconds or a duration, of at least {at_least} ms, not {value!r}"
            )
        return self._set(option, f"{milliseconds} ms")

    def _milliseconds(self, option: OptionKey[float]) -> int:
        return round(self._effective().get(option) * 1000)
