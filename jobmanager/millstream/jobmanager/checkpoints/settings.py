"""The validated settings of checkpointing, with Flink's keys and defaults."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from millstream.core.errors import ConfigurationError

_PREFIX = "execution.checkpointing"


class Options(Protocol):
    """The source of option values: a `Configuration`. None stands for the default below."""

    def get(self, key: str, /) -> Any:
        """Returns the value of an option."""
        ...


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
            f"{_PREFIX}.interval": f"{self.interval_ms} ms",
            f"{_PREFIX}.checkpoints-after-tasks-finish.enabled": str(self.after_tasks_finish).lower(),
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
    def from_configuration(options: Options) -> CheckpointSettings:
        """Reads the job's settings; durations are given in seconds."""
        default = CheckpointSettings()

        def value(key: str, otherwise: Any) -> Any:
            try:
                found = options.get(f"{_PREFIX}.{key}")
            except KeyError:  # an option that this cluster does not define
                found = None
            return otherwise if found is None or found == "" else found

        def millis(key: str, otherwise: int) -> int:
            return round(float(value(key, otherwise / 1000)) * 1000)

        storage = value("storage", None)
        return CheckpointSettings(
            interval_ms=millis("interval", default.interval_ms),
            mode=CheckpointingMode(value("mode", default.mode)),
            timeout_ms=millis("timeout", default.timeout_ms),
            min_pause_ms=millis("min-pause", default.min_pause_ms),
            max_concurrent=int(value("max-concurrent-checkpoints", default.max_concurrent)),
            tolerable_failures=int(value("tolerable-failed-checkpoints", default.tolerable_failures)),
            num_retained=int(value("num-retained", default.num_retained)),
            retention=Retention(value("externalized-checkpoint-retention", default.retention)),
            unaligned=bool(value("unaligned.enabled", default.unaligned)),
            aligned_timeout_ms=millis("aligned-checkpoint-timeout", default.aligned_timeout_ms),
            incremental=bool(value("incremental", default.incremental)),
            after_tasks_finish=bool(value("checkpoints-after-tasks-finish.enabled", default.after_tasks_finish)),
            storage=_storage(storage),
            directory=value("dir", None),
            savepoint_directory=value("savepoint-dir", None),
        )


def _storage(value: str | None) -> StorageKind | None:
    if value is None:
        return None
    _require(value.lower() in set(StorageKind), "storage", f"'{value}'", f"it is one of {', '.join(StorageKind)}")
    return StorageKind(value.lower())


def _require(condition: bool, key: str, value: object, rule: str) -> None:
    if not condition:
        raise ConfigurationError(f"option '{_PREFIX}.{key}': {value} is not allowed; {rule}")
