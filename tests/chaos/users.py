"""The users of a hosted cluster, and the responses about their jobs: at the end all of them have to be true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from counted_numbers import body, check, counted
from failover_system import SESSION_TIMEOUT
from hosted_cluster import HostedCluster, UnansweredError
from leader_faults import HEARTBEAT_TIMEOUT
from system import ENDED, completed, given, write_job
from waiting import wait_until

RECOVERY = 8 * (HEARTBEAT_TIMEOUT + SESSION_TIMEOUT)
"""Seconds within which a job continues after all faults: a few of either timeout, which may add up."""
_OPTIONS = (
    "execution.checkpointing.interval=300ms",
    "execution.checkpointing.tolerable-failed-checkpoints=1000000",
    "restart-strategy.type=fixed-delay",
    "restart-strategy.fixed-delay.attempts=1000000",
    "restart-strategy.fixed-delay.delay=100ms",
    "restart-strategy.same-error-limit=0",
)


class Job:
    """A job, with the outcome that its user was given."""

    def __init__(self, name: str, lanes: int, folder: Path) -> None:
        self.name = name
        self.lanes = lanes
        self.folder = folder
        self.id = ""
        self.ends: tuple[str, ...] = ()
        """The states that it may end in; empty while it was not ended."""
        self.stops: list[Path] = []
        """The locations of savepoints of completed stops, or of stops whose outcome is unknown."""


class Users:
    """Used by one thread at a time."""

    def __init__(self, cluster: HostedCluster, folder: Path, log: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._log = log
        self.jobs: list[Job] = []
        (folder / "program").mkdir()  # its own, since everything beside a program is shipped with it
        self._script = write_job(folder / "program", "counting", body(300, "on_checkpoint_rolling_policy()"))

    # Actions

    def submit(self, lanes: int = 1) -> Job:
        """A submission that fails may have been accepted or not."""
        job = Job(f"job {len(self.jobs)}", lanes, self._folder / str(len(self.jobs)))
        self.jobs.append(job)
        options = given(*_OPTIONS, f"execution.checkpointing.dir={job.folder / 'checkpoints'}")
        how = ("--configDir", str(self._cluster.directory / "conf"), "-d", "-p", str(lanes), *options)
        program = (str(self._script), str(job.folder / "output"), job.name)
        done = self._cluster.cli("run", *how, *program, check=False, deadline=RECOVERY)
        if done.returncode == 0:
            job.id = done.stdout.split("JobID", 1)[1].split()[0]
        self._log(f"{job.name}: {job.id or 'not accepted: ' + done.stderr[-300:]}")
        return job

    def cancel(self, job: Job) -> None:
        """Repeated until there is a response."""

        def result() -> tuple[int, Any] | None:
            try:
                return self._cluster.request("PATCH", f"/jobs/{job.id}?mode=cancel")
            except UnansweredError:
                return None

        status, response = wait_until(result, f"{job.name} to be cancelled", RECOVERY)
        self._log(f"cancel of {job.name}: {status} {response}")
        has_ended = status == 409 and any(f"already {state}" in str(response) for state in ("CANCELED", "FINISHED"))
        assert status == 202 or has_ended, f"{job.name}: {status} {response}"  # by this request, if a response was lost
        job.ends = ("CANCELED", "FINISHED") if job.stops else ("CANCELED",)

    def stop(self, job: Job) -> bool:
        """Returns whether the response confirmed the stop."""
        trigger = uuid4().hex
        job.stops.append(job.folder / f"savepoints-{trigger}")
        done = self._savepoint(job, "stop", trigger, {"targetDirectory": str(job.stops[-1]), "drain": True})
        if done:
            job.ends = ("FINISHED",)
        return done

    def take_savepoint(self, job: Job) -> None:
        """Whatever its outcome is."""
        trigger = uuid4().hex
        self._savepoint(job, "savepoints", trigger, {"target-directory": str(job.folder / f"savepoints-{trigger}")})

    def _savepoint(self, job: Job, how: str, trigger: str, wanted: dict[str, Any]) -> bool:
        def outcome() -> str | None:
            try:
                wanted["triggerId"] = trigger
                status, response = self._cluster.request("POST", f"/jobs/{job.id}/{how}", wanted)
                if status != 202:
                    return f"{status} {response}"
                status, response = self._cluster.request("GET", f"/jobs/{job.id}/savepoints/{trigger}")
            except UnansweredError:
                return None
            if status != 200 or response["status"]["id"] != "COMPLETED":
                return None
            return str(response["operation"])

        text = str(wait_until(outcome, f"the {how} of {job.name} to be done", 2 * RECOVERY))
        self._log(f"{how} of {job.name}: {text[-300:]}")
        return "'location'" in text

    # Requirements

    def seconds_until_progress(self, job: Job) -> float:
        """Returns when a checkpoint has completed that began after this call, with the seconds that this took."""
        begun = time.time()

        def is_complete() -> bool:
            latest = self._cluster.get(f"/jobs/{job.id}/checkpoints")["latest"]["completed"]
            return latest is not None and latest["trigger_timestamp"] > begun * 1000

        wait_until(is_complete, f"a checkpoint of {job.name} ({job.id})", RECOVERY)
        return time.time() - begun

    def check_outcomes(self, hint: str) -> None:
        """After all faults: jobs not ended yet continue; then all are ended, and have had the right effect."""
        found = self._jobs_by_name()
        for job in self.jobs:
            ids = found.get(job.name, [])
            text = f"{job.name}, reported as {job.id or 'nothing'}, is {ids}, {hint}"
            assert len(ids) == 1 or (not ids and not job.id), text
            if not job.id and ids:
                job.id = ids[0]
                self.cancel(job)
        accepted = [job for job in self.jobs if job.id]
        for job in accepted:
            if not job.ends and job.stops and self._cluster.state(job.id) == "FINISHED":
                job.ends = ("FINISHED",)  # which its user was text is possible
            if not job.ends:
                self._log(f"{job.name} continues after {self.seconds_until_progress(job):.1f} s")
                assert self.stop(job), f"{job.name} cannot be stopped, {hint}"
        for job in accepted:
            end = self._cluster.wait_for(job.id, *ENDED, deadline=RECOVERY)
            assert end in job.ends, f"{job.name} is {end}, {hint}"
            if end == "FINISHED":
                done = [savepoint for savepoint in job.stops if completed(savepoint)]
                assert done, f"{job.name} has no savepoint, {hint}"
                check(job.folder / "output", counted(done[-1]), job.lanes, f"{job.name}, {hint}")

    def _jobs_by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for job in self._cluster.get("/jobs/overview")["jobs"]:
            found.setdefault(job["name"], []).append(job["jid"])
        return found
