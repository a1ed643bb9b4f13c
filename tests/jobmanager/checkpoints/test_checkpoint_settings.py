from __future__ import annotations

import pytest

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.checkpoints.settings import CheckpointingMode, CheckpointSettings, Retention, StorageKind


def test_the_defaults_are_flink_s() -> None:
    settings = CheckpointSettings.from_configuration(Configuration())
    assert settings == CheckpointSettings()
    assert not settings.enabled
    assert settings.timeout_ms == 600_000
    assert settings.retention is Retention.DELETE_ON_CANCELLATION
    assert settings.after_tasks_finish


def test_every_option_is_read() -> None:
    prefix = "execution.checkpointing."
    options = {
        "interval": "10 s",
        "mode": "AT_LEAST_ONCE",
        "timeout": "60 s",
        "min-pause": "500 ms",
        "max-concurrent-checkpoints": 2,
        "tolerable-failed-checkpoints": 3,
        "num-retained": 4,
        "externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "unaligned.enabled": False,
        "aligned-checkpoint-timeout": "250 ms",
        "incremental": True,
        "checkpoints-after-tasks-finish.enabled": False,
        "storage": "filesystem",
        "dir": "s3://bucket/checkpoints",
        "savepoint-dir": "s3://bucket/savepoints",
    }
    configured = Configuration({prefix + key: value for key, value in options.items()})
    settings = CheckpointSettings.from_configuration(configured)
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
        ({"timeout": "0 s"}, "timeout"),
        ({"unaligned.enabled": True, "mode": "AT_LEAST_ONCE"}, "EXACTLY_ONCE"),
        ({"unaligned.enabled": True, "max-concurrent-checkpoints": 2}, "max-concurrent-checkpoints"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        CheckpointSettings.from_configuration(
            Configuration({f"execution.checkpointing.{k}": v for k, v in options.items()})
        )
