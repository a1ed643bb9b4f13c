from __future__ import annotations

import pytest

import millstream.common
from millstream.common import ConfigOptions, Configuration, ConfigurationError, JobClient, JobExecutionResult, JobStatus
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
    with pytest.raises(ConfigurationError, match=r"unknown option 'rest\.nothing'"):
        Configuration().get("rest.nothing")
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


def test_a_program_sets_keys_of_its_own() -> None:
    configuration = (
        Configuration()
        .set_string("str", "v1")
        .set_integer("int", 2)
        .set_boolean("bool", True)
        .set_float("float", 0.5)
        .set_bytearray("bytes", bytearray([1, 2, 3]))
    )
    expected = {"str": "v1", "int": 2, "bool": True, "float": 0.5, "bytes": bytearray([1, 2, 3])}
    given: dict[str, object] = {}
    configuration.add_all_to_dict(given)
    assert given == expected
    assert configuration.to_dict() == {"str": "v1", "int": "2", "bool": "true", "float": "0.5", "bytes": "AQID"}
    assert str(configuration) == "{str=v1, int=2, bool=true, float=0.5, bytes=AQID}"
    for same in (configuration, Configuration(configuration), Configuration.from_dict(configuration.to_dict())):
        assert same == configuration
        assert (same.get_string("str", ""), same.get_integer("int", 0)) == ("v1", 2)
        assert (same.get_boolean("bool", False), same.get_float("float", 0)) == (True, 0.5)
        assert same.get_bytearray("bytes", bytearray()) == bytearray([1, 2, 3])
    other = Configuration()
    other.add_all(configuration, "conf_")
    assert other.get_integer("conf_int", 0) == 2


def test_a_key_of_ones_own_that_is_not_set_has_the_given_default() -> None:
    assert Configuration().get_integer("rate", 7) == 7
    assert Configuration().get_bytearray("rate", bytearray(b"a")) == bytearray(b"a")
    assert Configuration().get("rate") is None


@pytest.mark.parametrize("ask", ["get_integer", "get_boolean", "get_float", "get_bytearray"])
def test_text_that_is_something_else_is_named(ask: str) -> None:
    with pytest.raises(ConfigurationError, match="option 'own' is 'ä', not"):
        getattr(Configuration().set_string("own", "ä"), ask)("own")


def test_bytes_are_for_keys_of_ones_own() -> None:
    with pytest.raises(ConfigurationError, match="holds no bytes"):
        Configuration().set_bytearray("pipeline.name", bytearray())


def test_options_are_described_and_read() -> None:
    rate = ConfigOptions.key("rate").int_type().default_value(5)
    name = ConfigOptions.key("name").string_type().no_default_value()
    dry = ConfigOptions.key("dry").boolean_type().default_value(False)
    configuration = Configuration()
    assert (configuration.get(rate), configuration.get(name), configuration.get(dry)) == (5, None, False)
    configuration.set(rate, 7)
    read = Configuration({"rate": "8", "dry": "true"})
    assert (configuration.get(rate), read.get(rate), read.get(dry)) == (7, 8, True)
    assert Configuration().get(ConfigOptions.key("rest.port").int_type().no_default_value()) == 8081


@pytest.mark.parametrize("value", ["a;b", "[a, b]", "- a\n- b"])
def test_values_that_are_lists(value: str) -> None:
    assert Configuration.parse_list_value(value) == ["a", "b"]
    assert Configuration.parse_list_value(None) == []
    assert Configuration.parse_list_value("a;b", False) == ["a", "b"]


def test_what_a_job_answers_is_found_here_too() -> None:
    assert JobExecutionResult is execution.JobExecutionResult
    assert JobClient is execution.JobClient
    assert JobStatus.FINISHED.is_terminal
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        millstream.common.Nothing  # noqa: B018
