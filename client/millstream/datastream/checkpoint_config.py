"""`CheckpointConfig`, with PyFlink's names: setters and getters over the options `execution.checkpointing.*`."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum

from millstream.common.configuration import Configuration
from millstream.core.errors import InvalidProgramError

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


class CheckpointConfig:
    """How the checkpoints of an environment's jobs are taken. Times are milliseconds, or timedeltas."""

    def __init__(self, explicit: Configuration, effective: Callable[[], Configuration]) -> None:
        """Writes into `explicit`, and reads what is effective."""
        self._explicit = explicit
        self._effective = effective

    def is_checkpointing_enabled(self) -> bool:
        """Whether checkpoints are taken periodically."""
        return self.get_checkpoint_interval() > 0

    def set_checkpoint_interval(self, checkpoint_interval: int | timedelta) -> None:
        """How often a checkpoint is taken."""
        self._set_duration("set_checkpoint_interval", "interval", checkpoint_interval, at_least=1)

    def get_checkpoint_interval(self) -> int:
        """Milliseconds; 0: no checkpoints are taken."""
        return self._milliseconds("interval")

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> None:
        """Exactly once, or at least once."""
        if not isinstance(checkpointing_mode, CheckpointingMode):
            raise InvalidProgramError(
                f"set_checkpointing_mode: expected a CheckpointingMode, not {checkpointing_mode!r}"
            )
        self._set("mode", checkpointing_mode.value)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Exactly once, or at least once."""
        return CheckpointingMode(self._effective().string(f"{_PREFIX}mode"))

    def set_checkpoint_timeout(self, checkpoint_timeout: int | timedelta) -> None:
        """A checkpoint that takes longer is given up."""
        self._set_duration("set_checkpoint_timeout", "timeout", checkpoint_timeout, at_least=1)

    def get_checkpoint_timeout(self) -> int:
        """Milliseconds."""
        return self._milliseconds("timeout")

    def set_min_pause_between_checkpoints(self, min_pause_between_checkpoints: int | timedelta) -> None:
        """The shortest time between the end of one checkpoint and the start of the next."""
        self._set_duration("set_min_pause_between_checkpoints", "min-pause", min_pause_between_checkpoints)

    def get_min_pause_between_checkpoints(self) -> int:
        """Milliseconds."""
        return self._milliseconds("min-pause")

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> None:
        """How many checkpoints may be under way at the same time."""
        self._set_number(
            "set_max_concurrent_checkpoints", "max-concurrent-checkpoints", max_concurrent_checkpoints, at_least=1
        )

    def get_max_concurrent_checkpoints(self) -> int:
        """How many checkpoints may be under way at the same time."""
        return self._effective().integer(f"{_PREFIX}max-concurrent-checkpoints")

    def set_tolerable_checkpoint_failure_number(self, tolerable_checkpoint_failure_number: int) -> None:
        """How many checkpoints in a row may fail before the job does."""
        self._set_number(
            "set_tolerable_checkpoint_failure_number",
            "tolerable-failed-checkpoints",
            tolerable_checkpoint_failure_number,
        )

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """How many checkpoints in a row may fail before the job does."""
        return self._effective().integer(f"{_PREFIX}tolerable-failed-checkpoints")

    def set_externalized_checkpoint_retention(self, retention: ExternalizedCheckpointRetention) -> None:
        """What happens to the last checkpoints of a job that does not finish."""
        if not isinstance(retention, ExternalizedCheckpointRetention):
            raise InvalidProgramError(
                f"set_externalized_checkpoint_retention: expected an ExternalizedCheckpointRetention, not {retention!r}"
            )
        self._set("externalized-checkpoint-retention", retention.value)

    enable_externalized_checkpoints = set_externalized_checkpoint_retention
    set_externalized_checkpoint_cleanup = set_externalized_checkpoint_retention

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What happens to the last checkpoints of a job that does not finish."""
        value = self._effective().string(f"{_PREFIX}externalized-checkpoint-retention")
        return ExternalizedCheckpointRetention(value)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Whether they are kept in some case."""
        disabled = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not disabled

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> None:
        """Barriers overtake records under backpressure."""
        self._set("unaligned.enabled", bool(enabled))

    def disable_unaligned_checkpoints(self) -> None:
        """Barriers stay in their place among the records."""
        self.enable_unaligned_checkpoints(False)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether barriers overtake records under backpressure."""
        return self._effective().boolean(f"{_PREFIX}unaligned.enabled")

    def set_aligned_checkpoint_timeout(self, aligned_checkpoint_timeout: int | timedelta) -> None:
        """With unaligned checkpoints: each begins aligned, and turns unaligned when it is this old."""
        name = "aligned-checkpoint-timeout"
        self._set_duration("set_aligned_checkpoint_timeout", name, aligned_checkpoint_timeout)

    def get_aligned_checkpoint_timeout(self) -> timedelta:
        """How old an aligned checkpoint becomes before it turns unaligned."""
        return timedelta(milliseconds=self._milliseconds("aligned-checkpoint-timeout"))

    def set_checkpoint_storage_dir(self, checkpoint_path: str | os.PathLike[str]) -> None:
        """The directory or URI for checkpoints, which all hosts reach."""
        from millstream.core.snapshot.model import absolute_location

        self._set("storage", "filesystem")
        self._set("dir", absolute_location(os.fspath(checkpoint_path)))

    def get_checkpoint_storage_dir(self) -> str | None:
        """The directory or URI for checkpoints, when there is one."""
        return self._effective().string(f"{_PREFIX}dir") or None

    def _set(self, name: str, value: object) -> None:
        self._explicit.set(f"{_PREFIX}{name}", value)

    def _set_number(self, method: str, name: str, value: int, at_least: int = 0) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            raise InvalidProgramError(f"{method}: expected a whole number of at least {at_least}, not {value!r}")
        self._set(name, value)

    def _set_duration(self, method: str, name: str, value: int | timedelta, at_least: int = 0) -> None:
        milliseconds = round(value / timedelta(milliseconds=1)) if isinstance(value, timedelta) else value
        if isinstance(milliseconds, bool) or not isinstance(milliseconds, int) or milliseconds < at_least:
            raise InvalidProgramError(
                f"{method}: expected milliseconds or a timedelta, of at least {at_least} ms, not {value!r}"
            )
        self._set(name, f"{milliseconds} ms")

    def _milliseconds(self, name: str) -> int:
        return round(self._effective().seconds(f"{_PREFIX}{name}") * 1000)
