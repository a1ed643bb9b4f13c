"""`millstream doctor`: what each check finds, and the exit status."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from millstream.cli.doctor import doctor, without_linux
from millstream.core.kernels import native
from millstream.core.linux.losses import losses
from millstream.core.settings.configuration import Configuration


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the checks with options, none of which is a port that others may have: the findings by name, the status."""
    monkeypatch.setenv("MILLSTREAM_CLUSTER_DIR", str(tmp_path / "cluster"))
    monkeypatch.setenv("PIP_INDEX_URL", "file:///nowhere")

    def run(**options: Any) -> tuple[dict[str, dict[str, Any]], int]:
        keys = ("dispatcher.rpc.port", "jobmanager.rpc.port", "resourcemanager.rpc.port", "rest.port")
        given = {**dict.fromkeys(keys, 0), **{key.replace("__", "."): value for key, value in options.items()}}
        done = CliRunner().invoke(
            doctor, ["--json", *(f"-D{k}={v}" for k, v in given.items())], standalone_mode=False
        )
        if done.exception is not None:
            raise done.exception
        return {finding["check"]: finding for finding in json.loads(done.stdout)}, done.return_value

    return run


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_host_that_can_run_it(checked: Any) -> None:
    found, status = checked()
    assert status == 0
    assert {"python", "port rest.port", "folder io.tmp.dirs", "clock", "open files", "memory"} <= set(found)
    assert found["python"]["status"] == "OK"
    assert all(finding["advice"] for finding in found.values() if finding["status"] != "OK")


@pytest.mark.parametrize(
    ("requested", "status", "message"),
    [
        ("numpy", "OK", "numpy: as MILLSTREAM_KERNELS requests"),
        ("", "WARN", "numpy: there is no "),
        ("native", "FAIL", "MILLSTREAM_KERNELS is native, but there is no "),
    ],
)
def test_which_kernels_are_used_without_a_library(
    checked: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, requested: str, status: str, message: str
) -> None:
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "kernels.so")
    monkeypatch.setenv("MILLSTREAM_KERNELS", requested)
    found, exit_status = checked()
    assert found["kernels"]["status"] == status
    assert found["kernels"]["message"].startswith(message)
    assert ("C compiler" in str(found["kernels"])) == (status != "OK")
    assert exit_status == int(status == "FAIL")


def test_a_port_that_is_taken_fails(checked: Any, taken: int) -> None:
    found, status = checked(jobmanager__rpc__port=taken)
    finding = found["port jobmanager.rpc.port"]
    assert (status, finding["status"]) == (1, "FAIL")
    assert str(taken) in finding["message"]
    assert "-D jobmanager.rpc.port=" in finding["advice"]
    assert found["port rest.port"]["status"] == "OK"


def test_a_folder_that_cannot_be_written_fails(checked: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found, status = checked(env__log__dir=tmp_path / "file" / "log")
    assert (status, found["folder env.log.dir"]["status"]) == (1, "FAIL")
    found, status = checked(env__log__dir=tmp_path / "new" / "log")
    assert (status, found["folder env.log.dir"]["status"]) == (0, "OK")
    assert not (tmp_path / "new").exists(), "a check makes nothing"


@pytest.mark.parametrize(("free", "expected"), [(1 << 20, "FAIL"), (1 << 30, "WARN"), (1 << 40, "OK")])
def test_disk_space(checked: Any, monkeypatch: pytest.MonkeyPatch, free: int, expected: str) -> None:
    real = shutil.disk_usage(os.sep)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: real._replace(free=free))
    found, status = checked()
    assert found["folder io.tmp.dirs"]["status"] == expected
    assert status == (expected == "FAIL")


def test_open_files(checked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for limits, status in (((100, 200), "WARN"), ((100, 100_000), "WARN"), ((100_000, 100_000), "OK")):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limits=limits: limits)
        assert checked()[0]["open files"]["status"] == status


def test_only_the_configured_package_index_is_reached(
    checked: Any, monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    asked: list[tuple[str, int]] = []
    real = socket.create_connection

    def noted(address: tuple[str, int], *more: Any) -> socket.socket:
        asked.append(address)
        return real(address, *more)

    monkeypatch.setattr(socket, "create_connection", noted)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:hidden@127.0.0.1:{taken}/simple")
    found, _ = checked()
    assert (found["package index"]["status"], asked) == ("OK", [("127.0.0.1", taken)])
    assert "hidden" not in json.dumps(found)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    assert checked()[0]["package index"]["status"] == "WARN"


def test_lines_for_people(taken: int, checked: Any) -> None:
    done = CliRunner().invoke(doctor, [f"-Drest.port={taken}"], standalone_mode=False)
    assert done.return_value == 1
    assert any(line.startswith("FAIL  port rest.port") for line in done.stdout.splitlines())


def test_what_is_lost_without_linux(checked: Any) -> None:
    findings = list(without_linux(Configuration(), losses("darwin")))
    assert {finding.status for finding in findings} == {"WARN"}
    assert "container" in findings[0].advice
    assert ("job and tasks in `ps`", "the command line is shown as it was started") in [
        (finding.message, finding.advice) for finding in findings
    ]
    assert "platform" not in checked()[0]
