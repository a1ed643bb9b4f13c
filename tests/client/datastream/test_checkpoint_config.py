"""Checkpoints, savepoints, state backends and restarts, set in the program."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from millstream.common import Configuration, Duration, InvalidProgramError, RestartStrategies, Time
from millstream.core.settings.options import OPTIONS
from millstream.core.snapshot.storage.memory_storage import DEFAULT_LIMIT
from millstream.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    StateBackend,
    StreamExecutionEnvironment,
)

PREFIX = "execution.checkpointing."


def options(env: StreamExecutionEnvironment) -> dict[str, str]:
    """What the job of the environment is configured with."""
    env.from_collection([1]).print()
    return dict(env.generate_job().graph.configuration)


def test_enabling_checkpoints(env: StreamExecutionEnvironment) -> None:
    assert env.get_checkpoint_interval() == -1
    assert not env.get_checkpoint_config().is_checkpointing_enabled()
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.enable_checkpointing(1500) is env
    assert env.get_checkpoint_interval() == 1500
    assert options(env) == {f"{PREFIX}interval": "1500 ms"}
    env.enable_checkpointing(timedelta(seconds=2), CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_checkpoint_config().is_checkpointing_enabled()
    assert env.get_checkpoint_config().get_checkpoint_interval() == 2000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_defaults_are_those_of_the_options(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_timeout() == OPTIONS[f"{PREFIX}timeout"].default * 1000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(0)
    assert not config.is_unaligned_checkpoints_enabled()
    assert config.is_externalized_checkpoints_enabled()
    assert config.get_checkpoint_storage_dir() is None
    assert env.get_default_savepoint_directory() is None
    assert env.get_state_backend() is None


def test_setters_become_options_of_the_job(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    chained = (
        config.set_checkpoint_interval(Time.seconds(2))
        .set_checkpoint_timeout(60_000)
        .set_min_pause_between_checkpoints(Duration.of_millis(250))
        .set_max_concurrent_checkpoints(2)
        .set_tolerable_checkpoint_failure_number(3)
        .set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
        .enable_unaligned_checkpoints()
        .set_aligned_checkpoint_timeout(timedelta(seconds=1))
        .set_checkpoint_storage(FileSystemCheckpointStorage("/others"))
        .set_checkpoint_storage_dir(Path("/checkpoints"))
        .set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
    )
    assert chained is config
    again = env.get_checkpoint_config()
    assert again.get_checkpoint_interval() == 2000
    assert again.get_checkpoint_timeout() == 60_000
    assert again.get_min_pause_between_checkpoints() == 250
    assert again.get_max_concurrent_checkpoints() == 2
    assert again.get_tolerable_checkpoint_failure_number() == 3
    assert again.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    assert again.is_externalized_checkpoints_enabled()
    assert again.is_unaligned_checkpoints_enabled()
    assert again.get_aligned_checkpoint_timeout() == Duration.of_seconds(1)
    assert again.get_checkpoint_storage_dir() == "/checkpoints"
    env.set_default_savepoint_directory("s3://bucket/sp").set_state_backend(HashMapStateBackend())
    assert env.get_default_savepoint_directory() == "s3://bucket/sp"
    assert isinstance(env.get_state_backend(), HashMapStateBackend)
    assert options(env) == {
        f"{PREFIX}interval": "2000 ms",
        f"{PREFIX}timeout": "60000 ms",
        f"{PREFIX}min-pause": "250 ms",
        f"{PREFIX}max-concurrent-checkpoints": "2",
        f"{PREFIX}tolerable-failed-checkpoints": "3",
        f"{PREFIX}externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        f"{PREFIX}unaligned.enabled": "true",
        f"{PREFIX}aligned-checkpoint-timeout": "1000 ms",
        f"{PREFIX}storage": "filesystem",
        f"{PREFIX}dir": "/checkpoints",
        f"{PREFIX}mode": "EXACTLY_ONCE",
        f"{PREFIX}savepoint-dir": "s3://bucket/sp",
        "state.backend.type": "hashmap",
    }
    config.set_checkpoint_storage_dir("relative")
    env.set_default_savepoint_directory("relative")
    here = str(Path("relative").absolute())
    assert (config.get_checkpoint_storage_dir(), env.get_default_savepoint_directory()) == (here, here)
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    assert config.get_externalized_checkpoint_cleanup() is ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
    config.disable_unaligned_checkpoints()
    assert not config.is_unaligned_checkpoints_enabled()


def test_storages(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_storage() is None
    config.set_checkpoint_storage(FileSystemCheckpointStorage("s3://bucket/checkpoints"))
    assert options(env) == {f"{PREFIX}storage": "filesystem", f"{PREFIX}dir": "s3://bucket/checkpoints"}
    kept = config.get_checkpoint_storage()
    assert isinstance(kept, FileSystemCheckpointStorage)
    assert kept.get_checkpoint_path() == "s3://bucket/checkpoints"
    config.set_checkpoint_storage(JobManagerCheckpointStorage())
    assert options(env)[f"{PREFIX}storage"] == "jobmanager"
    assert isinstance(config.get_checkpoint_storage(), JobManagerCheckpointStorage)
    assert JobManagerCheckpointStorage().get_max_state_size() == DEFAULT_LIMIT


def test_the_sizes_of_storages_are_options(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    config.set_checkpoint_storage(JobManagerCheckpointStorage(max_state_size=1000))
    assert options(env) == {f"{PREFIX}storage": "jobmanager", f"{PREFIX}jobmanager-storage.max-state-size": "1000"}
    kept = config.get_checkpoint_storage()
    assert isinstance(kept, JobManagerCheckpointStorage)
    assert (kept.get_max_state_size(), kept.get_checkpoint_path(), kept.get_savepoint_path()) == (1000, None, None)
    config.set_checkpoint_storage(FileSystemCheckpointStorage("/x", 2048, 8192))
    assert options(env)[f"{PREFIX}data-inline-threshold"] == "2048"
    assert options(env)[f"{PREFIX}write-buffer-size"] == "8192"
    files = config.get_checkpoint_storage()
    assert isinstance(files, FileSystemCheckpointStorage)
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (2048, 8192)
    plain = FileSystemCheckpointStorage("file:///var/checkpoints/")
    assert plain.get_checkpoint_path() == "file:///var/checkpoints"
    assert (plain.get_min_file_size_threshold(), plain.get_write_buffer_size()) == (20480, 20480)


def test_a_storage_in_memory_with_a_path_is_in_files(env: StreamExecutionEnvironment) -> None:
    storage = JobManagerCheckpointStorage("/checkpoints")
    assert storage.get_checkpoint_path() == "/checkpoints"
    env.get_checkpoint_config().set_checkpoint_storage(storage)
    assert options(env) == {f"{PREFIX}storage": "filesystem", f"{PREFIX}dir": "/checkpoints"}


def test_sizes_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidProgramError, match="file_state_size_threshold is at most 1048576 bytes, not 1048577"):
        FileSystemCheckpointStorage("/x", FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD + 1)
    with pytest.raises(InvalidProgramError, match="write_buffer_size is a number of bytes, of at least 1, not 0"):
        FileSystemCheckpointStorage("/x", 0, 0)
    with pytest.raises(InvalidProgramError, match="max_state_size is a number of bytes, of at least 1, not '5 mb'"):
        JobManagerCheckpointStorage(max_state_size="5 mb")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (CustomCheckpointStorage, "there is no JVM; use FileSystemCheckpointStorage"),
        (CustomStateBackend, "there is no JVM; use HashMapStateBackend"),
        (EmbeddedRocksDBStateBackend, "there is no RocksDB here; use HashMapStateBackend"),
    ],
)
def test_unsupported_settings_are_refused(make: Any, what: str) -> None:
    with pytest.raises(InvalidProgramError, match=what):
        make()


def test_names_of_earlier_versions(env: StreamExecutionEnvironment) -> None:
    config = env.get_checkpoint_config()
    assert config.get_checkpoint_interval() == env.get_checkpoint_interval() == -1
    assert config.is_fail_on_checkpointing_errors()
    assert not config.set_fail_on_checkpointing_errors(False).is_fail_on_checkpointing_errors()
    assert config.set_fail_on_checkpointing_errors(True).get_tolerable_checkpoint_failure_number() == 0
    assert config.set_alignment_timeout(Duration.of_minutes(1)).get_alignment_timeout() == Duration.of_minutes(1)
    assert not config.set_force_unaligned_checkpoints(False).is_force_unaligned_checkpoints()
    assert not env.is_force_unaligned_checkpoints()
    with pytest.raises(InvalidProgramError, match=r"set_force_unaligned_checkpoints: barriers overtake records where"):
        config.set_force_unaligned_checkpoints()
    config.enable_unaligned_checkpoints()
    assert env.is_unaligned_checkpoints_enabled()
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.enable_changelog_state_backend(False).is_changelog_state_backend_enabled() is None
    with pytest.raises(InvalidProgramError, match="there is no changelog of state; set execution"):
        env.enable_changelog_state_backend(True)


def test_paths_in_options_are_from_the_folder_of_the_program(env: StreamExecutionEnvironment) -> None:
    given = {
        f"{PREFIX}dir": "checkpoints",
        f"{PREFIX}savepoint-dir": "s3://bucket/savepoints",
        "execution.state-recovery.path": "~/savepoints/1",
    }
    env.configure(Configuration(given))
    assert options(env) == {
        f"{PREFIX}dir": str(Path("checkpoints").absolute()),
        f"{PREFIX}savepoint-dir": "s3://bucket/savepoints",
        "execution.state-recovery.path": str(Path.home() / "savepoints" / "1"),
    }


def test_setters_win_over_the_configuration(env: StreamExecutionEnvironment) -> None:
    env.configure(Configuration().set_string(f"{PREFIX}interval", "9 s").set_string(f"{PREFIX}mode", "AT_LEAST_ONCE"))
    assert env.get_checkpoint_interval() == 9000
    env.enable_checkpointing(1000).configure(Configuration().set_string(f"{PREFIX}interval", "8 s"))
    assert env.get_checkpoint_interval() == 1000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_checkpoint_interval", 0),
        ("set_checkpoint_interval", "1 s"),
        ("set_checkpoint_timeout", timedelta(0)),
        ("set_min_pause_between_checkpoints", -1),
        ("set_aligned_checkpoint_timeout", True),
        ("set_max_concurrent_checkpoints", 0),
        ("set_max_concurrent_checkpoints", 1.5),
        ("set_tolerable_checkpoint_failure_number", -1),
        ("set_checkpoint_interval", 1.5),
        ("set_checkpointing_mode", "EXACTLY_ONCE"),
        ("set_checkpoint_storage", "/checkpoints"),
        ("set_externalized_checkpoint_retention", True),
    ],
)
def test_wrong_values_name_the_method(env: StreamExecutionEnvironment, method: str, value: Any) -> None:
    config: CheckpointConfig = env.get_checkpoint_config()
    with pytest.raises(InvalidProgramError, match=f"^{method}: expected .* not "):
        getattr(config, method)(value)
    assert options(env) == {}


def test_restart_strategies(env: StreamExecutionEnvironment) -> None:
    assert env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 2500)) is env
    fixed = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "2500",
    }
    assert options(env) == env.get_restart_strategy().options == fixed
    assert env.get_configuration().value("restart-strategy.fixed-delay.delay") == 2.5
    env.set_restart_strategy(RestartStrategies.failure_rate_restart(5, timedelta(minutes=1), Duration.of_millis(100)))
    assert options(env) == {
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.max-failures-per-interval": "5",
        "restart-strategy.failure-rate.failure-rate-interval": "60000",
        "restart-strategy.failure-rate.delay": "100",
    }
    env.set_restart_strategy(RestartStrategies.exponential_delay_restart(10, 1000, 1.5, timedelta(hours=1), 0.25))
    assert options(env) == {
        "restart-strategy.type": "exponential-delay",
        "restart-strategy.exponential-delay.initial-backoff": "10",
        "restart-strategy.exponential-delay.max-backoff": "1000",
        "restart-strategy.exponential-delay.backoff-multiplier": "1.5",
        "restart-strategy.exponential-delay.reset-backoff-threshold": "3600000",
        "restart-strategy.exponential-delay.jitter-factor": "0.25",
    }
    env.set_restart_strategy(RestartStrategies.no_restart())
    assert options(env) == {"restart-strategy.type": "none"}
    env.set_restart_strategy(RestartStrategies.fall_back_restart())
    assert options(env) == {}


def test_wrong_strategies_and_backends(env: StreamExecutionEnvironment) -> None:
    wrong: Any = "fixed-delay"
    with pytest.raises(InvalidProgramError, match="set_restart_strategy: expected what RestartStrategies makes"):
        env.set_restart_strategy(wrong)
    with pytest.raises(InvalidProgramError, match="fixed-delay restarts: delay is a number of at least 0"):
        RestartStrategies.fixed_delay_restart(3, -1)
    for backend in (wrong, StateBackend()):
        with pytest.raises(InvalidProgramError, match=r"set_state_backend: expected a StateBackend such as"):
            env.set_state_backend(backend)
