from __future__ import annotations

import pytest

import millstream.common
from millstream.common import Configuration, ConfigurationError, JobClient, JobExecutionResult, JobStatus
from millstream.core.settings.configuration import Configuration as CoreConfiguration
from millstream.datastream.execution import executor as execution


def test_setters_chain_and_getters_read_typed_values() -> None:
    configuration = (
        Configuration()
        .set_string("pipeline.name", "orders")
        .set_integer("parallelism.default", 3)
        .set_boolean("execution.attached", False)
    )
    assert configuration.get_string("pipeline.name", "") == "orders"
    assert configuration.get_integer("parallelism.default", 1) == 3
    assert configuration.get_boolean("execution.attached", True) is False
    assert configuration.key_set() == {"pipeline.name", "parallelism.default", "execution.attached"}
    assert configuration.to_dict()["execution.attached"] == "false"


def test_what_is_not_set_is_the_given_default_or_the_options_own() -> None:
    configuration = Configuration()
    assert configuration.get_integer("parallelism.default", 7) == 7
    assert configuration.get_integer("parallelism.default") == 1
    assert configuration.get_string("rest.port", "9") == "9"
    assert configuration.get_float("heartbeat.interval") == 10.0
    assert not configuration.contains_key("rest.port")


def test_text_is_answered_as_it_was_written() -> None:
    configuration = Configuration().set_string("heartbeat.interval", "2 s")
    assert configuration.get_string("heartbeat.interval") == "2 s"
    assert configuration.get_float("heartbeat.interval") == 2.0


def test_unknown_keys_and_wrong_types_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean 'parallelism\.default'"):
        Configuration().set_integer("paralelism.default", 1)
    with pytest.raises(ConfigurationError, match="unknown option 'nothing'"):
        Configuration().get("nothing")
    with pytest.raises(ConfigurationError, match="not a whole number"):
        Configuration().get_integer("pipeline.name")
    with pytest.raises(ConfigurationError, match="not a whole number"):
        Configuration().get_integer("execution.attached")
    with pytest.raises(ConfigurationError, match="not true or false"):
        Configuration().get_boolean("rest.port")


def test_configurations_are_copied_merged_and_taken_back() -> None:
    first = Configuration(CoreConfiguration({"rest.port": 1}))
    second = Configuration({"pipeline.name": "n"})
    second.add_all(first)
    second.add_all({"port": 2}, prefix="rest.")
    assert second.to_dict() == {"pipeline.name": "n", "rest.port": "2"}
    assert first.get_integer("rest.port") == 1
    assert second.remove_config("rest.port")
    assert not second.remove_config("rest.port")
    target: dict[str, str] = {}
    second.add_all_to_dict(target)
    assert target == {"pipeline.name": "n"}


def test_what_a_job_answers_is_found_here_too() -> None:
    assert JobExecutionResult is execution.JobExecutionResult
    assert JobClient is execution.JobClient
    assert JobStatus.FINISHED.is_terminal
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        millstream.common.Nothing  # noqa: B018
