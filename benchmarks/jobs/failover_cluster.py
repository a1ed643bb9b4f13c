"""Starts two of each service on one store, kills their leaders in turn under a running job, and reports the effects.

    failover_cluster.py STORE SESSION_TIMEOUT ROUNDS RATE

Reports `failover` for each: the service, the seconds from SIGKILL until another one acts (`acting`), and the longest
time without a result meanwhile (`gap`). Acting is more than being elected: a job manager has taken over the tasks and
completes a checkpoint that began after the kill; a resource manager has all task managers with their slots; a
dispatcher shows the job with all its tasks running. Reports `quiet` with the longest such time while nothing is killed,
and `lost` with keys of which a count is missing.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.extend(str(Path(__file__).parents[2] / "tests" / folder) for folder in (".", "integration", "core/store"))

import marks  # beside this file
from counted_output import longest_gap, lost_keys, results
from failover_system import FailoverCluster, failover_cluster  # on the path since above
from system import given, recovering
from waiting import wait_until
from zookeeper_process import running_zookeeper

JOB = Path(__file__).parent / "rescale_job.py"
SETTLING = 2.0  # seconds before each kill, and after another one acts
TASK_MANAGERS, SLOTS = 2, 4
CHECKPOINTS = "200ms"


@contextmanager
def _store(kind: str, session_timeout: str) -> Iterator[dict[str, str]]:
    if kind == "file":
        yield {"high-availability.type": kind}
        return
    with running_zookeeper() as server:
        yield {
            "high-availability.type": kind,
            "high-availability.zookeeper.quorum": f"127.0.0.1:{server.port}",
            "high-availability.zookeeper.client.session-timeout": f"{session_timeout} s",
        }


class Failovers:
    """Kills leaders of a cluster that runs one job."""

    def __init__(self, cluster: FailoverCluster, job_id: str) -> None:
        self._cluster = cluster
        self._job_id = job_id

    def kill_leader(self, kind: str) -> tuple[int, float]:
        """Returns the moment of the kill and the seconds until another one has taken over; starts a new standby."""
        leader = self._cluster.leader(kind, self._job_id if kind == "jobmanager" else "")
        acts: Callable[[], Any] = {
            "jobmanager": lambda: self._cluster.wait_for_checkpoint(self._job_id) or True,
            "resourcemanager": self._has_task_managers,
            "dispatcher": self._shows_the_job,
        }[kind]
        killed = time.monotonic_ns()
        self._cluster.kill_member(leader)
        wait_until(acts, f"another {kind} to act")
        seconds = (time.monotonic_ns() - killed) / 1e9
        time.sleep(SETTLING / 2)  # what starting a process takes is not part of it
        log = self._cluster.directory / "log" / f"{leader}.log"
        starts = log.read_text().count(" is up at ")
        self._cluster.start_member(leader)
        wait_until(lambda: log.read_text().count(" is up at ") > starts, f"{leader} to be up again")
        return killed, seconds

    def _has_task_managers(self) -> bool:
        overview = self._cluster.get("/overview")
        return bool(overview["taskmanagers"] == TASK_MANAGERS and overview["slots-total"] == SLOTS)

    def _shows_the_job(self) -> bool:
        job = self._cluster.get(f"/jobs/{self._job_id}")
        tasks = {state for vertex in job["vertices"] for state, count in vertex["tasks"].items() if count}
        return bool(job["state"] == "RUNNING" and tasks == {"RUNNING"})


def _run(cluster: FailoverCluster, folder: Path, rounds: int, rate: str) -> None:
    out = folder / "out"
    out.mkdir()
    cluster.start_all(task_managers=TASK_MANAGERS)
    options = given(*recovering(folder / "checkpoints", CHECKPOINTS))
    job_id = cluster.submit_running(JOB, *options, parallelism=2, arguments=(str(out), rate))
    failovers = Failovers(cluster, job_id)
    cluster.wait_for_checkpoint(job_id)
    time.sleep(SETTLING)
    quiet_from = time.monotonic_ns()
    time.sleep(2 * SETTLING)
    quiet = quiet_from, time.monotonic_ns()
    spans: list[tuple[str, int, int, float]] = []
    for _ in range(rounds):
        for kind in ("jobmanager", "resourcemanager", "dispatcher"):
            time.sleep(SETTLING)
            killed, seconds = failovers.kill_leader(kind)
            spans.append((kind, killed, killed + round((seconds + SETTLING / 2) * 1e9), seconds))
    attempts = cluster.attempts(job_id)
    cluster.cancel(job_id)
    found = results(out)
    marks.report("quiet", gap=longest_gap(found, *quiet))
    for kind, begin, end, seconds in spans:
        marks.report("failover", service=kind, acting=seconds, gap=longest_gap(found, begin, end))
    marks.report("lost", keys=lost_keys(found), restarted=any(attempts))


def main() -> None:
    kind, session_timeout, rounds, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    with tempfile.TemporaryDirectory(prefix="millstream-failover-") as name, _store(kind, session_timeout) as store:
        folder = Path(name)
        with failover_cluster(folder / "cluster", store) as cluster:
            _run(cluster, folder, rounds, rate)


if __name__ == "__main__":
    main()
