"""Options from YAML, from `-D` and from code: syntax, checks, and errors that suggest the correct value."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration, parse_duration, parse_memory
from millstream.core.settings.former_keys import FORMER_KEYS
from millstream.core.settings.options import OPTIONS, Option, OptionType
from millstream.core.settings.own_keys import job_parameters

# Durations and sizes

UNITS = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "milli": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0,
    "d": 86400.0,
}  # fmt: skip
SIZES = {"b": 1, "bytes": 1, "k": 1 << 10, "kb": 1 << 10, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "tb": 1 << 40}
_space = st.sampled_from(["", " ", "  "])
_case = st.sampled_from([str.lower, str.upper, str.title])


@given(st.integers(0, 10**12), st.sampled_from(list(UNITS)), _space, _case)
def test_durations_in_every_unit(number: int, unit: str, space: str, case: Any) -> None:
    assert math.isclose(parse_duration(f"{space}{number}{space}{case(unit)}{space}"), number * UNITS[unit])


@given(st.integers(0, 10**12))
def test_a_duration_without_a_unit_is_in_milliseconds(number: int) -> None:
    assert math.isclose(parse_duration(str(number)), number / 1000)


@given(st.integers(0, 10**20), st.sampled_from(list(SIZES)), _space, _case)
def test_sizes_in_every_unit_are_exact(number: int, unit: str, space: str, case: Any) -> None:
    assert parse_memory(f"{number}{space}{case(unit)}") == number * SIZES[unit]


@given(st.integers(0, 10**20))
def test_a_size_without_a_unit_is_in_bytes(number: int) -> None:
    assert parse_memory(str(number)) == number


def test_fractions_are_accepted() -> None:
    assert parse_duration("1.5 s") == 1.5
    assert parse_memory("0.5 kb") == 512


@pytest.mark.parametrize(
    ("parse", "texts", "reason"),
    [
        (parse_duration, ["", "s", "-1 s", "1 fortnight", "1 s s", "1s\n2s", "NaN s", "1e3 s", "1,5 s"], "duration"),
        (parse_memory, ["", "mb", "-1", "1 s", "1 kbit", "0x10"], "memory size"),
    ],
)
def test_invalid_text_is_refused(parse: Callable[[str], float], texts: list[str], reason: str) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=f"is not a {reason}; write it like '"):
            parse(text)


@given(st.text())
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    for parse in (parse_duration, parse_memory):
        try:
            value = parse(text)
        except ValueError:
            with pytest.raises(ValueError, match="write it like"):
                parse(text)
        else:
            assert value >= 0


# Setting and reading


def test_values_have_the_type_of_their_option() -> None:
    configuration = Configuration(
        {
            "rest.port": "8082",
            "heartbeat.timeout": "3 s",
            "taskmanager.memory.segment-size": "32 kb",
            "security.allow-insecure": "TRUE",
            "logging.level": "debug",
            "pipeline.name": "  a job ",
        }
    )
    assert configuration.value("rest.port") == 8082
    assert configuration.value("heartbeat.timeout") == 3.0
    assert configuration.value("taskmanager.memory.segment-size") == 32 * 1024
    assert configuration.value("security.allow-insecure") is True
    assert configuration.value("logging.level") == "DEBUG"
    assert configuration.value("pipeline.name") == "a job"


def test_python_values_are_accepted_too() -> None:
    configuration = Configuration({"rest.port": 0, "security.allow-insecure": True})
    assert configuration.value("rest.port") == 0
    assert configuration.value("security.allow-insecure") is True


def test_an_option_that_is_not_set_has_its_default() -> None:
    configuration = Configuration()
    assert configuration.value("rest.port") == 8081
    assert not configuration.is_set("rest.port")
    assert Configuration({"rest.port": 8081}).is_set("rest.port")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("rest.port", "many", "option 'rest.port': 'many' is not a whole number"),
        ("rest.port", 1.5, "option 'rest.port': '1.5' is not a whole number"),
        ("rest.port", None, "option 'rest.port': '' is not a whole number"),
        ("security.allow-insecure", "yes", "option 'security.allow-insecure': 'yes' is neither true nor false"),
        ("logging.format", "xml", "option 'logging.format': 'xml' is not one of text, json"),
        ("heartbeat.interval", "soon", "option 'heartbeat.interval': 'soon' is not a duration"),
        ("web.upload.max-size", "big", "option 'web.upload.max-size': 'big' is not a memory size"),
        ("io.tmp.dirs", ["/a", "/b"], "option 'io.tmp.dirs': expected one value, not ['/a', '/b']"),
        ("rest", {"port": 1}, "option 'rest': expected one value, not {'port': 1}"),
        ("own.key", ["a"], "option 'own.key': expected one value, not ['a']"),
    ],
)
def test_a_bad_value_is_refused_with_its_key_and_reason(key: str, value: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration({key: value})
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("paralelism.default", "parallelism.default"),
        ("taskmanager.numberOfSlots", "taskmanager.numberOfTaskSlots"),
        ("heartbeat.time-out", "heartbeat.timeout"),
        ("rest.prt", "rest.port"),
        ("taskmanger.numberOfTaskSlots", "taskmanager.numberOfTaskSlots"),
    ],
)
def test_an_unknown_key_suggests_the_nearest_one(key: str, nearest: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration({key: 1})
    assert str(caught.value) == f"unknown option '{key}'; did you mean '{nearest}'?"


def test_keys_of_older_versions_refer_to_existing_keys() -> None:
    assert FORMER_KEYS.keys().isdisjoint(OPTIONS)
    assert set(FORMER_KEYS.values()) <= set(OPTIONS)


@pytest.mark.parametrize(("former", "present"), FORMER_KEYS.items())
def test_a_key_of_an_older_version_sets_the_current_one_with_a_warning(former: str, present: str) -> None:
    option = OPTIONS[present]
    with pytest.warns(FutureWarning, match=f"option '{former}' is deprecated: use '{present}'") as caught:
        configuration = Configuration({former: _written(option)})
    assert configuration.to_dict() == {present: _written(option)}
    assert caught[0].filename == __file__


def test_options_of_pyflinks_exchange_with_java_are_dropped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"'python\.fn-execution\.bundle\.size' is about PyFlink's exchange with Java"):
        configuration = Configuration({"python.fn-execution.bundle.size": 1})
    assert configuration == Configuration()
    with pytest.warns(UserWarning, match=r"a program runs where its functions do, with 'python\.executable'"):
        Configuration({"python.client.executable": "python3"})


LOGGERS = "python.logging.level.overrides"


def test_an_option_that_is_a_map_is_text_or_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("python:\n  logging.level.overrides:\n    a.b: debug\n    c: {d: WARN}\n")
    read = Configuration.from_yaml(file)
    assert read.value(LOGGERS) == {"a.b": "DEBUG", "c.d": "WARN"}
    assert Configuration(read.to_dict()) == read == Configuration({LOGGERS: "a.b:debug,c.d:WARN"})
    assert (Configuration().value(LOGGERS), Configuration({LOGGERS: ""}).value(LOGGERS)) == ({}, {})


@pytest.mark.parametrize("wrong", ["DEBUG", ":DEBUG", "a:LOUD", "a", "a:DEBUG,b"])
def test_an_invalid_map_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a name and a value|is not one of OFF, CRITICAL"):
        Configuration({LOGGERS: wrong})


@pytest.mark.parametrize("key", ["akka.ask.timeout", "pekko.ask.timeout"])
def test_options_of_messages_between_java_processes_are_dropped_with_a_warning(key: str) -> None:
    with pytest.warns(UserWarning, match=f"'{key}' is about messages between Java processes"):
        configuration = Configuration({key: "20 s"})
    assert configuration == Configuration()


@pytest.mark.parametrize("key", ["yarn.application.name", "table.exec.state.ttl", "zookeeper.x", "s3.zzzzzzzzzzzzzzzz"])
def test_an_unknown_key_in_a_namespace_of_flinks_is_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^unknown option '{key}'"):
        Configuration({key: 1})


@pytest.mark.parametrize("key", ["zzzzz", "k1", "env", "my.key", "orders.state.dir"])
def test_any_other_key_is_user_defined(key: str) -> None:
    configuration = Configuration({key: 1, "rest.port": 2})
    assert configuration.get(key) == "1"
    assert job_parameters(configuration.to_dict()) == {key: "1"}
    assert Configuration().get(key) is None
    assert Configuration(configuration.to_dict()) == configuration


def test_job_parameters_may_have_any_name_below_their_option() -> None:
    options = Configuration({"pipeline.global-job-parameters.rest.port": 1}).to_dict()
    assert job_parameters(options) == {"rest.port": "1"}


def test_a_jobs_own_keys_override_those_of_the_cluster() -> None:
    cluster = Configuration({"tenant": "ours", "zone": "a"})
    assert job_parameters(cluster.for_job({"tenant": "theirs"}).to_dict()) == {"tenant": "theirs", "zone": "a"}


def test_merging_prefers_the_other_and_changes_neither() -> None:
    first = Configuration({"rest.port": 1, "pipeline.name": "a"})
    second = Configuration({"rest.port": 2})
    merged = first.merged(second)
    assert merged.to_dict() == {"rest.port": "2", "pipeline.name": "a"}
    assert first.merged({"rest.port": "3"}).value("rest.port") == 3
    assert first.value("rest.port") == 1
    assert second.to_dict() == {"rest.port": "2"}


def test_a_configuration_is_decoded_unchanged() -> None:
    original = Configuration({"heartbeat.timeout": "90 s", "security.allow-insecure": True, "rest.port": 5})
    copy = Configuration(original.to_dict())
    assert copy == original
    assert hash(copy) == hash(original)
    assert copy.value("heartbeat.timeout") == 90.0


# Files and -D


def write(folder: Path, text: str) -> Path:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    return folder


def test_nested_and_dotted_keys_mix(tmp_path: Path) -> None:
    text = """
    rest.port: 9000
    taskmanager:
      numberOfTaskSlots: 4
      memory.segment-size: 64 kb
    heartbeat:
      interval: 2 s
    security.allow-insecure: true
    pipeline.name: grüße
    io.tmp.dirs:
    """
    configuration = Configuration.load(write(tmp_path, text))
    assert configuration.value("rest.port") == 9000
    assert configuration.value("taskmanager.numberOfTaskSlots") == 4
    assert configuration.value("taskmanager.memory.segment-size") == 65536
    assert configuration.value("heartbeat.interval") == 2.0
    assert configuration.value("security.allow-insecure")
    assert configuration.value("pipeline.name") == "grüße"
    assert configuration.value("io.tmp.dirs") == ""


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}"])
def test_an_empty_file_sets_nothing(tmp_path: Path, text: str) -> None:
    assert Configuration.load(write(tmp_path, text)) == Configuration()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- a\n- b\n", "expected a mapping of options at the top"),
        ("just text", "expected a mapping of options at the top"),
        ("a: [", "while parsing"),
        ("rest.port: x", "option 'rest.port': 'x' is not a whole number"),
        ("rest:\n  prt: 1", "unknown option 'rest.prt'; did you mean 'rest.port'?"),
        ("rest.port: [1, 2]", "option 'rest.port': expected one value, not [1, 2]"),
    ],
)
def test_an_error_in_a_file_names_the_file(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Configuration.load(write(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path / 'config.yaml'}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"\xff\xfe\x00a: b")
    with pytest.raises(ConfigurationError, match=r"config\.yaml: "):
        Configuration.load(tmp_path)


def test_a_configured_directory_without_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"no config.yaml in the configuration directory {tmp_path}"):
        Configuration.load(tmp_path)


def test_the_directory_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLSTREAM_CONF_DIR", str(tmp_path))
    assert Configuration.load() == Configuration()
    write(tmp_path, "rest.port: 1")
    assert Configuration.load().value("rest.port") == 1
    monkeypatch.setenv("MILLSTREAM_CONF_DIR", str(tmp_path / "missing"))
    with pytest.raises(ConfigurationError, match="missing"):
        Configuration.load()
    monkeypatch.delenv("MILLSTREAM_CONF_DIR")
    assert Configuration.load() == Configuration()


def test_overrides_win_over_the_file_and_later_ones_over_earlier_ones(tmp_path: Path) -> None:
    write(tmp_path, "rest.port: 1\npipeline.name: a")
    overrides = ["rest.port=2", " rest.port = 3 ", "pipeline.name=a=b c"]
    configuration = Configuration.load(tmp_path, overrides)
    assert configuration.value("rest.port") == 3
    assert configuration.value("pipeline.name") == "a=b c"


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("rest.port", "-D rest.port: write it as -D key=value"),
        ("=1", "unknown option ''"),
        ("rest.port=", "option 'rest.port': '' is not a whole number"),
    ],
)
def test_a_bad_override_is_refused(item: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLSTREAM_CONF_DIR", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        Configuration.load(overrides=[item])
    assert str(caught.value).startswith(reason)


# The table

PYTHON_TYPES = {
    OptionType.STRING: str,
    OptionType.INT: int,
    OptionType.BOOL: bool,
    OptionType.DURATION: float,
    OptionType.MEMORY: int,
    OptionType.ENUM: str,
    OptionType.FLOAT: float,
    OptionType.MAP: dict,
}


def _written(option: Option) -> str:
    match option.type:
        case OptionType.DURATION:
            return f"{option.default * 1000:.15g} ms"
        case OptionType.BOOL:
            return str(option.default).lower()
        case OptionType.MAP:
            return ",".join(f"{name}:{value}" for name, value in option.default.items())
        case _:
            return str(option.default)


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.key)
def test_every_option_is_well_formed_and_its_default_parses_back(option: Option) -> None:
    assert type(option.default) is PYTHON_TYPES[option.type]
    assert option.description.endswith(".")
    assert bool(option.choices) == (option.type in (OptionType.ENUM, OptionType.MAP))
    assert option.type is not OptionType.ENUM or option.default in option.choices
    value = Configuration({option.key: _written(option)}).get(option.key)
    assert value == pytest.approx(option.default) if option.type is OptionType.DURATION else value == option.default


def test_no_key_is_the_parent_of_another() -> None:
    for key in OPTIONS:
        assert not any(other.startswith(f"{key}.") for other in OPTIONS), f"{key} cannot be written nested"


def test_a_job_sets_only_its_own_options() -> None:
    ours = {"io.tmp.dirs": "/ours", "task.cancellation.timeout": "5 s", "python.unpack.max-size": "1 mb"}
    cluster = Configuration(ours)
    settings = {
        "io.tmp.dirs": "/theirs",
        "python.unpack.max-size": "1 tb",
        "python.environments.max-size": "1 tb",
        "security.allow-insecure": "true",
        "execution.local.in-process": "true",
        "task.cancellation.timeout": "7 s",
        "parallelism.default": "3",
    }
    found = cluster.for_job(settings)
    assert found == cluster.merged({"task.cancellation.timeout": "7 s", "parallelism.default": "3"})


@pytest.mark.parametrize(
    ("ours", "theirs", "counts"), [(0, 64, 64), (64, 32, 32), (64, 128, 64), (64, 0, 64), (0, 0, 0)]
)
def test_a_job_can_lower_a_limit_but_not_raise_it(ours: int, theirs: int, counts: int) -> None:
    key = "taskmanager.memory.task.heap.size"
    assert Configuration({key: f"{ours} mb"}).for_job({key: f"{theirs} mb"}).value(key) == counts * 1024**2
