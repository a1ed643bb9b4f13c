"""The validated settings of checkpointing, with Flink's keys and defaults."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options import OptionKey
from millstream.core.settings.options.execution import (
    CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT,
    CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED,
    CHECKPOINTING_DIR,
    CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION,
    CHECKPOINTING_INCREMENTAL,
    CHECKPOINTING_INTERVAL,
    CHECKPOINTING_MAX_CONCURRENT_CHECKPOINTS,
    CHECKPOINTING_MIN_PAUSE,
    CHECKPOINTING_MODE,
    CHECKPOINTING_NUM_RETAINED,
    CHECKPOINTING_SAVEPOINT_DIR,
    CHECKPOINTING_STORAGE,
    CHECKPOINTING_TIMEOUT,
    CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS,
    CHECKPOINTING_UNALIGNED_ENABLED,
)

_PREFIX = "execution.checkpointing"


class CheckpointingMode(StrEnum):
    """The guarantee for state."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


class Retention(StrEnum):
    """What happens to checkpoints when the job ends without finishing."""

    DELETE_ON_CANCELLATION = "DELETE_ON_CANCELLATION"
    RETAIN_ON_CANCELLATION = "RETAIN_ON_CANCELLATION"
    NO_EXTERNALIZED_CHECKPOINTS = "NO_EXTERNALIZED_CHECKPOINTS"


class StorageKind(StrEnum):
    """Where checkpoints are kept."""

    JOB_MANAGER = "jobmanager"
    FILESYSTEM = "filesystem"


class CheckpointSettings(Struct, frozen=True):
    """`interval_ms` of 0 means that no periodic checkpoints are taken."""

    interval_ms: int = 0
    mode: CheckpointingMode = CheckpointingMode.EXACTLY_ONCE
    timeout_ms: int = 600_000
    min_pause_ms: int = 0
    max_concurrent: int = 1
    tolerable_failures: int = 0
    num_retained: int = 1
    retention: Retention = Retention.DELETE_ON_CANCELLATION
    unaligned: bool = False
    aligned_timeout_ms: int = 0
    incremental: bool = False
    after_tasks_finish: bool = True
    storage: StorageKind | None = None
    directory: str | None = None
    savepoint_directory: str | None = None

    @property
    def enabled(self) -> bool:
        """Whether checkpoints are taken periodically."""
        return self.interval_ms > 0

    def kept_in(self, directory: str) -> CheckpointSettings:
        """Returns a copy with checkpoints in this directory, readable by other job managers, unless one is set."""
        return replace(self, storage=StorageKind.FILESYSTEM, directory=self.directory or directory)

    def agreed_options(self) -> dict[str, str]:
        """The options that tasks must share with the coordinator, such as whether they wait for a final checkpoint."""
        return {
            CHECKPOINTING_INTERVAL: f"{self.interval_ms} ms",
            CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED: str(self.after_tasks_finish).lower(),
        }

    def __post_init__(self) -> None:
        _require(self.interval_ms >= 0, "interval", f"{self.interval_ms} ms", "it must not be negative; 0 is off")
        _require(self.timeout_ms >= 1, "timeout", f"{self.timeout_ms} ms", "it must be 1 ms or more")
        _require(self.min_pause_ms >= 0, "min-pause", f"{self.min_pause_ms} ms", "it must not be negative")
        _require(self.max_concurrent >= 1, "max-concurrent-checkpoints", self.max_concurrent, "it must be 1 or more")
        _require(
            self.tolerable_failures >= 0,
            "tolerable-failed-checkpoints",
            self.tolerable_failures,
            "it must be 0 or more",
        )
        _require(self.num_retained >= 1, "num-retained", self.num_retained, "it must be 1 or more")
        if self.unaligned:
            _require(
                self.mode is CheckpointingMode.EXACTLY_ONCE,
                "unaligned.enabled",
                "true",
                f"{_PREFIX}.mode is {self.mode}, and unaligned checkpoints need EXACTLY_ONCE",
            )
            _require(
                self.max_concurrent == 1,
                "unaligned.enabled",
                "true",
                f"{_PREFIX}.max-concurrent-checkpoints is {self.max_concurrent}, and unaligned checkpoints need 1",
            )

    @staticmethod
    def from_configuration(options: Configuration) -> CheckpointSettings:
        """Reads the job's settings."""

        def millis(option: OptionKey[float]) -> int:
            return round(options.get(option) * 1000)

        return CheckpointSettings(
            interval_ms=millis(CHECKPOINTING_INTERVAL),
            mode=CheckpointingMode(options.get(CHECKPOINTING_MODE)),
            timeout_ms=millis(CHECKPOINTING_TIMEOUT),
            min_pause_ms=millis(CHECKPOINTING_MIN_PAUSE),
            max_concurrent=options.get(CHECKPOINTING_MAX_CONCURRENT_CHECKPOINTS),
            tolerable_failures=options.get(CHECKPOINTING_TOLERABLE_FAILED_CHECKPOINTS),
            num_retained=options.get(CHECKPOINTING_NUM_RETAINED),
            retention=Retention(options.get(CHECKPOINTING_EXTERNALIZED_CHECKPOINT_RETENTION)),
            unaligned=options.get(CHECKPOINTING_UNALIGNED_ENABLED),
            aligned_timeout_ms=millis(CHECKPOINTING_ALIGNED_CHECKPOINT_TIMEOUT),
            incremental=options.get(CHECKPOINTING_INCREMENTAL),
            after_tasks_finish=options.get(CHECKPOINTING_CHECKPOINTS_AFTER_TASKS_FINISH_ENABLED),
            storage=_storage(options.get(CHECKPOINTING_STORAGE)),
            directory=options.get(CHECKPOINTING_DIR) or None,
            savepoint_directory=options.get(CHECKPOINTING_SAVEPOINT_DIR) or None,
        )


def _storage(value: str) -> StorageKind | None:
    if not value:
        return None
    _require(value.lower() in set(StorageKind), "storage", f"'{value}'", f"it is one of {', '.join(StorageKind)}")
    return StorageKind(value.lower())


def _require(condition: bool, key: str, value: object, rule: str) -> None:
    if not condition:
        raise ConfigurationError(f"option '{_PREFIX}.{key}': {value} is not allowed; {rule}")
