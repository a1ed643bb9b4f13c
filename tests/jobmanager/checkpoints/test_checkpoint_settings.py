from __future__ import annotations

import pytest

from millstream.core.errors import ConfigurationError
from millstream.jobmanager.checkpoints.settings import CheckpointingMode, CheckpointSettings, Retention, StorageKind


def test_the_defaults_are_flink_s() -> None:
    settings = CheckpointSettings.from_configuration({})
    assert settings == CheckpointSettings()
    assert not settings.enabled
    assert settings.timeout_ms == 600_000
    assert settings.retention is Retention.DELETE_ON_CANCELLATION
    assert settings.after_tasks_finish


def test_every_option_is_read() -> None:
    prefix = "execution.checkpointing."
    options = {
        "interval": 10.0,
        "mode": "AT_LEAST_ONCE",
        "timeout": 60.0,
        "min-pause": 0.5,
        "max-concurrent-checkpoints": 2,
        "tolerable-failed-checkpoints": 3,
        "num-retained": 4,
        "externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "unaligned.enabled": False,
        "aligned-checkpoint-timeout": 0.25,
        "incremental": True,
        "checkpoints-after-tasks-finish.enabled": False,
        "storage": "filesystem",
        "dir": "s3://bucket/checkpoints",
        "savepoint-dir": "s3://bucket/savepoints",
    }
    settings = CheckpointSettings.from_configuration({prefix + key: value for key, value in options.items()})
    assert settings == CheckpointSettings(
        interval_ms=10_000,
        mode=CheckpointingMode.AT_LEAST_ONCE,
        timeout_ms=60_000,
        min_pause_ms=500,
        max_concurrent=2,
        tolerable_failures=3,
        num_retained=4,
        retention=Retention.RETAIN_ON_CANCELLATION,
        unaligned=False,
        aligned_timeout_ms=250,
        incremental=True,
        after_tasks_finish=False,
        storage=StorageKind.FILESYSTEM,
        directory="s3://bucket/checkpoints",
        savepoint_directory="s3://bucket/savepoints",
    )
    assert settings.enabled


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num-retained": 0}, "num-retained"),
        ({"max-concurrent-checkpoints": 0}, "max-concurrent-checkpoints"),
        ({"tolerable-failed-checkpoints": -1}, "tolerable-failed-checkpoints"),
        ({"timeout": 0.0}, "timeout"),
        ({"unaligned.enabled": True, "mode": "AT_LEAST_ONCE"}, "EXACTLY_ONCE"),
        ({"unaligned.enabled": True, "max-concurrent-checkpoints": 2}, "max-concurrent-checkpoints"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        CheckpointSettings.from_configuration({f"execution.checkpointing.{k}": v for k, v in options.items()})
