"""What `cluster stop` and `cluster start` print of the jobs, by the reports of job managers."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.cli.cluster.resumed_jobs import jobs_that_lose_tasks, jobs_that_start, jobs_that_stop
from millstream.core.settings.configuration import Configuration

SINCE = 1_000


def job(state: str, **more: Any) -> dict[str, Any]:
    about = {"jid": "j1", "name": "orders", "state": state, "start-time": 0, "end-time": -1, "last-failure": None}
    return about | {"resumption": None, "restore-point": None, "resumed": None, "resumed-from": None} | more


def printed(fake_cluster: Any, about: dict[str, Any], starts: bool) -> str:
    fake_cluster.responses["GET /jobs/overview"] = (200, {"jobs": [about]})
    fake_cluster.responses["GET /jobs/j1/checkpoints"] = (200, {"latest": {"completed": None}})
    host, port = fake_cluster.address.split(":")
    configuration = Configuration({"rest.address": host, "rest.port": port})
    lines = jobs_that_start(configuration, SINCE, 0, lambda _: None) if starts else jobs_that_stop(configuration)
    (line,) = lines
    return line.removeprefix("Job 'orders' (j1) ")


@pytest.mark.parametrize(
    ("resumption", "restore_point", "words"),
    [
        ("CHECKPOINT", 7, "the next start resumes it from checkpoint 7, or from a later one."),
        ("BEGINNING", None, "by its restart strategy the next start runs it again from the beginning."),
        ("SNAPSHOT", None, "the next start runs it again from the snapshot that it was started from."),
        ("NOT_STARTED", None, "it has not run yet, and the next start starts it."),
        ("NONE", None, "It ends as FAILED at the next start."),
        ("LOST", None, "it is not resumed: the cluster keeps its jobs only while it runs (high-availability.type)."),
        (None, None, "no job manager leads it, so it is not known whether the next start resumes it."),
    ],
)
def test_a_stop_prints_how_the_next_start_resumes_a_job(
    fake_cluster: Any, resumption: str | None, restore_point: int | None, words: str
) -> None:
    about = job("RUNNING", **{"resumption": resumption, "restore-point": restore_point, "resumed": "NOT_STARTED"})
    line = printed(fake_cluster, about, starts=False)
    assert line.startswith("is RUNNING: ")
    assert line.endswith(words)


@pytest.mark.parametrize(
    ("resumed", "resumed_from", "words"),
    [
        ("CHECKPOINT", 7, "is resumed from checkpoint 7."),
        ("BEGINNING", None, "by its restart strategy is run again from the beginning."),
        ("SNAPSHOT", None, "by its restart strategy is run again from the snapshot that it was started from."),
        ("NOT_STARTED", None, "is started: it has not run before."),
    ],
)
def test_a_start_prints_how_a_job_was_resumed_and_not_how_it_would_be_now(
    fake_cluster: Any, resumed: str, resumed_from: int | None, words: str
) -> None:
    report = {"resumption": "CHECKPOINT", "restore-point": 12, "resumed": resumed, "resumed-from": resumed_from}
    assert printed(fake_cluster, job("RUNNING", **report), starts=True).endswith(words)


def test_a_stop_without_a_response_prints_that_the_jobs_are_not_known() -> None:
    configuration = Configuration({"rest.address": "localhost", "rest.port": "1"})
    for lines in (jobs_that_stop(configuration), jobs_that_lose_tasks(configuration)):
        assert lines == ["The REST API at localhost:1 does not respond, so the running jobs are not known."]


def test_a_stop_of_task_managers_prints_the_jobs_that_run(fake_cluster: Any) -> None:
    jobs = [job("RUNNING"), job("FINISHED", jid="j2")]
    fake_cluster.responses["GET /jobs/overview"] = (200, {"jobs": jobs})
    host, port = fake_cluster.address.split(":")
    (line,) = jobs_that_lose_tasks(Configuration({"rest.address": host, "rest.port": port}))
    assert line.startswith(
        "Job 'orders' (j1) is RUNNING: its tasks there are restarted in slots of other task managers"
    )
