"""`millstream logs`: which files are meant, their last lines, and following them."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner

from millstream.cli.job_names import job_named
from millstream.cli.log_reader import follow, last_events, last_lines
from millstream.cli.log_sources import LOGS, PRINTS, LogSource, sources_of
from millstream.cli.logs import logs
from millstream.cli.rest import RestError
from millstream.cli.since import moment_since
from millstream.core.errors import MillstreamError, UnreachableError
from millstream.core.logs.log_events import LogFilter
from millstream.core.logs.log_lines import Line, as_text
from millstream.core.logs.origins import Origin

JOB = "a" * 32


class FakeClient:
    """Files of two task managers and of the services, by path; `asked` counts the reads."""

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
            "/jobmanagers/dispatcher%40b%3A1/logs/dispatcher-1.log": b"stands by\n",
            "/jobmanagers/jm-1/logs/jobmanager-1.log": b"job manager\n",
            "/jobmanagers/jm-2/logs/jobmanager-7.log": b"another\n",
        }
        self.jobs: list[dict[str, Any]] = []

    def get(self, path: str) -> Any:
        if path == "/taskmanagers":
            return {"taskmanagers": [{"id": "tm-1"}, {"id": "tm-2"}, {"id": "silent"}]}
        if path == "/jobmanagers":
            found = (
                ("dispatcher", "dispatcher", "a"), ("jm-1", "jobmanager", "a"), ("jm-2", "jobmanager", "b"),
                ("dispatcher@b:1", "dispatcher", "b"), ("resourcemanager", "resourcemanager", "a"),
            )  # fmt: skip
            keys = ("id", "role", "address", "standby")
            listed = [(one, role, f"{host}:1", "@" in one) for one, role, host in found]
            return {"jobmanagers": [dict(zip(keys, one, strict=True)) for one in listed]}
        if path.endswith("/logs"):
            names = sorted(name for name in self.files if name.startswith(f"{path}/"))
            return {"logs": [{"name": name.rpartition("/")[2]} for name in names]}
        if path == "/jobs/overview":
            return {"jobs": self.jobs}
        if path == f"/jobs/{'c' * 32}":
            return {}
        raise RestError(f"there is no {path}", 404)

    def get_bytes(self, path: str, part: str) -> tuple[bytes, int, int]:
        if path not in self.files:
            raise RestError("gone", 404)
        content = self.files[path]
        first, _, last = part.removeprefix("bytes=").partition("-")
        start = min(int(first), len(content)) if first else max(0, len(content) - int(last))
        end = int(last) + 1 if first and last else len(content)
        return content[start:end], start, len(content)


def names(client: FakeClient, wanted: str, suffixes: tuple[str, ...] = LOGS) -> list[str]:
    return [source.name for source in sources_of(client, wanted, suffixes)]  # type: ignore[arg-type]  # a fake


def test_the_files_that_a_name_means() -> None:
    client = FakeClient()
    client.files[f"/taskmanagers/tm-1/logs/taskmanager-1.{JOB}.slot-0.log.1"] = b"older"
    assert names(client, JOB) == [
        f"taskmanager-1.{JOB}.slot-0.log", f"taskmanager-1.{JOB}.slot-0.out", f"taskmanager-2.{JOB}.slot-0.log",
        "jobmanager-1.log", "jobmanager-7.log",
    ]  # fmt: skip
    first = sources_of(client, JOB, LOGS)[0]  # type: ignore[arg-type]  # a fake
    assert first.older == [f"{first.name}.1"]
    assert names(client, JOB, PRINTS) == [f"taskmanager-1.{JOB}.slot-0.out"]
    assert names(client, "tm-2") == [f"taskmanager-2.{JOB}.slot-0.log", "taskmanager-2.log"]
    assert names(client, "taskmanager-2") == names(client, "tm-2")
    assert names(client, "jobmanager") == ["jobmanager-1.log", "jobmanager-7.log"]
    assert names(client, "dispatcher-1") == ["dispatcher-1.log"]
    client.files["/jobmanagers/resourcemanager/logs/rm.log"] = b""
    assert names(client, "resourcemanager") == ["rm.log"], "whatever its file is called"
    by_owner = [source.owner for source in sources_of(client, "dispatcher", LOGS)]  # type: ignore[arg-type]  # a fake
    assert by_owner == ["/jobmanager", "/jobmanagers/dispatcher%40b%3A1"]
    (other,) = sources_of(client, "dispatcher@b:1", LOGS)  # type: ignore[arg-type]  # a fake
    assert other.path == "/jobmanagers/dispatcher%40b%3A1/logs/dispatcher-1.log"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("c" * 32, "no task manager has log files of job"),
        ("d" * 32, "there is no /jobs/"),
        ("taskmanager-9", "no task manager taskmanager-9 is registered; there are: tm-1, tm-2, silent"),
        ("silent", "writes no log files: .* env.log.dir"),
        ("resourcemanager", "resourcemanager has no log files"),
        ("nobody", "'nobody' is no job .*, no task manager .tm-1, tm-2, silent.*, and none of dispatcher, jobman"),
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


def test_following_continues_after_a_file_was_rotated() -> None:
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


def test_following_a_job_continues_in_the_slots_that_it_restarts_in(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = FakeClient()
    monkeypatch.setattr("millstream.cli.log_reader._POLL", 0)
    sources = sources_of(client, JOB, LOGS)
    for source in sources:
        last_lines(client, source, 0)
    lines = follow(client, sources, lambda: sources_of(client, JOB, LOGS))
    client.files[f"/taskmanagers/tm-2/logs/taskmanager-2.{JOB}.slot-7.log"] = b"restarted\n"
    assert next(lines) == (sources[-1], b"restarted\n")
    assert len(sources) == 6


def event(second: int, message: str, task: str = "", level: str = "INFO", more: str = "") -> bytes:
    vertex = {"": "", "map": "b" * 32, "sink": "c" * 32}[task]
    origin = Origin(JOB, "my job", vertex, f"{task} (1/2)" if task else "", 0, 0)
    return f"{as_text(Line(second, level, 'worker', 'a', message, origin, more))}\n".encode()


class Shown:
    """What the command shows of a job with two workers that logs, prints, and has a print sink."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client = FakeClient()
        self.first = f"/taskmanagers/tm-1/logs/taskmanager-1.{JOB}.slot-0"
        self.second = f"/taskmanagers/tm-2/logs/taskmanager-2.{JOB}.slot-0"
        restart = as_text(Line(7, "WARNING", "jobmanager", "b", f"job {JOB} (my job): restart 1")).encode()
        other = as_text(Line(7, "WARNING", "jobmanager", "b", f"job {'d' * 32}: not this one")).encode()
        client.files |= {
            f"{self.first}.log.1": event(1, "one", "map"),
            f"{self.first}.log": event(3, "three", "map", "ERROR", "Traceback\nValueError") + event(5, "five"),
            f"{self.first}.out": event(4, "printed", "map") + b"1> of the sink\n",
            f"{self.second}.log": event(2, "two", "sink") + event(6, "six", "sink", "WARNING"),
            "/jobmanager/logs/jobmanager-1.log": restart + b"\n" + other + b"\n",
        }
        monkeypatch.setattr("millstream.cli.rest.RestClient", lambda configuration: client)

    def __call__(self, *arguments: str) -> list[str]:
        done = CliRunner().invoke(logs, [*arguments, JOB], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return [line.rpartition(": ")[2] for line in done.stdout.splitlines()]


def test_events_of_all_files_are_in_order_and_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch)
    all_of_it = ["one", "two", "three", "Traceback", "ValueError", "printed", "five", "six", "restart 1"]
    assert shown() == all_of_it
    assert shown("-n", "2") == ["six", "restart 1"]
    assert shown("-n", "0") == []
    assert shown("--vertex", "map") == ["one", "three", "Traceback", "ValueError", "printed"]
    assert shown("--vertex", "c" * 32) == ["two", "six"]
    assert shown("--vertex", "map", "--level", "error") == ["three", "Traceback", "ValueError"]
    assert shown("--level", "warning") == ["three", "Traceback", "ValueError", "six", "restart 1"]
    assert shown("--since", "1970-01-01T00:00:06+00:00") == ["six", "restart 1"]
    assert shown("--subtask", "1") == []
    assert shown("--out") == ["printed", "1> of the sink"]
    refused = CliRunner().invoke(logs, ["--out", "--level", "INFO", JOB])
    assert (refused.exit_code, "takes no --vertex" in refused.output) == (2, True)


def test_what_follows_is_filtered_with_the_lines_that_belong_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch)
    monkeypatch.setattr("millstream.cli.log_reader._POLL", 0)
    come = [
        (f"{shown.first}.log", event(8, "not this", "sink") + b"nor its rest\n"),
        (f"{shown.first}.log", event(9, "this", "map", more="and this")),
        (f"{shown.first}.out", b"1> of the sink\n" + event(10, "printed", "map") + b"1> again\n"),
        *[(f"{shown.first}.log", b"")] * 8,
    ]
    read = shown.client.get_bytes

    def get_bytes(path: str, part: str) -> tuple[bytes, int, int]:
        if not part.startswith("bytes=-"):  # it is followed
            if not come:
                raise KeyboardInterrupt
            name, content = come.pop(0)
            shown.client.files[name] += content
        return read(path, part)

    monkeypatch.setattr(shown.client, "get_bytes", get_bytes)
    done = CliRunner().invoke(logs, ["-f", "-n", "0", "--vertex", "map", JOB])
    assert [line.rpartition(": ")[2] for line in done.stdout.splitlines()] == ["this", "and this", "printed"]


def test_following_waits_for_a_cluster_that_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = FakeClient()
    monkeypatch.setattr("millstream.cli.log_reader._POLL", 0)
    source = LogSource("/jobmanager", "jobmanager-1.log")
    last_lines(client, source, 0)
    read, away = client.get_bytes, [UnreachableError("cannot reach the cluster")] * 3

    def get_bytes(path: str, part: str) -> tuple[bytes, int, int]:
        if away:
            raise away.pop()
        response: tuple[bytes, int, int] = read(path, part)
        return response

    monkeypatch.setattr(client, "get_bytes", get_bytes)
    client.files["/jobmanager/logs/jobmanager-1.log"] += b"back\n"
    assert next(follow(client, [source])) == (source, b"back\n")
    assert capsys.readouterr().err == "cannot reach the cluster; waiting for it\n"


def test_a_job_is_found_by_its_name_and_by_the_beginning_of_its_id() -> None:
    client: Any = FakeClient()
    client.jobs = [
        {"jid": "1234" + "0" * 28, "name": "old", "start-time": 3, "end-time": 4, "state": "FAILED"},
        {"jid": "1235" + "0" * 28, "name": "twice", "start-time": 1, "end-time": -1, "state": "RUNNING"},
        {"jid": "1236" + "0" * 28, "name": "twice", "start-time": 2, "end-time": 3, "state": "FAILED"},
        {"jid": "2234" + "0" * 28, "name": "both", "start-time": 2, "end-time": -1, "state": "RUNNING"},
        {"jid": "2234" + "1" * 28, "name": "both", "start-time": 2, "end-time": -1, "state": "RUNNING"},
    ]
    assert job_named(client, "old")[:4] == job_named(client, "1234")[:4] == "1234"
    assert job_named(client, "twice")[:4] == "1235"
    assert job_named(client, "A" * 32) == "a" * 32
    assert job_named(client, "123") == "123"
    for several in ("both", "2234"):
        with pytest.raises(MillstreamError, match=r"names several jobs.*22340{28} \(both, RUNNING, .*22341{28} \(both"):
            job_named(client, several)


def test_moments() -> None:
    assert moment_since("10 min", lambda: 1000.0) == 400_000
    assert moment_since("2026-01-31 12:00+00:00") == 1_769_860_800_000
    assert moment_since("1970-01-01") >= 0
    with pytest.raises(click.UsageError, match="--since 'yesterday'"):
        moment_since("yesterday")


def test_last_events_continue_at_the_position_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Shown(monkeypatch)
    client: Any = shown.client
    source = sources_of(client, JOB, LOGS)[0]
    assert [e.line.message for e in last_events(client, source, LogFilter(), 9)] == ["one", "three", "five"]
    assert source.offset == len(client.files[f"{shown.first}.log"])


def test_a_job_that_only_printed_names_the_place_of_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient()
    for name in client.files:
        client.files[name] = b"1> printed\n" if name.endswith(".out") else b""
    monkeypatch.setattr("millstream.cli.rest.RestClient", lambda configuration: client)
    logged = CliRunner().invoke(logs, [JOB])
    assert (logged.stdout, logged.exit_code) == ("", 0)
    assert f"Nothing was logged; `millstream logs --out {JOB}` shows what was printed" in logged.stderr
    filtered = CliRunner().invoke(logs, ["--level", "ERROR", JOB])
    assert "Nothing was logged that passes these filters" in filtered.stderr
    printed = CliRunner().invoke(logs, ["--out", JOB])
    assert (printed.stdout, printed.stderr) == ("1> printed\n", "")
