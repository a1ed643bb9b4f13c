"""`ExecutionConfig`: each setting is an option of the environment, has one value, or is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from millstream.common import Duration, ExecutionConfig, InvalidProgramError, RestartStrategies
from millstream.datastream import StreamExecutionEnvironment


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def config(env: StreamExecutionEnvironment) -> ExecutionConfig:
    return env.get_config()


@pytest.mark.parametrize(
    ("setting", "value", "key", "text"),
    [
        ("parallelism", 8, "parallelism.default", "8"),
        ("max_parallelism", 12, "pipeline.max-parallelism", "12"),
        ("auto_watermark_interval", 1000, "pipeline.auto-watermark-interval", "1000 ms"),
        ("task_cancellation_interval", 1000, "task.cancellation.interval", "1000 ms"),
        ("task_cancellation_timeout", 3000, "task.cancellation.timeout", "3000 ms"),
    ],
)
def test_a_number_is_set_and_read_back(
    env: StreamExecutionEnvironment, config: ExecutionConfig, setting: str, value: int, key: str, text: str
) -> None:
    getattr(config, f"set_{setting}")(value)
    assert getattr(config, f"get_{setting}")() == value
    assert env.get_configuration().get_string(key) == text
    assert getattr(env.get_config(), f"get_{setting}")() == value


def test_durations_are_taken_as_times(config: ExecutionConfig) -> None:
    config.set_auto_watermark_interval(timedelta(seconds=2)).set_task_cancellation_timeout(Duration.of_seconds(3))
    assert (config.get_auto_watermark_interval(), config.get_task_cancellation_timeout()) == (2000, 3000)


def test_the_default_parallelism_comes_back(config: ExecutionConfig) -> None:
    before = config.get_parallelism()
    config.set_parallelism(before + 7).set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN)
    assert config.get_parallelism() == before + 7
    config.set_parallelism(ExecutionConfig.PARALLELISM_DEFAULT)
    assert config.get_parallelism() == before


@pytest.mark.parametrize(
    ("setting", "value"),
    [("parallelism", 0), ("parallelism", "2"), ("max_parallelism", 32769), ("auto_watermark_interval", -1)],
)
def test_what_makes_no_sense_is_refused(config: ExecutionConfig, setting: str, value: Any) -> None:
    with pytest.raises(InvalidProgramError, match=f"set_{setting}: "):
        getattr(config, f"set_{setting}")(value)


def test_operators_may_have_to_have_uids(env: StreamExecutionEnvironment, config: ExecutionConfig) -> None:
    assert config.has_auto_generated_uids_enabled()
    config.disable_auto_generated_uids()
    assert not config.has_auto_generated_uids_enabled()
    stream = env.from_collection([1]).uid("source")
    mapped = stream.map(lambda x: x)
    with pytest.raises(InvalidProgramError, match=r"operator 'Map' has no uid.*call \.uid"):
        env.generate_job()
    mapped.uid("map")
    env.generate_job().data.remove()
    config.enable_auto_generated_uids()
    mapped.print()
    env.generate_job().data.remove()


def test_job_parameters_are_set_and_read_back(env: StreamExecutionEnvironment, config: ExecutionConfig) -> None:
    config.set_global_job_parameters({"hello": "world", "rest.port": 1})
    assert config.get_global_job_parameters() == {"hello": "world", "rest.port": "1"}
    assert env.get_configuration().get_integer("rest.port") == 8081
    config.set_global_job_parameters({"other": True})
    assert config.get_global_job_parameters() == {"other": "true"}


def test_what_is_about_java_has_one_answer(config: ExecutionConfig) -> None:
    assert config.enable_closure_cleaner().is_closure_cleaner_enabled()
    config.enable_generic_types()
    config.disable_force_kryo()
    config.disable_force_avro()
    config.set_use_snapshot_compression(True)
    assert config.is_use_snapshot_compression()
    assert not any((config.is_force_kryo_enabled(), config.is_force_avro_enabled()))
    assert not config.has_generic_types_disabled()
    config.set_latency_tracking_interval(-1).set_latency_tracking_interval(0)
    assert config.get_latency_tracking_interval() == 0
    assert config.set_latency_tracking_interval(200).get_latency_tracking_interval() == 200
    assert config.get_default_kryo_serializer_classes() == {}
    assert config.get_registered_kryo_types() == config.get_registered_pojo_types() == []


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("disable_closure_cleaner", ()), ("disable_generic_types", ()), ("enable_force_kryo", ()),
        ("enable_force_avro", ()), ("set_use_snapshot_compression", (False,)),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_by_its_name(
    config: ExecutionConfig, method: str, arguments: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidProgramError, match=f"^{method}: "):
        getattr(config, method)(*arguments)


def test_configs_are_equal_by_their_settings() -> None:
    first, second = (StreamExecutionEnvironment.get_execution_environment().get_config() for _ in range(2))
    assert first == second
    first.set_parallelism(12)
    assert first != second
    second.set_parallelism(12)
    assert first == second
    assert hash(first) == hash(second)


def test_restart_strategies_are_described() -> None:
    assert RestartStrategies.no_restart().get_description() == "none"
    assert RestartStrategies.fall_back_restart().get_description() == "as the cluster is configured"
    fixed = RestartStrategies.fixed_delay_restart(3, timedelta(seconds=1))
    assert fixed.get_description() == "fixed-delay (attempts 3, delay 1000)"
