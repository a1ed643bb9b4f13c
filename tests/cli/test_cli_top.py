"""`millstream top`: what the figures mean, what is drawn of them, and what keys do."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from waiting import DEADLINE

from millstream.cli.rest import RestError
from millstream.cli.top import cells
from millstream.cli.top.command import top
from millstream.cli.top.figures import METRICS, VertexFigures, vertex_figures
from millstream.cli.top.keys import Key, decoded
from millstream.cli.top.reader import read
from millstream.cli.top.screen import Screen

JOB, OTHER = "a" * 32, "b" * 32
SOURCE, SINK = "1" * 32, "2" * 32
NOW = 1_000_000


def metric(name: str, value: float) -> dict[str, Any]:
    return {"id": name, "min": value, "max": value, "avg": value, "sum": value * 2}


class FakeClient:
    """A cluster with a job that runs and one that failed."""

    def __init__(self) -> None:
        task = {"running": 3, "total": 4}
        job = {"end-time": -1, "duration": 61_000, "tasks": task, "message": "", "restarts": 2, "last-failure": "bad"}
        overview = [
            {**job, "jid": JOB, "name": "orders", "state": "RUNNING", "start-time": 1},
            {**job, "jid": OTHER, "name": "old", "state": "FAILED", "start-time": 2, "end-time": 9},
        ]
        vertices = [
            {"id": SOURCE, "name": "Source: in", "status": "RUNNING", "tasks": {"RUNNING": 1}, "parallelism": 2},
            {"id": SINK, "name": "sink", "status": "RUNNING", "tasks": {"RUNNING": 2}, "parallelism": 2},
        ]
        last = {"latest_ack_timestamp": 5, "end_to_end_duration": 1500, "checkpointed_size": 2_000_000}
        checkpoints = {"counts": {"completed": 7, "failed": 1, "in_progress": 1}, "latest": {"completed": last}}
        plan = {"nodes": [{"id": SOURCE}, {"id": SINK, "inputs": [{"id": SOURCE}]}]}
        query = f"subtasks/metrics?get={','.join(METRICS)}&agg=sum,min,max,avg"
        self.responses: dict[str, Any] = {
            "/overview": {"taskmanagers": 1, "slots-total": 4, "slots-available": 1},
            "/jobs/overview": {"jobs": overview},
            f"/jobs/{JOB}": {"now": NOW, "vertices": vertices, "plan": plan},
            f"/jobs/{JOB}/checkpoints": checkpoints,
            f"/jobs/{JOB}/vertices/{SOURCE}/{query}": [
                metric("numRecordsOutPerSecond", 1234.5), {**metric("busyTimeMsPerSecond", 170), "max": 330},
                metric("backPressuredTimeMsPerSecond", 820), metric("currentOutputWatermark", NOW - 2500),
            ],
            f"/jobs/{JOB}/vertices/{SINK}/{query}": [
                metric("numRecordsInPerSecond", 100), metric("numRecordsOutPerSecond", 7),
            ],
        }  # fmt: skip

    def get(self, path: str) -> Any:
        if path not in self.responses:
            raise RestError(f"there is no {path}", 404)
        return self.responses[path]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    client = FakeClient()
    monkeypatch.setattr("millstream.cli.rest.RestClient", lambda configuration: client)
    return client


def test_figures_of_a_job(client: Any) -> None:
    (job,) = read(client, JOB).jobs
    source, sink = job.vertices
    assert source == VertexFigures(
        SOURCE, "Source: in", "RUNNING", 1, 2, None, 2469.0, 17.0, None, 82.0, 33.0, watermark_lag_ms=2500
    )
    assert sink == VertexFigures(SINK, "sink", "RUNNING", 2, 2, 200.0, 14.0)
    client.responses = {path: found for path, found in client.responses.items() if f"/vertices/{SINK}/" not in path}
    assert read(client, JOB).jobs[0].vertices[1] == VertexFigures(SINK, "sink", "RUNNING", 2, 2), "none measured yet"
    assert [j.id for j in read(client).jobs] == [JOB]
    assert [j.id for j in read(client, with_ended=True).jobs] == [JOB, OTHER]


@pytest.mark.parametrize("watermark", [-(2**63), 2**63 - 1, float("nan")])
def test_no_event_time_is_no_lag(watermark: float) -> None:
    vertex = {"id": SINK, "name": "sink", "status": "RUNNING", "tasks": {"RUNNING": 2}, "parallelism": 2}
    assert vertex_figures(vertex, [metric("currentInputWatermark", watermark)], NOW).watermark_lag_ms is None


def test_without_a_terminal_it_is_printed_once(client: Any) -> None:
    jobs = CliRunner().invoke(top, [], catch_exceptions=False).stdout.splitlines()
    assert jobs[0] == "1 task manager, 3 of 4 slots used, 1 job shown"
    assert jobs[2].split() == ["orders", "RUNNING", "3/4", "2.5k", "200", "2", "1", "min", "01", "s", JOB, "bad"]
    vertices = CliRunner().invoke(top, ["orders"], catch_exceptions=False).stdout.splitlines()
    assert vertices[3] == "checkpoints: 7 completed, 1 failed, 1 in progress; the last took 1.5 s and has 2.0 MB"
    assert " ".join(vertices[5].split()) == "Source: in RUNNING 1/2 - 2.5k 17 % - 82 % 33 % 2.5 s"
    shown = json.loads(CliRunner().invoke(top, ["--json", JOB]).stdout)
    assert shown["jobs"][0]["vertices"][0]["backpressured"] == 82.0
    assert shown["jobs"][0]["checkpoints"]["last_duration_ms"] == 1500


def test_keys_choose_a_job_and_lead_back(client: Any) -> None:
    screen = Screen()

    def drawn() -> str:
        console = Console(file=io.StringIO(), width=200)
        console.print(screen.drawn(read(client, screen.job_id, with_ended=True)))
        return console.file.getvalue()  # type: ignore[attr-defined]  # what it was made with

    assert "orders" in drawn()
    assert screen.press(Key.DOWN)
    assert screen.press(Key.DOWN)
    assert screen.chosen == 1
    assert screen.press(Key.UP)
    assert screen.press(Key.ENTER)
    assert screen.job_id == JOB
    assert "Source: in" in drawn()
    assert screen.press(Key.ENTER), "of a vertex, nothing more is shown"
    assert screen.press(Key.BACK)
    assert "Source: in" not in drawn()
    assert not screen.press(Key.BACK)
    assert not screen.press(Key.QUIT)
    assert not Screen(JOB).press(Key.BACK)


@pytest.mark.parametrize("job_id", ["", JOB])
def test_at_80_columns_figures_are_whole(client: Any, job_id: str) -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(Screen(job_id).drawn(read(client, job_id, with_ended=True), width=80))
    shown = console.file.getvalue().split()  # type: ignore[attr-defined]  # what it was made with
    figures = ["BACKPRESSURED", "82", "2.5k", "1/2"] if job_id else ["RUNNING", "3/4", "2.5k", JOB[:8]]
    assert set(figures) <= set(shown)


def test_what_a_terminal_sends() -> None:
    assert decoded(b"\x1b[A\x1b[Bx\r\x7fq") == [Key.UP, Key.DOWN, Key.ENTER, Key.BACK, Key.QUIT]
    assert decoded(b"\x1b") == [Key.BACK]
    assert decoded(b"\x1b[Z") == []


def test_the_rates_of_a_job_are_those_at_its_ends(client: Any) -> None:
    (job,) = read(client).jobs
    assert (job.records_in, job.records_out) == (2469.0, 200.0), "what comes between them counts for neither"
    client.responses[f"/jobs/{JOB}"]["plan"]["nodes"][1]["inputs"] = []
    (job,) = read(client).jobs
    assert (job.records_in, job.records_out) == (2483.0, 200.0), "two vertices that each are a source and a sink"


@pytest.mark.parametrize(
    ("shares", "shown"),
    [
        ((90.2, 25.0, 20.0), (67, 18, 15)),
        ((33.4, 33.3, 33.3), (34, 33, 33)),
        ((99.6, 0.6, 0.6), (99, 1, 0)),
        ((12.0, 70.0, 14.9), (13, 72, 15)),
        ((100.0, 100.0, 100.0), (34, 33, 33)),
        ((1.0, 2.0, 3.0), (1, 2, 3)),
        ((0.0, 0.0, 0.0), (0, 0, 0)),
        ((17.0, None, 82.0), (17, None, 82)),
        ((None, None, None), (None, None, None)),
    ],
)
def test_shares_of_time_add_up_to_no_more_than_all_of_it(
    shares: tuple[float | None, ...], shown: tuple[int | None, ...]
) -> None:
    assert cells.percents(*shares) == ["-" if share is None else f"{share} %" for share in shown]


@pytest.mark.parametrize(("number", "text"), [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs"), (11, "11 jobs")])
def test_counts(number: int, text: str) -> None:
    assert cells.counted(number, "job") == text


def test_rates() -> None:
    assert [cells.rate(n) for n in (None, 0, 0.25, 99.94, 120, 45_120, 999_949, 999_950, 2.3e6)] == [
        "-", "0", "0.2", "99.9", "120", "45.1k", "999.9k", "1.0M", "2.3M",
    ]  # fmt: skip


_HELP = """
import json, sys
from millstream.cli.main import main
for command in ([], ["top"], ["logs"]):
    assert main([*command, "--help"]) == 0
print(json.dumps(sorted({"rich", "grpc", "pyarrow", "numpy", "termios"} & set(sys.modules))))
"""


@pytest.mark.process
def test_help_loads_nothing_that_is_drawn_with() -> None:
    done = subprocess.run([sys.executable, "-c", _HELP], capture_output=True, text=True, check=True, timeout=DEADLINE)
    assert json.loads(done.stdout.splitlines()[-1]) == []


@pytest.mark.parametrize("width", [90, 110, 130, 200])
def test_a_job_id_is_whole_or_short_and_never_cut_off(client: Any, width: int) -> None:
    job = client.responses["/jobs/overview"]["jobs"][0]
    job["name"] = "a long name of a job " * 4
    job["tasks"] = job["tasks"] | {"running": 1000, "total": 1000}
    job["state"] = "RESTARTING"
    console = Console(file=io.StringIO(), width=width)
    console.print(Screen().drawn(read(client, "", with_ended=True), width=width))
    row = next(line for line in console.file.getvalue().splitlines() if "RESTARTING" in line)  # type: ignore[attr-defined]
    assert {JOB, JOB[:8]} & set(row.split())
    assert "1000/1000" in row
