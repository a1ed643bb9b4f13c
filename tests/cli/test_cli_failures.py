"""Whatever goes wrong is one line on stderr with the right exit status."""

from __future__ import annotations

from typing import Any

import click
import pytest

from millstream.cli import failures
from millstream.cli.options import verbose_option
from millstream.core.errors import MillstreamError

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["frobnicate"], "millstream: No such command 'frobnicate'."),
        (["list", "--bogus"], "millstream list: No such option '--bogus'"),
        (["run"], "millstream run: nothing to run: name a wheel or a Python file, or use -py or -pym"),
        (["run", "-py", "a.py", "-pym", "b"], "millstream run: -py and -pym exclude each other"),
        (["resourcemanager", "extra"], "millstream resourcemanager: Got unexpected extra argument (extra)"),
        (["cluster", "start", "--slots", "0"], "millstream cluster start: Invalid value for '--slots'"),
        (["cancel", ""], "millstream cancel: the job is empty"),
    ],
)
def test_misuse(cli: Any, arguments: list[str], line: str) -> None:
    assert cli.fails(*arguments, status=2).startswith(line)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["list", "-m", "nonsense"], "millstream list: -m nonsense: write it as -m host:port"),
        (
            ["list", "-m", "127.0.0.1:1"],
            "millstream list: cannot reach the cluster at 127.0.0.1:1: Connection refused. `millstream cluster start`",
        ),
        (["run", "no.whl"], "millstream run: no such file: no.whl"),
        (["run", "-D", "rest.prt=1", "a.py"], "millstream run: unknown option 'rest.prt'; did you mean 'rest.port'?"),
        (["info", "-D", "oops", "a.py"], "millstream info: -D oops: write it as -D key=value"),
        (["cluster", "status", "--dir", "/no/such"], "millstream cluster status: no cluster is running in /no/such"),
        (
            ["resourcemanager", "-D", "resourcemanager.rpc.address=0.0.0.0"],
            "millstream resourcemanager: resourcemanager.rpc.port: refusing to listen on 0.0.0.0 without security",
        ),
        *(
            ([daemon, "-D", "rest.port=many"], f"millstream {daemon}: option 'rest.port': 'many' is not a whole number")
            for daemon in ("dispatcher", "jobmanager", "resourcemanager", "taskmanager")
        ),
        (["taskmanager", "--configDir", "/no/such"], "millstream taskmanager: no config.yaml in the configuration"),
    ],
)
def test_failure(cli: Any, arguments: list[str], line: str) -> None:
    assert cli.fails(*arguments).startswith(line)


@pytest.mark.parametrize(("option", "shown"), [("--help", "cluster"), ("--version", "millstream 0.")])
def test_help_and_version_load_nothing_that_takes_long(cli: Any, option: str, shown: str) -> None:
    cli.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    done = cli(option)
    assert shown in done.stdout
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "click" in loaded
    assert loaded & {"grpc", "google", "numpy", "pandas", "pyarrow", "starlette", "uvicorn"} == set()


def test_tracebacks_have_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    @click.group(cls=failures.Group)
    def group() -> None: ...

    @group.command(cls=failures.Command)
    @verbose_option
    def read(verbose: bool) -> None:
        try:
            raise OSError("s3://key:hidden@bucket/x is away")
        except OSError as error:
            raise MillstreamError("it cannot be read") from error

    assert failures.run(group, ["read", "-v"]) == 1
    message = capsys.readouterr().err
    assert "OSError: s3://******@bucket/x is away" in message
    assert "hidden" not in message
