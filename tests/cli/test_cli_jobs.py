"""`list` and `cancel` against a fake REST API."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from typing import Any

import pytest
from waiting import DEADLINE

pytestmark = pytest.mark.process


def job(ident: str, state: str, start: int = 0) -> dict[str, Any]:
    return {"jid": ident, "name": f"job {ident}", "state": state, "start-time": start, "duration": 61000}


@pytest.fixture
def jobs(fake_cluster: Any) -> Any:
    states = ["RUNNING", "CREATED", "FINISHED", "FAILED", "CANCELED", "CANCELLING"]
    found = [job(state[:3].lower() + str(n), state, 10 - n) for n, state in enumerate(states)]
    fake_cluster.responses["GET /jobs/overview"] = (200, {"jobs": found})
    return fake_cluster


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], ["can5", "cre1", "run0"]),
        (["-r"], ["can5", "run0"]),
        (["-s"], ["cre1"]),
        (["-r", "-s"], ["can5", "cre1", "run0"]),
        (["-a"], ["can5", "can4", "fai3", "fin2", "cre1", "run0"]),
    ],
)
def test_lists_the_selected_jobs(cli: Any, jobs: Any, flags: list[str], expected: list[str]) -> None:
    done = cli("list", "-m", jobs.address, *flags, "--json")
    assert done.returncode == 0
    assert [entry["jid"] for entry in json.loads(done.stdout)] == expected
    header, *lines = cli("list", "-m", jobs.address, *flags).stdout.splitlines()
    assert header.split("  ")[0] == "JOB ID"
    assert [line.split()[0] for line in lines] == expected
    assert all("1 min 01 s" in line for line in lines)


def test_lists_restarts_with_their_cause(cli: Any, fake_cluster: Any) -> None:
    job = {"jid": "abc", "name": "words", "start-time": 0, "duration": 61_000, "state": "RESTARTING"}
    job |= {"message": "restart 3 in 1.0 s", "restarts": 3, "last-failure": f"ValueError: {'bad ' * 100}"}
    fake_cluster.responses["GET /jobs/overview"] = (200, {"jobs": [job]})
    header, line = cli("list", "-m", fake_cluster.address).stdout.splitlines()
    assert header.endswith("RESTARTS")
    assert "  3 (ValueError: bad bad " in line
    assert line.endswith("...)")


@pytest.mark.parametrize("width", [60, 80, 110, 200])
def test_ids_are_whole_on_a_terminal_of_any_width(cli: Any, fake_cluster: Any, width: int) -> None:
    ids = [f"{number:032x}" for number in (1, 10**37, 2**127)]
    jobs = [{**job(ident, "FINISHED", start=n), "name": "a long name " * (3 * n)} for n, ident in enumerate(ids)]
    fake_cluster.responses["GET /jobs/overview"] = (200, {"jobs": jobs})
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    command = cli.command("list", "--all", "-m", fake_cluster.address)
    environment = {key: value for key, value in cli.environment.items() if key != "COLUMNS"}
    process = subprocess.Popen(command, cwd=cli.home, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    content = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(ours, 4096):
            content += part
    os.close(ours)
    assert process.wait(DEADLINE) == 0
    lines = content.decode().splitlines()
    assert [line[:32] for line in lines if line[:32] in ids] == ids
    assert all(len(line) <= width for line in lines if "\x1b" not in line), lines


def test_lists_nothing(cli: Any, fake_cluster: Any) -> None:
    fake_cluster.responses["GET /jobs/overview"] = (200, {"jobs": []})
    assert cli("list", "-m", fake_cluster.address).stdout == "No running or scheduled jobs.\n"


def test_the_address_comes_from_the_configuration(cli: Any, jobs: Any) -> None:
    port = jobs.address.rpartition(":")[2]
    assert cli("list", "-D", f"rest.port={port}").returncode == 0
    (cli.home / "config.yaml").write_text(f"rest:\n  port: {port}\n")
    assert cli("list", "--configDir", str(cli.home)).returncode == 0


def test_cancels(cli: Any, fake_cluster: Any) -> None:
    fake_cluster.responses["PATCH /jobs/abc?mode=cancel"] = (202, {})
    fake_cluster.responses["GET /jobs/abc"] = (200, {"state": "RUNNING"})
    done = cli("cancel", "-m", fake_cluster.address, "abc")
    assert (done.returncode, done.stdout) == (0, "Cancelling job abc.\n")
    assert fake_cluster.requests == ["GET /jobs/overview", "GET /jobs/abc", "PATCH /jobs/abc?mode=cancel"]
    fake_cluster.responses["GET /jobs/abc"] = (200, {"state": "CANCELED"})
    done = cli("cancel", "-m", fake_cluster.address, "abc")
    assert (done.returncode, done.stdout) == (0, "Job abc is CANCELED already.\n")


@pytest.mark.parametrize(("last", "status"), [("CANCELED", 0), ("FINISHED", 1)])
def test_waits_for_the_end(cli: Any, fake_cluster: Any, last: str, status: int) -> None:
    states = iter(["RUNNING", "RUNNING", "CANCELLING", last])
    fake_cluster.responses["PATCH /jobs/abc?mode=cancel"] = (202, b"")
    fake_cluster.responses["GET /jobs/abc"] = lambda: (200, {"state": next(states)})
    done = cli("cancel", "-m", fake_cluster.address, "--wait", "abc")
    assert done.returncode == status
    assert last in (done.stdout if status == 0 else done.stderr)


def test_shows_the_first_line_of_what_the_cluster_says(cli: Any, fake_cluster: Any) -> None:
    errors = ["Job abc not found\n  at some.place", "<stack>"]
    fake_cluster.responses["GET /jobs/abc"] = (200, {"state": "RUNNING"})
    fake_cluster.responses["PATCH /jobs/abc?mode=cancel"] = (404, {"errors": errors})
    assert cli.fails("cancel", "-m", fake_cluster.address, "abc") == "millstream cancel: Job abc not found"


def test_something_that_is_no_cluster(cli: Any, fake_cluster: Any) -> None:
    fake_cluster.responses["GET /jobs/overview"] = (200, b"<html>")
    assert "is it a Millstream cluster?" in cli.fails("list", "-m", fake_cluster.address)
    fake_cluster.responses["GET /jobs/overview"] = (502, b"oops")
    assert "returned 502 Bad Gateway" in cli.fails("list", "-m", fake_cluster.address)


def test_details_with_v(cli: Any) -> None:
    done = cli("list", "-v", "-m", "127.0.0.1:1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("millstream list: cannot reach")
