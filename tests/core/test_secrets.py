"""Credentials are not shown, and options that contain some reach a child process secretly."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys

import pytest

from millstream.core.errors import ConfigurationError
from millstream.core.logs.logs import set_up_logging
from millstream.core.processes.handed_down import secret_options, take_up
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.secrets import (
    is_secret,
    json_without_secrets,
    shown_options,
    split_options,
    without_secrets,
)
from millstream.core.settings.variables import SECRET_OPTIONS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/path", "s3://******@bucket/path"),
        ("s3://key:se%2Fcret@bucket/a?region=eu&scheme=http", "s3://******@bucket/a?region=eu&scheme=http"),
        ("s3://key:se/cr+et@bucket/path", "s3://******@bucket/path"),
        ("s3://key:a@b@bucket/path", "s3://******@bucket/path"),
        ("s3://b/p?access_key=AKIA&secret_key=xyz&region=eu", "s3://b/p?access_key=******&secret_key=******&region=eu"),
        ("s3://b?session_token=t;x=1", "s3://b?session_token=******;x=1"),
        ("hdfs://user@host:9000/x", "hdfs://******@host:9000/x"),
        ("no 's3://k:s@b/x': and \"gs://t:u@c\" neither", "no 's3://******@b/x': and \"gs://******@c\" neither"),
        ("https://x.example:8081/a@b?c=d", "https://x.example:8081/a@b?c=d"),
        ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
        ("file:///tmp/a@b", "file:///tmp/a@b"),
        ("s3://bucket/user@example/x", "s3://bucket/user@example/x"),
        ("nothing: at all", "nothing: at all"),
    ],
)
def test_credentials_in_uris_are_hidden_and_nothing_else(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    "key",
    ["s3.secret-key", "s3.access-key", "security.ssl.rest.keystore-password", "x.PassPhrase", "fs.azure.account.key.a",
     "my.apiKey", "auth.token", "gcs.credentials", "sasl.jaas.config", "metrics.http-headers", "X-Amz-Signature"],
)  # fmt: skip
def test_options_are_secret_by_their_name(key: str) -> None:
    assert is_secret(key)
    assert shown_options({key: "v", "parallelism.default": "2"}) == {key: "******", "parallelism.default": "2"}
    assert split_options({key: "v", "a": "b"}) == ({"a": "b"}, {key: "v"})


def test_names_without_credentials_are_shown() -> None:
    for key in ("security.ssl.internal.key", "key.groups", "python.executable", "execution.checkpointing.dir"):
        assert not is_secret(key)


def test_values_of_any_shape_are_traversed() -> None:
    value = {"a": ["s3://k:s@b", 1, None, {"b": ("s3://k:s@b",)}]}
    assert json_without_secrets(value) == {"a": ["s3://******@b", 1, None, {"b": ["s3://******@b"]}]}


def test_a_configuration_and_the_log_show_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    configuration = Configuration({"execution.checkpointing.dir": "s3://k:verysecret@b/c", "logging.format": "json"})
    assert "verysecret" not in repr(configuration)
    assert configuration.value("execution.checkpointing.dir") == "s3://k:verysecret@b/c"
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        for form in ("json", "text"):
            set_up_logging("test", configuration.merged({"logging.format": form}))
            try:
                raise ValueError(configuration.value("execution.checkpointing.dir"))
            except ValueError:
                logging.getLogger("millstream").exception("%s", configuration.to_dict())
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    logged = capsys.readouterr().err
    assert "verysecret" not in logged
    assert logged.count("s3://******@b/c") == 4


@pytest.mark.process
def test_a_child_gets_options_that_its_own_children_and_others_do_not_see() -> None:
    program = (
        "import json, pathlib, subprocess, sys\n"
        "from millstream.core.processes.handed_down import handed_down_options\n"
        "again = 'from millstream.core.processes.handed_down import handed_down_options; handed_down_options()'\n"
        "below = subprocess.run([sys.executable, '-c', again], capture_output=True, text=True)\n"
        "own = [pathlib.Path(f'/proc/self/{name}').read_text() for name in ('cmdline', 'environ')]\n"
        "print(json.dumps([handed_down_options(), handed_down_options(), own, below.stderr]))\n"
    )
    options = {"execution.checkpointing.dir": "s3://k:verysecret@b/" + "c" * 100_000}
    with secret_options(options) as (descriptors, variables):
        done = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **variables}, pass_fds=descriptors, capture_output=True,
            check=True,
        )  # fmt: skip
    first, second, own, below = json.loads(done.stdout)
    assert first == second == options
    assert "verysecret" not in "".join(own)
    assert "handed to another process" in below
    with pytest.raises(ConfigurationError, match=SECRET_OPTIONS):
        take_up(variables[SECRET_OPTIONS])


def test_without_secret_options_nothing_is_passed_on() -> None:
    with secret_options({}) as handed:
        assert handed == ((), {})
