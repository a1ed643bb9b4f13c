"""`millstream standalone-job`: a program and a cluster of its own in one process, and how it ends."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from ports import free_ports
from processes import kill_those_with, processes_with
from waiting import DEADLINE, wait_until
from wheels import write_wheel

from millstream.cli.programs.application import outcome
from millstream.core.jobs.states import JobStatus

HEAD = """
import time
from millstream.datastream import StreamExecutionEnvironment

def endless(x):
    while True:
        time.sleep(0.05)

def main(arguments):
    env = StreamExecutionEnvironment.get_execution_environment()
"""
TWICE = f"""{HEAD}
    for text in arguments:
        env.from_collection([text]).map(lambda x: x.upper()).print()
        env.execute(text)
        print("ended", text, flush=True)
"""
ENDLESS = f"""{HEAD}
    env.from_collection([1]).map(endless).print()
    env.execute("endless")
"""
FAILING = ENDLESS.replace("endless(x):", "endless(x):\n    raise ValueError('no good')")
ABANDONED = f"""{HEAD}
    env.from_collection([1]).map(endless).print()
    env.execute_async("abandoned")
    raise SystemExit("that is all")
"""


class Applications:
    """Starts them on ports of their own, each with a task manager unless it is to come later."""

    def __init__(self, cli: Any) -> None:
        self.cli = cli
        self.ports = free_ports()
        self.options = [f"-D{key}={port}" for key, port in self.ports.items()]
        self.rest = f"127.0.0.1:{self.ports['rest.port']}"

    def start(self, program: str, *arguments: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        wheel = write_wheel(self.cli.home, {"tinyjob.py": program}, entry="tinyjob:main")
        provider = "-Dresourcemanager.provider=process"
        return self.cli.start("standalone-job", *self.options, provider, *options, wheel.name, *arguments)

    def fetch(self, path: str) -> Any:
        """None while nothing responds."""
        with contextlib.suppress(urllib.error.URLError), urllib.request.urlopen(f"http://{self.rest}{path}") as got:
            return json.load(got)

    def running_job(self) -> Any:
        def running() -> Any:
            jobs = (self.fetch("/jobs/overview") or {"jobs": []})["jobs"]
            return next((job for job in jobs if job["state"] == "RUNNING" and job["tasks"]["running"]), None)

        return wait_until(running, "a running job")


@pytest.fixture
def applications(cli: Any) -> Iterator[Applications]:
    try:
        yield Applications(cli)
    finally:
        kill_those_with(str(cli.home))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit status, and what it printed."""
    output, errors = process.communicate(timeout=DEADLINE)
    return process.returncode, output, errors


@pytest.mark.process
def test_runs_the_jobs_of_its_program_one_after_the_other_on_task_managers_that_register(
    applications: Applications,
) -> None:
    standalone = "-Dresourcemanager.provider=standalone"
    application = applications.start(TWICE, "one", "two", options=(standalone,))
    workers = applications.cli.start("taskmanager", *applications.options)
    status, output, errors = ended(application)
    assert status == 0, errors
    results = [line for line in output.splitlines() if not line.startswith("Job has been submitted")]
    assert results == ["ended one", "ended two"]
    assert "the application has FINISHED" in errors
    workers.terminate()
    _, printed, _ = ended(workers)
    assert [line for line in printed.splitlines() if line in ("ONE", "TWO")] == ["ONE", "TWO"]


@pytest.mark.process
def test_ends_with_the_failure_of_its_job_or_of_its_program(applications: Applications) -> None:
    status, _, errors = ended(applications.start(FAILING))
    assert status == 1
    assert "ValueError: no good" in errors
    assert "the application has FAILED" in errors
    status, output, errors = ended(applications.start(TWICE, "one", "two", options=("--job-id", "a" * 32)))
    assert status == 1
    assert f"Job has been submitted with JobID {'a' * 32}" in output
    assert "ended one" in output
    assert "can have no second one" in errors
    assert processes_with(str(applications.cli.home)) == []


@pytest.mark.process
def test_takes_no_other_jobs_and_cancelling_its_own_is_no_failure(applications: Applications) -> None:
    application = applications.start(ENDLESS, options=("--job-id", "b" * 32, "-p", "2"))
    assert applications.running_job()["jid"] == "b" * 32
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{applications.rest}/jars")
    assert "accepts no others" in applications.cli.fails("run", "-m", applications.rest, "tinyjob-1.0-py3-none-any.whl")
    assert applications.cli("cancel", "-m", applications.rest, "b" * 32).returncode == 0
    status, _, errors = ended(application)
    assert (status, "the application was CANCELED" in errors) == (0, True), errors
    assert processes_with(str(applications.cli.home)) == []


@pytest.mark.process
def test_a_signal_ends_all_of_it_and_differs_from_the_end_of_the_job(applications: Applications) -> None:
    application = applications.start(ENDLESS)
    applications.running_job()
    application.send_signal(signal.SIGTERM)
    status, _, errors = ended(application)
    assert (status, "stopping standalone-job" in errors) == (143, True), errors
    assert processes_with(str(applications.cli.home)) == []


@pytest.mark.process
def test_a_program_that_fails_leaves_no_job_behind(applications: Applications) -> None:
    status, _, errors = ended(applications.start(ABANDONED))
    assert status == 1
    assert "that is all" in errors
    assert "cancelling job " in errors
    assert processes_with(str(applications.cli.home)) == []


@pytest.mark.process
def test_what_cannot_be_run_is_refused_at_once(cli: Any) -> None:
    assert cli.fails("standalone-job", "--job-id", "mine", "job.whl", status=2) == (
        "millstream standalone-job: --job-id 'mine' is not a job id; it has 32 hexadecimal digits"
    )
    assert cli.fails("standalone-job", "job.whl") == "millstream standalone-job: no such file: job.whl"


@pytest.mark.parametrize(
    ("status", "jobs", "expected"),
    [
        (0, [JobStatus.FINISHED, JobStatus.FINISHED], 0),
        (0, [JobStatus.FINISHED, JobStatus.CANCELED], 0),
        (0, [JobStatus.CANCELED, JobStatus.FAILED], 1),
        (1, [JobStatus.FAILED], 1),
        (1, [JobStatus.CANCELED], 0),
        (1, [JobStatus.FINISHED], 1),
        (1, [JobStatus.CANCELED, JobStatus.FAILED], 1),
        (3, [JobStatus.CANCELED], 3),
        (-9, [JobStatus.RUNNING], 137),
        (1, [], 1),
    ],
)
def test_the_exit_status_of_an_application(status: int, jobs: list[JobStatus], expected: int) -> None:
    assert outcome(status, jobs).status == expected


@pytest.mark.process
def test_the_next_process_of_a_highly_available_application_continues_its_job(
    applications: Applications, tmp_path: Any
) -> None:
    available = ("-Dhigh-availability.type=file", f"-Dhigh-availability.storageDir={tmp_path / 'shared'}")
    first = applications.start(ENDLESS, options=available)
    job_id = applications.running_job()["jid"]
    first.send_signal(signal.SIGKILL)
    first.communicate(timeout=DEADLINE)
    second = applications.start(ENDLESS, options=available)
    assert applications.running_job()["jid"] == job_id
    assert len(applications.fetch("/jobs/overview")["jobs"]) == 1, "the program has found it, and not made another"
    assert applications.cli("cancel", "-m", applications.rest, job_id).returncode == 0
    status, _, errors = ended(second)
    assert (status, "the application was CANCELED" in errors) == (0, True), errors

    status, output, errors = ended(applications.start(TWICE, "late", options=available))
    assert (status, "ended late" in output) == (0, False), "one that is over is not run again"
    assert f"Job {job_id} was submitted by an earlier process" in errors
    another = (*available, "-Dhigh-availability.cluster-id=another")
    status, output, errors = ended(applications.start(TWICE, "new", options=another))
    assert (status, "ended new" in output) == (0, True), errors
