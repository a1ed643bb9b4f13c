"""A real cluster of separate processes for the system tests, and functions to inspect it."""

from __future__ import annotations

import fnmatch
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ports import free_ports
from processes import command_of, is_alive, processes_with
from waiting import DEADLINE, wait_until

from millstream.core.services.cluster_secret import cluster_secret
from millstream.core.settings.configuration import Configuration

ENDED = ("FINISHED", "FAILED", "CANCELED")
QUICK = {"heartbeat.interval": "500 ms", "task.cancellation.timeout": "3 s", "task.cancellation.interval": "300 ms"}


def files_in(folder: Path, name: str = "*") -> list[Path]:
    """The files in a folder and below it, by a pattern of their names.

    Unlike `rglob`, it tolerates folders that vanish.
    """
    return [Path(at) / found for at, _, files in os.walk(folder) for found in fnmatch.filter(files, name)]


def completed(checkpoints: Path) -> set[str]:
    """The folders of the completed checkpoints."""
    return {file.parent.name for file in files_in(checkpoints, "_metadata.json")}


def highest_counts(folder: Path) -> dict[int, int]:
    """The highest count of each key, by its file: more than without failures if a record counted twice, less if one was
    lost.
    """
    return {int(file.name): max(map(int, file.read_text().split())) for file in folder.iterdir()}


def beginnings(folder: Path) -> set[int]:
    """How often each key was counted from the start: once, unless a restart had no checkpoint to continue from."""
    return {file.read_text().split().count("1") for file in folder.iterdir()}


def given(*options: str) -> list[str]:
    """Options in the form of the command line."""
    return [argument for option in options for argument in ("-D", option)]


def recovering(checkpoints: Path | str, interval: str = "200ms", attempts: int = 20) -> tuple[str, ...]:
    """The options of a job that takes checkpoints, and soon continues from them after a failure."""
    return (
        f"execution.checkpointing.interval={interval}",
        f"execution.checkpointing.dir={checkpoints}",
        "restart-strategy.type=fixed-delay",
        f"restart-strategy.fixed-delay.attempts={attempts}",
        "restart-strategy.fixed-delay.delay=100ms",
    )


class Cluster:
    """A cluster that is started and stopped with the command line, as a user does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rest = ""
        self.ports: dict[str, int] = {}
        self._restarted: list[subprocess.Popen[bytes]] = []

    def start(self, task_managers: int, slots: int, **options: str) -> str:
        """Returns what the command printed."""
        size = ["--taskmanagers", str(task_managers), "--slots", str(slots), "--timeout", str(DEADLINE / 2)]
        self.ports = free_ports()
        wanted = given(*(f"{key}={value}" for key, value in {**self.ports, **options}.items()))
        done = self.cli("cluster", "start", "--dir", str(self.directory), *size, *wanted)
        self.rest = f"127.0.0.1:{self.ports['rest.port']}"
        return done.stdout

    def stop(self) -> None:
        try:
            self.cli("cluster", "stop", "--dir", str(self.directory), "--timeout", str(DEADLINE / 2))
        finally:
            for process in self._restarted:
                process.kill()
                process.wait()

    def cli(self, *arguments: str, check: bool = True, deadline: float = DEADLINE) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "millstream.cli.main", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
        if check and done.returncode:
            raise AssertionError(f"{arguments} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    def run(self, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.cli("run", "-m", self.rest, *arguments, **more)

    def submit(self, job: Path, *flags: str, parallelism: int = 1, arguments: tuple[str, ...] = ()) -> str:
        """Submits detached, with arguments for the program; returns the job's id."""
        done = self.run("-d", "-p", str(parallelism), *flags, str(job), *arguments)
        return done.stdout.split("JobID", 1)[1].split()[0]

    def submit_running(self, job: Path, *flags: str, **more: Any) -> str:
        """The same; waits until all its tasks have started."""
        job_id = self.submit(job, *flags, **more)
        self.wait_for(job_id, "RUNNING")
        return job_id

    def exceptions(self, job_id: str) -> list[dict[str, Any]]:
        """The exceptions of the job, the latest first."""
        return list(self.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"])

    def cancel(self, job_id: str) -> None:
        """Cancels as a user does; returns when the job is cancelled."""
        self.cli("cancel", "-m", self.rest, job_id)
        self.wait_for(job_id, "CANCELED")

    @property
    def security(self) -> Configuration:
        """The options with which clients of this test are authorized."""
        file = self.directory / "conf" / "cluster.secret"
        return Configuration({"security.cluster.secret-file": file} if file.exists() else {})

    @property
    def authorization(self) -> dict[str, str]:
        """The header that authorizes requests; none if there is no secret."""
        secret = cluster_secret(self.security)
        return {} if secret is None else {"Authorization": f"Bearer {secret.rest_token('submit')}"}

    def get(self, path: str) -> Any:
        request = urllib.request.Request(f"http://{self.rest}{path}", headers=self.authorization)
        with urllib.request.urlopen(request, timeout=DEADLINE) as response:
            return json.load(response)

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> tuple[int, Any]:
        headers = {"Content-Type": kind, **self.authorization}
        request = urllib.request.Request(f"http://{self.rest}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def upload(self, wheel: Path) -> tuple[int, Any]:
        boundary = "millstream-boundary"
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{wheel.name}"\r\n'
        body = (head + "Content-Type: application/octet-stream\r\n\r\n").encode() + wheel.read_bytes()
        form = body + f"\r\n--{boundary}--\r\n".encode()
        return self.request("POST", "/jars/upload", form, f"multipart/form-data; boundary={boundary}")

    def state(self, job_id: str) -> str:
        return str(self.get(f"/jobs/{job_id}")["state"])

    def wait_for(self, job_id: str, *states: str, deadline: float = DEADLINE) -> str:
        """Waits for one of the states; another terminal state ends the wait with the job's exceptions.

        A job counts as RUNNING here when all its tasks have started: before, no savepoint can be taken.
        """

        def reached() -> str | None:
            job = self.get(f"/jobs/{job_id}")
            state = str(job["state"])
            tasks = [state for vertex in job["vertices"] for state, count in vertex["tasks"].items() if count]
            starting = set(tasks) - {"RUNNING", "FINISHED"}
            if state in states and not (state == "RUNNING" and starting):
                return state
            if state in ENDED:
                raise AssertionError(f"job is {state}, not {states}: {self.get(f'/jobs/{job_id}/exceptions')}")
            return None

        return str(wait_until(reached, f"job {job_id} to be {states}", deadline))

    def records(self, job_id: str, metric: str = "read-records") -> int:
        return sum(v["metrics"][metric] for v in self.get(f"/jobs/{job_id}")["vertices"])

    def task_managers_of(self, job_id: str) -> list[str]:
        """The task managers of the subtasks of the job's first vertex."""
        vertex = self.get(f"/jobs/{job_id}")["vertices"][0]["id"]
        return [s["taskmanager-id"] for s in self.get(f"/jobs/{job_id}/vertices/{vertex}")["subtasks"]]

    def attempts(self, job_id: str) -> list[int]:
        """The current attempt of each subtask, from 0."""
        vertices = [vertex["id"] for vertex in self.get(f"/jobs/{job_id}")["vertices"]]
        details = [self.get(f"/jobs/{job_id}/vertices/{vertex}") for vertex in vertices]
        return [subtask["attempt"] for vertex in details for subtask in vertex["subtasks"]]

    def wait_for_checkpoint(self, job_id: str) -> None:
        """Returns when a checkpoint has completed that was triggered after this call, and so contains everything before
        it.
        """
        now = time.time() * 1000

        def is_complete() -> bool:
            latest = self.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
            return latest is not None and latest["trigger_timestamp"] > now

        wait_until(is_complete, "another checkpoint")

    def wait_for_restart(self, job_id: str, before: int = 0) -> None:
        """Waits until every subtask has had an attempt after this one, whether the restart is over or not."""
        wait_until(lambda: min(self.attempts(job_id)) > before, f"all tasks of job {job_id} to be started again")

    def lose_a_worker(self, job_id: str) -> None:
        """Kills a slot worker of this job, the only running one; returns when all its tasks have new attempts."""
        before = max(self.attempts(job_id))
        self.kill(wait_until(self.workers, "a slot worker")[0])
        self.wait_for_restart(job_id, before)

    def restart(self, service: str) -> None:
        """Kills a daemon and starts it again directly, with the cluster's configuration. `stop` ends it, too."""
        victim = self.service_pids(service)[0]
        self.kill(victim)
        wait_until(lambda: not is_alive(victim), f"the old {service} to be gone, and its ports free")
        self.start_another(service)

    def start_another(self, service: str, *options: str) -> None:
        """Starts a daemon directly, with the cluster's configuration and other options. `stop` ends it, too."""
        folder = str(self.directory / "conf")
        command = [sys.executable, "-m", "millstream.cli.main", service, "--configDir", folder, *given(*options)]
        member = {**os.environ, "MILLSTREAM_CLUSTER_MEMBER": str(self.directory)}
        again = subprocess.Popen(command, env=member, stderr=subprocess.DEVNULL, start_new_session=True)
        self._restarted.append(again)

    def free_slots(self) -> int:
        return int(self.get("/overview")["slots-available"])

    def workers(self) -> list[int]:
        """The pids of the slot workers of this cluster."""
        return sorted(self._members() & set(processes_with("millstream.taskmanager.worker.main")))

    def enumerators(self) -> list[int]:
        """The pids of the processes that run the enumerators of this cluster's jobs."""
        return sorted(self._members() & set(processes_with("millstream.jobmanager.sources.enumerators")))

    def service_pids(self, name: str) -> list[int]:
        """The pids of one kind of daemon."""
        commands = {pid: command_of(pid) for pid in self._members()}
        return sorted(pid for pid, line in commands.items() if name in line.split()[-30:] and "worker" not in line)

    def _members(self) -> set[int]:
        return set(processes_with(f"MILLSTREAM_CLUSTER_MEMBER={self.directory}\0"))

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(pid, number)

    def clear(self) -> None:
        """Cancels all remaining jobs; returns when nothing of any job is left."""
        for job in self.get("/jobs/overview")["jobs"]:
            if job["state"] not in ENDED:
                self.request("PATCH", f"/jobs/{job['jid']}?mode=cancel")

        def is_empty() -> bool:
            overview = self.get("/overview")
            return overview["slots-available"] == overview["slots-total"] > 0 and not self.workers()

        wait_until(is_empty, "slots and workers of all jobs to be free and gone")


@contextmanager
def running_cluster(directory: Path, task_managers: int, slots: int, **options: str) -> Iterator[Cluster]:
    """A cluster that is stopped on every path, without leftovers."""
    cluster = Cluster(directory)
    try:
        cluster.start(task_managers, slots, **options)
        yield cluster
    finally:
        cluster.stop()
    wait_until(lambda: not processes_with(str(cluster.directory)), "every process of the cluster to be gone")


def write_job(folder: Path, name: str, body: str) -> Path:
    """A job script whose environment is `env`."""
    path = folder / f"{name}.py"
    head = """
    from millstream.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    """
    path.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return path
