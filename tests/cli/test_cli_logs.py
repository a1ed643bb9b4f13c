"""`millstream logs`: which files are meant, their last lines, and following them."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from millstream.cli.log_reader import LogSource, follow, last_lines, sources_of
from millstream.cli.logs import logs
from millstream.cli.rest import RestError
from millstream.core.errors import MillstreamError

JOB = "a" * 32


class FakeClient:
    """Files of two task managers and of the services, by path; `asked` counts what is read."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            f"/taskmanagers/tm-1/logs/taskmanager-1.{JOB}.slot-0.log": b"one\ntwo\nthree\n",
            f"/taskmanagers/tm-1/logs/taskmanager-1.{JOB}.slot-0.out": b"1> printed\n",
            f"/taskmanagers/tm-1/logs/taskmanager-1.{'b' * 32}.slot-1.log": b"another job\n",
            "/taskmanagers/tm-1/logs/taskmanager-1.log": b"task manager\n",
            f"/taskmanagers/tm-2/logs/taskmanager-2.{JOB}.slot-0.log": b"second\n",
            "/taskmanagers/tm-2/logs/taskmanager-2.log": b"task manager\n",
            "/jobmanager/logs/jobmanager-1.log": b"job manager\n",
            "/jobmanager/logs/dispatcher-1.log": b"dispatcher\n",
        }

    def get(self, path: str) -> Any:
        if path == "/taskmanagers":
            return {"taskmanagers": [{"id": "tm-1"}, {"id": "tm-2"}, {"id": "silent"}]}
        if path.endswith("/logs"):
            names = sorted(name for name in self.files if name.startswith(f"{path}/"))
            return {"logs": [{"name": name.rpartition("/")[2]} for name in names]}
        if path == f"/jobs/{'c' * 32}":
            return {}
        raise RestError(f"there is no {path}", 404)

    def get_bytes(self, path: str, part: str) -> tuple[bytes, int, int]:
        if path not in self.files:
            raise RestError("gone", 404)
        content = self.files[path]
        first, _, last = part.removeprefix("bytes=").partition("-")
        start = min(int(first), len(content)) if first else max(0, len(content) - int(last))
        return content[start:], start, len(content)


def names(client: FakeClient, wanted: str, suffix: str = ".log") -> list[str]:
    return [source.name for source in sources_of(client, wanted, suffix)]  # type: ignore[arg-type]  # a fake


def test_the_files_that_a_name_means() -> None:
    client = FakeClient()
    assert names(client, JOB) == [f"taskmanager-1.{JOB}.slot-0.log", f"taskmanager-2.{JOB}.slot-0.log"]
    assert names(client, JOB, ".out") == [f"taskmanager-1.{JOB}.slot-0.out"]
    assert names(client, "tm-2") == [f"taskmanager-2.{JOB}.slot-0.log", "taskmanager-2.log"]
    assert names(client, "taskmanager-2") == names(client, "tm-2")
    assert names(client, "jobmanager") == ["jobmanager-1.log"]
    assert names(client, "dispatcher-1") == ["dispatcher-1.log"]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("c" * 32, "no task manager has log files of job"),
        ("d" * 32, "there is no /jobs/"),
        ("taskmanager-9", "no task manager taskmanager-9 is registered; there are: tm-1, tm-2, silent"),
        ("silent", "writes no log files: .* env.log.dir"),
        ("resourcemanager", "resourcemanager has no log files"),
        ("nobody", "'nobody' is no job id .*, no task manager .tm-1, tm-2, silent.*, and none of dispatcher, jobman"),
    ],
)
def test_what_there_is_no_log_of(wanted: str, reason: str) -> None:
    with pytest.raises(MillstreamError, match=reason):
        names(FakeClient(), wanted)


def test_last_lines() -> None:
    client: Any = FakeClient()
    path = f"/taskmanagers/tm-1/logs/taskmanager-1.{JOB}.slot-0.log"
    source = LogSource("/taskmanagers/tm-1", path.rpartition("/")[2])
    assert last_lines(client, source, 2) == [b"two\n", b"three\n"]
    assert last_lines(client, source, 0) == []
    assert last_lines(client, source, 100) == [b"one\n", b"two\n", b"three\n"]
    client.files[path] = b"".join(b"%d %s\n" % (number, b"x" * 1000) for number in range(1000))
    assert [line.split()[0] for line in last_lines(client, source, 500)] == [b"%d" % n for n in range(500, 1000)]
    assert source.offset == len(client.files[path])


def test_following_goes_on_behind_a_file_that_was_moved_aside() -> None:
    client: Any = FakeClient()
    path = "/jobmanager/logs/jobmanager-1.log"
    source = LogSource("/jobmanager", "jobmanager-1.log")
    last_lines(client, source, 10)
    lines = follow(client, [source])
    client.files[path] += b"more\nhalf"
    assert next(lines) == (source, b"more\n")
    client.files[path] += b" of it\n"
    assert next(lines) == (source, b"half of it\n")
    client.files[f"{path}.1"] = client.files[path] + b"the last\n"
    client.files[path] = b"new\n"
    assert [next(lines)[1], next(lines)[1]] == [b"the last\n", b"new\n"]
    client.files[f"{path}.3"] = client.files[path] + b"last again\n"
    client.files[f"{path}.2"] = b"between, and longer than what was read\n"
    client.files[f"{path}.1"] = b"between\n"
    client.files[path] = b"this one is longer, too\n"
    found = [next(lines)[1].split()[0] for _ in range(4)]
    assert found == [b"last", b"between,", b"between", b"this"]


def test_following_a_job_goes_on_in_the_slots_that_it_restarts_in(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = FakeClient()
    monkeypatch.setattr("millstream.cli.log_reader._POLL", 0)
    sources = sources_of(client, JOB, ".log")
    for source in sources:
        last_lines(client, source, 0)
    lines = follow(client, sources, lambda: sources_of(client, JOB, ".log"))
    client.files[f"/taskmanagers/tm-2/logs/taskmanager-2.{JOB}.slot-7.log"] = b"restarted\n"
    assert next(lines) == (sources[-1], b"restarted\n")
    assert len(sources) == 3


def test_a_job_that_only_printed_says_where_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient()
    for name in client.files:
        client.files[name] = b"1> printed\n" if name.endswith(".out") else b""
    monkeypatch.setattr("millstream.cli.rest.RestClient", lambda configuration: client)
    logged = CliRunner().invoke(logs, [JOB])
    assert (logged.stdout, logged.exit_code) == ("", 0)
    assert f"Nothing was logged; `millstream logs --out {JOB}` shows what was printed" in logged.stderr
    printed = CliRunner().invoke(logs, ["--out", JOB])
    assert (printed.stdout, printed.stderr) == ("1> printed\n", "")
